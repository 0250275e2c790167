"""What every sandbox must do, whatever it is made of: bubblewrap, none at all, a container. (macOS's runs on macOS alone; its profile is tested as text.)"""

# ruff: noqa: ASYNC110, ASYNC240 - tests look at files, and other processes set no event

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_engine import IMAGE, FakeEngine, engine_of_this_machine
from running import living, ran, sleeping, until_gone

from handloom.errors import SandboxError
from handloom.sandbox import Sandbox, SandboxSettings, open_sandbox
from handloom.sandbox.sandbox import Stdio
from handloom.testing.tools import FakeContext
from handloom.toolbox.bash import bash
from handloom.toolbox.python import python_execute

pytestmark = pytest.mark.anyio

OWN = f"97.{os.getpid()}"  # nobody else sleeps for just so long
KINDS = ["bwrap", "off", "container"]


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kind = request.param
    with contextlib.ExitStack() as stack:
        if kind == "container":
            # No engine is needed: a stand-in speaks its HTTP, and bubblewrap makes the container. The spawner inside is the real one.
            monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
            stack.enter_context(FakeEngine(tmp_path / "engine.sock"))
        yield SandboxSettings(kind=kind, cache=tmp_path / "cache", image=IMAGE)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "工作").mkdir()
    return tmp_path / "工作"


@pytest.fixture
async def sandbox(workspace: Path, settings: SandboxSettings) -> AsyncIterator[Sandbox]:
    sandbox = await open_sandbox(workspace, settings)
    yield sandbox
    await sandbox.aclose()
    assert living() == [] or settings.kind == "container"


async def test_a_program_runs_in_the_workspace_with_its_output_and_exit_code(sandbox: Sandbox, workspace: Path):
    assert await ran(sandbox, "pwd; echo err >&2; cat; echo data > file; exit 7") == (7, f"{workspace}\nerr")
    assert (workspace / "file").read_text() == "data\n"


async def test_the_end_by_a_signal_is_told(sandbox: Sandbox):
    assert (await ran(sandbox, "kill -9 $$"))[0] == -signal.SIGKILL
    assert (await ran(sandbox, "kill -11 $$"))[0] == -signal.SIGSEGV


async def test_the_environment_is_an_allowlist_and_can_be_added_to(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "canary-123")
    _, output = await ran(sandbox, "env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert "canary" not in output
    assert "GIT_TERMINAL_PROMPT=0" in output
    reading, writing = os.pipe()
    program = await sandbox.spawn(["bash", "-c", "echo $OWN"], stdio=Stdio(stdout=writing), env={"OWN": "值"})
    os.close(writing)
    await program.wait()
    assert os.read(reading, 100).decode() == "值\n"
    os.close(reading)


async def test_descriptors_keep_their_numbers(sandbox: Sandbox):
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            number = theirs.fileno()
            program = await sandbox.spawn(
                ["bash", "-c", f"read x <&{number}; echo got $x >&{number}"], stdio=Stdio(), pass_fds=(number,)
            )
        ours.sendall(b"hello\n")
        assert await asyncio.to_thread(ours.recv, 100) == b"got hello\n"
        assert await program.wait() == 0
        assert await asyncio.to_thread(ours.recv, 100) == b""


async def test_a_signal_reaches_the_program_or_what_it_started(sandbox: Sandbox, workspace: Path):
    script = "trap 'echo int > int' INT; sleep 98 & first=$!; touch ready; wait; wait $first; echo $? > status; exit 3"
    program = await sandbox.spawn(["bash", "-c", script], stdio=Stdio())
    await _until((workspace / "ready").exists)
    await _until_async(program.others)
    await program.signal(signal.SIGINT)
    await _until((workspace / "int").exists)
    assert not (workspace / "status").exists()
    await program.signal_others(signal.SIGKILL, spare=await program.others())
    assert not (workspace / "status").exists()
    await program.signal_others(signal.SIGKILL)
    assert await program.wait() == 3
    assert (workspace / "status").read_text() == "137\n"


async def test_killing_ends_the_whole_tree(sandbox: Sandbox):
    program = await sandbox.spawn(
        ["bash", "-c", f"setsid sleep {OWN} & nohup sleep {OWN} & (sleep {OWN} &) ; sleep {OWN}"], stdio=Stdio()
    )
    async with asyncio.timeout(20):
        while len(started := sleeping(OWN)) < 4:
            await asyncio.sleep(0.01)
    program.kill()
    assert await program.wait() < 0
    await until_gone(started)
    program.kill()


async def test_a_program_that_is_not_there_is_said(sandbox: Sandbox):
    """Where the sandbox's own helper starts it, by the exit code."""
    if sandbox.kind == "container":
        with pytest.raises(SandboxError, match="cannot be started"):
            await sandbox.spawn(["no-such-program-x"], stdio=Stdio())
    else:
        program = await sandbox.spawn(["no-such-program-x"], stdio=Stdio())
        assert await program.wait() != 0


async def test_the_shared_folder_is_on_both_sides(sandbox: Sandbox):
    (sandbox.shared.outside / "note").write_text("注")
    (sandbox.shared.outside / "note").chmod(0o644)
    assert await ran(sandbox, f"cat {sandbox.shared.inside}/note") == (0, "注")


async def test_the_banner_says_what_holds_or_that_nothing_does(sandbox: Sandbox, workspace: Path):
    assert str(workspace) in sandbox.banner
    assert sandbox.isolated == ("UNSANDBOXED" not in sandbox.banner)
    assert sandbox.isolated == (sandbox.kind != "off")


async def test_only_the_workspace_can_be_written_where_there_is_a_sandbox(sandbox: Sandbox):
    if sandbox.isolated:
        code, output = await ran(sandbox, "touch /usr/x /etc/x")
        assert code != 0
        assert "Read-only file system" in output
    else:
        assert (await ran(sandbox, "touch /dev/null"))[0] == 0


async def test_bash_and_python_work_in_it(workspace: Path, settings: SandboxSettings):
    async with FakeContext(workspace, sandbox=settings) as context:

        async def sh(command: str, seconds: float = 20) -> str:
            return (await bash.run({"command": command, "timeout": seconds}, context)).text

        async def py(code: str, seconds: float = 20) -> str:
            return (await python_execute.run({"code": code, "timeout": seconds}, context)).text

        assert await sh("x=5; sleep 95 & echo $x") == "[1] " + (await sh("echo $!")) + "\n5"
        assert "timed out" in await sh("sleep 1000", 0.3)
        assert await sh("echo $x; jobs -r | grep -c sleep") == "5\n1"
        assert await py("y = 6\ny * 7") == "42"
        assert "variables are kept" in await py("while True: pass", 0.3)
        assert await py("import os\nos.system('exit 3')\ny") == "6"
        assert "exit code 3" in await py("import os; os._exit(3)")
        assert "signal 11" in await py("import ctypes; ctypes.string_at(0)")
        assert "status 7" in await sh("exit 7")
        assert await sh("echo [$x]") == "[]"


async def test_closing_leaves_nothing(workspace: Path, settings: SandboxSettings):
    sandbox = await open_sandbox(workspace, settings)
    await sandbox.spawn(["bash", "-c", f"setsid sleep {OWN} & sleep {OWN}"], stdio=Stdio())
    async with asyncio.timeout(20):
        while len(started := sleeping(OWN)) < 2:
            await asyncio.sleep(0.01)
    await sandbox.aclose()
    await until_gone(started)
    assert not sandbox.shared.outside.exists()
    assert list(workspace.iterdir()) == []


@pytest.mark.skipif(
    not engine_of_this_machine(), reason="no container engine runs on this machine; its stand-in is tested above"
)
async def test_a_real_engine_runs_bash_and_python(tmp_path: Path):
    async with FakeContext(tmp_path, sandbox="container") as context:
        assert (await bash.run({"command": "id -u; touch made"}, context)).ok
        assert (await python_execute.run({"code": "6 * 7"}, context)).text == "42"


async def _until(true) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


async def _until_async(true) -> None:
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.01)
