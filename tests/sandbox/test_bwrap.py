"""bubblewrap against what tries to get out: each probe is a program that would show or change something of the machine if it could."""

# ruff: noqa: ASYNC110, ASYNC240 - tests look at files, and other processes set no event

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from running import folders, living, ran

from handloom.errors import SandboxError
from handloom.sandbox import Sandbox, SandboxSettings, open_sandbox
from handloom.sandbox.sandbox import Stdio
from handloom.testing.tools import FakeContext
from handloom.toolbox.bash import bash
from handloom.toolbox.python import python_execute

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def settings(tmp_path: Path) -> SandboxSettings:
    return SandboxSettings(kind="bwrap", cache=tmp_path / "cache")


@pytest.fixture
async def sandbox(workspace: Path, settings: SandboxSettings) -> AsyncIterator[Sandbox]:
    sandbox = await open_sandbox(workspace, settings)
    yield sandbox
    await sandbox.aclose()


class TestEscapes:
    @pytest.mark.parametrize(
        "script",
        [
            "mount -o remount,rw /",
            "mount -o remount,bind,rw /usr",
            "mount -o remount,bind,rw /etc && touch /etc/handloom-x",
            "mount -t tmpfs x /tmp",
            "umount /proc || umount -l /etc/ssh",
            "unshare -U true",
            "unshare -Ur mount -t tmpfs x /mnt",
            "unshare -m true",
            "chroot / true",
            "mknod /tmp/sda b 8 0",
            "nsenter -t 1 -m true",
            "cat /etc/shadow | grep .",
            "ls -A /etc/ssh | grep .",
            "ls -A /run | grep -v '^handloom$'",
            "ls -A ~/.ssh ~/.aws ~/.gnupg 2>/dev/null | grep .",
            "ls /sys/fs/cgroup | grep .",
            "cp /proc/sys/kernel/core_pattern /tmp/x && cat /tmp/x > /proc/sys/kernel/core_pattern",
            "cp /proc/sys/vm/swappiness /tmp/x && cat /tmp/x > /proc/sys/vm/swappiness",
            "find /proc/sys /proc/fs /proc/bus /proc/irq /proc/[a-z]* -maxdepth 6 -type f -writable 2>/dev/null | grep -v -e '^/proc/self' -e '^/proc/thread-self' | grep .",
            "true >> /proc/sysrq-trigger",
            "cat /dev/sda /dev/vda /dev/mem /dev/kmsg /proc/kcore | head -c 1 | grep .",
            "setpriv --reuid 12345 true",
            "chown 12345 .",
            "hostname other",
            "date -s 2000-01-01",
            "dmesg | grep .",
            "renice -n -5 $$",
            'python3 -c \'import fcntl, termios; fcntl.ioctl(open("/dev/tty"), termios.TIOCSTI, b"x")\'',
            "exec 3<>/dev/tcp/127.0.0.1/22",
            "ls -A /home /mnt /media /srv /boot 2>/dev/null | grep .",
        ],
    )
    async def test_a_way_out_is_closed(self, sandbox: Sandbox, script: str):
        code, output = await ran(sandbox, script)
        assert code != 0, output
        assert not Path("/etc/handloom-x").exists()

    async def test_no_capability_is_left(self, sandbox: Sandbox):
        _, output = await ran(
            sandbox, "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status; cat /proc/self/uid_map"
        )
        lines = output.split("\n")
        assert all(line.endswith("0000000000000000") for line in lines[:5])
        assert lines[5].split() == ["NoNewPrivs:", "1"]

    async def test_processes_of_the_machine_are_not_there(self, sandbox: Sandbox):
        _, output = await ran(sandbox, "cat /proc/[0-9]*/comm; ls /proc | grep -c '^[0-9]'")
        assert "pytest" not in output
        assert int(output.rpartition("\n")[2]) < 10
        assert (await ran(sandbox, f"kill -0 {os.getpid()}"))[0] != 0

    async def test_no_network_but_its_own_loopback(self, sandbox: Sandbox):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert (await ran(sandbox, f"exec 3<>/dev/tcp/127.0.0.1/{port}"))[0] != 0
        _, output = await ran(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1")
        assert output.split() == ["lo"]
        code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('ok')"
        assert await ran(sandbox, f'{sys.executable} -c "{code}"') == (0, "ok")

    async def test_the_full_network_is_there_when_it_is_asked_for(self, workspace: Path, settings: SandboxSettings):
        sandbox = await open_sandbox(workspace, replace(settings, net="full"))
        assert "full network" in sandbox.banner
        with socket.create_server(("127.0.0.1", 0)) as server:
            assert await ran(
                sandbox, f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && cat /etc/resolv.conf >/dev/null"
            ) == (0, "")
        await sandbox.aclose()

    async def test_abstract_sockets_of_the_machine_are_not_there(self, sandbox: Sandbox):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0handloom-probe")
            server.listen()
            code = "import socket; socket.socket(socket.AF_UNIX).connect('\\0handloom-probe')"
            assert (await ran(sandbox, f'{sys.executable} -c "{code}"'))[0] != 0

    async def test_a_link_out_of_the_workspace_leads_nowhere(self, sandbox: Sandbox, workspace: Path, tmp_path: Path):
        (tmp_path / "secret").write_text("canary")
        (workspace / "link").symlink_to(tmp_path / "secret")
        _, output = await ran(sandbox, "cat link; echo x > link")
        assert "canary" not in output
        assert (tmp_path / "secret").read_text() == "canary"


class TestWhatIsThere:
    async def test_the_interpreter_and_this_package_are_there_and_cannot_be_written(self, sandbox: Sandbox):
        import handloom

        package = Path(handloom.__file__).parent
        assert await ran(sandbox, f"{sandbox.python} -c 'import handloom, msgspec; print(1)'") == (0, "1")
        assert (await ran(sandbox, f"touch {package}/x || touch {sys.prefix}/x || touch {sys.base_prefix}/x"))[0] != 0

    async def test_an_environment_inside_the_workspace_cannot_be_written(
        self, tmp_path: Path, settings: SandboxSettings
    ):
        """What was put there would run outside, as this program."""
        (workspace := tmp_path / "project").mkdir()
        subprocess = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "venv", "--without-pip", str(workspace / ".venv")
        )
        assert await subprocess.wait() == 0
        script = tmp_path / "probe.py"
        script.write_text(f"""if True:
            import asyncio, pathlib, sys
            sys.path[:0] = {sys.path!r}
            from handloom.testing.tools import FakeContext
            from handloom.toolbox.bash import bash
            async def main():
                async with FakeContext(pathlib.Path({str(workspace)!r})) as context:
                    print((await bash.run({{"command": "touch .venv/x .venv/bin/x; touch fine; python -c 'import sys; print(sys.prefix)'"}}, context)).text)
            asyncio.run(main())
        """)
        probe = await asyncio.create_subprocess_exec(
            str(workspace / ".venv/bin/python"),
            str(script),
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        output, _ = await probe.communicate()
        assert output.decode().rstrip().endswith(str(workspace / ".venv"))
        assert output.count(b"Read-only file system") == 2
        assert (workspace / "fine").exists()

    async def test_more_paths_can_be_made_readable(self, workspace: Path, settings: SandboxSettings, tmp_path: Path):
        (tmp_path / "data").mkdir()
        (tmp_path / "data/数.csv").write_text("1,2\n")
        sandbox = await open_sandbox(workspace, replace(settings, readable=(tmp_path / "data",)))
        assert await ran(sandbox, f"cat {tmp_path}/data/*.csv; touch {tmp_path}/data/x") != (0, "1,2")
        assert (await ran(sandbox, f"cat {tmp_path}/data/*.csv")) == (0, "1,2")
        await sandbox.aclose()

    async def test_the_home_folder_as_workspace_does_not_show_its_secrets(
        self, tmp_path: Path, settings: SandboxSettings, monkeypatch: pytest.MonkeyPatch
    ):
        home = tmp_path / "home"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh/id_rsa").write_text("canary")
        (home / ".netrc").write_text("canary")
        (home / "notes").write_text("fine")
        monkeypatch.setenv("HOME", str(home))
        sandbox = await open_sandbox(home, settings)
        _, output = await ran(sandbox, "cat notes .ssh/id_rsa .netrc; touch .ssh/x; ls -A .ssh")
        await sandbox.aclose()
        assert output.startswith("fine")
        assert "canary" not in output
        assert sorted(path.name for path in (home / ".ssh").iterdir()) == ["id_rsa"]

    async def test_the_cache_is_kept_between_sandboxes(self, workspace: Path, settings: SandboxSettings):
        for expected in ("none", "kept"):
            sandbox = await open_sandbox(workspace, settings)
            assert await ran(
                sandbox, 'cat "$XDG_CACHE_HOME/note" 2>/dev/null || echo none; echo kept > "$XDG_CACHE_HOME/note"'
            ) == (0, expected)
            await sandbox.aclose()

    async def test_a_workspace_of_another_user_is_worked_in_as_that_user(
        self, workspace: Path, settings: SandboxSettings
    ):
        """As root; whoever is not root can only be who they are."""
        owner = 54321 if os.geteuid() == 0 else os.geteuid()
        if os.geteuid() == 0:
            os.chown(workspace, owner, owner)
        async with FakeContext(workspace, sandbox=settings) as context:
            result = await bash.run(
                {
                    "command": "id -u; echo data > made; unshare -U true; mount -o remount,rw /; kill -9 1; grep CapBnd /proc/self/status"
                },
                context,
            )
            assert result.text.startswith(f"{owner}\n")
            assert result.text.endswith("CapBnd:\t0000000000000000")
            assert (
                await python_execute.run({"code": "import os\nopen('py', 'w').close()\nos.getuid()"}, context)
            ).text == str(owner)
            stopped = await bash.run({"command": "sleep 99", "timeout": 0.3}, context)
            assert "the session lives" in stopped.text
        assert {path.name: path.stat().st_uid for path in workspace.iterdir()} == {"made": owner, "py": owner}
        assert living() == []

    async def test_the_hooks_of_a_repository_below_cannot_be_changed(self, workspace: Path, settings: SandboxSettings):
        (workspace / "lib/.git/hooks").mkdir(parents=True)
        (workspace / "lib/.git/config").write_text("[core]\n")
        async with FakeContext(workspace, sandbox=settings) as context:
            command = "echo x > lib/.git/hooks/post-checkout; echo x >> lib/.git/config; mv lib/.git lib/old; echo x > lib/.git/HEAD && echo 好"
            result = await bash.run({"command": command}, context)
        assert result.text.count("Read-only") == 2
        assert result.text.endswith("好")
        assert (workspace / "lib/.git/config").read_text() == "[core]\n"
        assert not (workspace / "lib/.git/hooks/post-checkout").exists()


class TestOpening:
    @pytest.mark.parametrize("place", ["/", "/usr", "/etc", "/tmp"])
    async def test_a_folder_of_the_system_is_no_workspace(self, settings: SandboxSettings, place: str):
        with pytest.raises(SandboxError, match="choose a folder of a project"):
            await open_sandbox(Path(place), settings)

    async def test_a_workspace_that_is_not_there_is_said(self, settings: SandboxSettings, tmp_path: Path):
        with pytest.raises(SandboxError, match="no such folder; create it"):
            await open_sandbox(tmp_path / "gone", settings)

    async def test_what_a_killed_owner_left_is_removed_by_the_next_sandbox(
        self, workspace: Path, settings: SandboxSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        script = f"""if True:
            import asyncio, os, pathlib, signal
            from handloom.sandbox import SandboxSettings, open_sandbox
            from handloom.sandbox.sandbox import Stdio
            async def main():
                sandbox = await open_sandbox(pathlib.Path({str(workspace)!r}), SandboxSettings(cache=pathlib.Path({str(tmp_path / "cache")!r})))
                program = await sandbox.spawn(["bash", "-c", "mkdir -p ~/a /tmp/b; chmod 0 ~/a; ln -s {workspace}/file /tmp/link"], stdio=Stdio())
                await program.wait()
                os.kill(os.getpid(), signal.SIGKILL)
            asyncio.run(main())
        """
        (workspace / "file").write_text("kept")
        (temporary := tmp_path / "temporary").mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
        await process.wait()
        assert len(folders(temporary)) == 1
        monkeypatch.setattr("tempfile.tempdir", None)
        sandbox = await open_sandbox(workspace, settings)
        assert len(folders(temporary)) == 1
        await ran(sandbox, "true")
        await sandbox.aclose()
        assert folders(temporary) == []
        assert sorted(path.name for path in workspace.iterdir()) == ["file"]
        assert (workspace / "file").read_text() == "kept"

    async def test_two_sandboxes_of_one_workspace_live_side_by_side(self, workspace: Path, settings: SandboxSettings):
        first, second = await asyncio.gather(open_sandbox(workspace, settings), open_sandbox(workspace, settings))
        await ran(first, "echo 1 > /tmp/own; echo 1 > shared")
        reading, writing = os.pipe()
        waiting = await second.spawn(["bash", "-c", "read x; echo evil > .envrc"], stdio=Stdio(stdin=reading))
        assert await ran(second, "cat /tmp/own 2>/dev/null; cat shared") == (0, "1")
        await first.aclose()
        assert (await ran(second, "echo ok")) == (0, "ok")
        os.write(writing, b"now\n")
        assert await waiting.wait() != 0
        assert (await ran(second, "echo evil > .envrc"))[0] != 0
        os.close(reading)
        os.close(writing)
        await second.aclose()
        assert [path.name for path in workspace.iterdir()] == ["shared"]


async def test_kill_9_of_the_owner_leaves_no_process(workspace: Path, tmp_path: Path):
    script = f"""if True:
        import asyncio, pathlib
        from handloom.testing.tools import FakeContext
        from handloom.toolbox.bash import bash
        from handloom.toolbox.python import python_execute
        async def main():
            async with FakeContext(pathlib.Path({str(workspace)!r})) as context:
                await bash.run({{"command": "setsid sleep 99 & nohup sleep 99 & (trap '' INT TERM HUP; sleep 99) &"}}, context)
                work = python_execute.run({{"code": "import subprocess\\nsubprocess.Popen(['sleep', '99'])\\nopen('started', 'w')\\nwhile True: pass", "timeout": 60}}, context)
                await asyncio.gather(work, bash.run({{"command": "sleep 99", "timeout": 60}}, context))
        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    try:
        async with asyncio.timeout(20):
            while not (workspace / "started").exists() or sum(one.name() == "sleep" for one in living(process.pid)) < 5:
                await asyncio.sleep(0.02)
        started = living(process.pid)
    finally:
        process.kill()
        await process.wait()
    assert len(started) > 8
    async with asyncio.timeout(5):
        while any(one.is_running() and one.status() != "zombie" for one in started):
            await asyncio.sleep(0.01)


async def test_output_is_not_lost_when_a_program_ends_at_once(sandbox: Sandbox):
    reading, writing = os.pipe()
    program = await sandbox.spawn(["echo", "x"], stdio=Stdio(stdout=writing))
    os.close(writing)
    assert await program.wait() == 0
    assert os.read(reading, 10) == b"x\n"
    os.close(reading)
