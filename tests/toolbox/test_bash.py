"""bash, in a real sandbox. b1 to b23 are rows of the table of faulty input; after each the session must be usable."""

# ruff: noqa: ASYNC110, ASYNC240 - tests look at files, and other processes set no event

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.agents import Agent
from handloom.agents.recall import read_result
from handloom.errors import ToolError
from handloom.journal import MemoryStore
from handloom.messages import ToolResult
from handloom.prompts import toolcall
from handloom.runs import Run
from handloom.sandbox import SandboxSettings
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.testing.tools import FakeContext
from handloom.toolbox.bash import bash
from handloom.toolbox.terminate import terminate_tool

pytestmark = pytest.mark.anyio

Bash = Callable[..., Awaitable[ToolResult]]


class Session:
    """`await session(command)`; the closing check that the next command works."""

    def __init__(self, context: FakeContext) -> None:
        self.context = context

    async def __call__(self, command: str, seconds: float = 20, *, restart: bool = False) -> ToolResult:
        return await bash.run({"command": command, "timeout": seconds, "restart": restart}, self.context)

    async def works(self) -> None:
        result = await self("echo us'able'")
        assert (result.ok, result.text.split("\n")[-1]) == (True, "usable")


@contextlib.asynccontextmanager
async def opened(workspace: Path, wanted: SandboxSettings | None = None) -> AsyncIterator[Session]:
    async with FakeContext(workspace, sandbox=wanted or "auto") as context:
        session = Session(context)
        yield session
        await session.works()


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with opened(tmp_path) as session:
        yield session


def family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def named(name: str) -> list[psutil.Process]:
    found = []
    for process in family():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


class TestSession:
    async def test_variables_directory_functions_and_status_stay(self, session: Session):
        await session("x=5; mkdir sub; cd sub; greet() { echo hello $1; }")
        assert (await session('echo $x "${PWD##*/}"; greet 世界')).text == "5 sub\nhello 世界"
        await session("(exit 3)")
        assert (await session("echo $?")).text == "3"

    async def test_stdout_and_stderr_come_in_order_with_the_exit_code(self, session: Session):
        result = await session("echo one; echo two >&2; echo three; exit_code() { return 4; }; exit_code")
        assert (result.ok, result.text) == (False, "one\ntwo\nthree\n[exit code 4]")

    async def test_a_silent_success_says_so(self, session: Session):
        result = await session("true")
        assert (result.ok, result.silent, result.text) == (True, True, "(no output)")

    async def test_restart_gives_a_new_shell_and_ends_jobs(self, session: Session):
        await session("x=5; sleep 99 &")
        result = await session("", restart=True)
        assert (result.ok, "new shell" in result.text) == (True, True)
        assert (await session("echo [$x]")).text == "[]"
        await until(lambda: not named("sleep"))
        assert (await session("echo [$x]", restart=True)).text == "[]"

    async def test_python_is_the_interpreter_that_runs_this(self, session: Session):
        assert (await session("python -c 'import msgspec; print(6 * 7)'")).text == "42"

    async def test_both_sessions_share_files_and_tmp(self, session: Session, tmp_path: Path):
        await session("echo data > file.txt; echo more > /tmp/other.txt")
        assert (tmp_path / "file.txt").read_text() == "data\n"
        assert (await session("cat /tmp/other.txt", restart=True)).text == "more"

    async def test_cancellation_at_any_moment_keeps_the_session(self, session: Session, tmp_path: Path):
        """Also while the shell forks: the copy must not become a second shell, nor a child be left that the shell waits for."""
        await session("x=5")
        for moment in range(30):
            (tmp_path / "started").unlink(missing_ok=True)
            call = asyncio.create_task(session("touch started; sleep 99"))
            await until((tmp_path / "started").exists)
            await asyncio.sleep(0.0004 * (moment % 10))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await session("echo $x", 5)).text == "5"

    @pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
    async def test_a_timeout_out_of_bounds_is_refused(self, session: Session, seconds: float):
        with pytest.raises(ToolError, match="between 0 and 3600"):
            await session("true", seconds)

    async def test_no_command_is_refused(self, session: Session):
        with pytest.raises(ToolError, match="give a command"):
            await session("  ")

    async def test_cancellation_interrupts_and_keeps_the_session(self, session: Session, tmp_path: Path):
        await session("x=5")
        call = asyncio.create_task(session("touch started; sleep 99"))
        await until((tmp_path / "started").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await session("echo $x")).text == "5"
        assert not named("sleep")

    async def test_the_settings_bound_the_result(self, tmp_path: Path):
        async with opened(tmp_path, SandboxSettings(output=2_000)) as session:
            assert len((await session("seq 100000")).text) <= 2_000


class TestStopping:
    async def test_b1_a_busy_loop_is_interrupted_and_the_session_lives(self, session: Session):
        await session("x=5")
        result = await session("echo so far; while :; do :; done", 0.4)
        assert not result.ok
        assert result.text.startswith("so far")
        assert "timed out after 0.4 s" in result.text
        assert "variables and background jobs are kept" in result.text
        assert (await session("echo $x")).text == "5"

    async def test_b2_a_sleeping_child_is_interrupted_and_earlier_jobs_live(self, session: Session):
        await session("x=5; sleep 98 &")
        result = await session("sleep 1000", 0.4)
        assert (result.ok, "timed out" in result.text) == (False, True)
        assert (await session("echo $x; jobs -r | grep -c sleep")).text == "5\n1"

    async def test_b2_a_pipeline_and_a_subshell_are_interrupted(self, session: Session):
        result = await session("(sleep 1000; echo no) | cat; (while :; do sleep 0.01; done)", 0.4)
        assert (result.ok, "timed out" in result.text) == (False, True)
        await until(lambda: not named("sleep"))

    async def test_b3_a_child_that_ignores_interrupts_is_killed(self, session: Session):
        await session("x=5")
        result = await session("bash -c 'trap \"\" INT; while :; do sleep 0.1; done'", 0.3)
        assert (result.ok, "timed out" in result.text) == (False, True)
        assert (await session("echo $x")).text == "5"

    async def test_b3_a_shell_that_ignores_interrupts_is_replaced_and_that_is_said(self, session: Session):
        result = await session("trap '' INT; while :; do :; done", 0.3)
        assert not result.ok
        assert "timed out after 0.3 s" in result.text
        assert "the shell was killed" in result.text
        assert "variables, directory and background jobs are gone" in result.text

    async def test_b4_a_fork_bomb_is_stopped_and_that_is_said(self, tmp_path: Path):
        async with opened(tmp_path, SandboxSettings(procs=64)) as session:
            first = await session(":(){ :|:& };:")
            result = first if not first.ok else await session("sleep 5; echo alive", 10)
            assert "more than 64 processes" in result.text
            assert not result.ok
            await until(lambda: len(family()) < 64)

    async def test_b4_many_processes_within_the_limit_are_fine(self, session: Session):
        assert (await session("for i in $(seq 100); do sleep 0.1 & done; wait; echo done")).text.endswith("done")


class TestOutput:
    @pytest.mark.parametrize("command", ["yes", "cat /dev/urandom"])
    async def test_b5_endless_output_is_stopped_with_bounded_memory(self, session: Session, command: str):
        before = psutil.Process().memory_info().rss
        result = await session(f"x=5; {command}")
        assert not result.ok
        assert "stopped after 50 MB of output" in result.text
        assert len(result.text) <= 32_000
        assert psutil.Process().memory_info().rss - before < 20_000_000
        assert (await session("echo $x")).text == "5"

    async def test_b6_one_long_line_keeps_head_and_tail_and_counts_the_rest(self, session: Session):
        result = await session("printf a; head -c 3000000 /dev/zero | tr '\\0' x; printf z")
        assert result.ok
        assert len(result.text) <= 32_000
        assert result.text[0] + result.text[-1] == "az"
        assert "bytes left out" in result.text
        assert 'read_result("call-1") shows all' in result.text
        assert len(session.context.recall("call-1")) == 3_000_002

    async def test_b6_medium_output_can_be_read_whole_too(self, session: Session):
        result = await session("seq 10000")
        assert (result.ok, result.spill != "", len(result.text) <= 32_000) == (True, True, True)
        assert session.context.recall("call-1") == "\n".join(map(str, range(1, 10_001)))

    async def test_b7_control_bytes_become_plain_text(self, session: Session):
        result = await session(
            r"printf 'a\0b\xff \e[31mred\e[0m \e]0;title\a 10%%\r20%%\n\u202eabc \U000e0041'; echo; echo 完成"
        )
        assert json.loads(json.dumps(result.text)) == result.text
        assert result.text.isprintable() or "\n" in result.text
        assert not {"\x00", "\x1b", "\r", "\u202e", "\U000e0041"} & set(result.text)
        assert "20%" in result.text
        assert result.text.endswith("完成")

    async def test_b14_an_imitated_end_is_output_like_any_other(self, session: Session):
        result = await session(
            r"printf '%s 0 /\0' deadbeefdeadbeef; for fd in 10 198 199; do echo x >&$fd; done; echo after; false"
        )
        assert not result.ok
        assert result.text.startswith("deadbeefdeadbeef 0 /")
        assert result.text.endswith("after\n[exit code 1]")

    async def test_b15_jobs_outlive_their_command_and_none_outlives_the_session(self, tmp_path: Path):
        async with opened(tmp_path) as session:
            result = await session("sleep 91 & nohup sleep 92 & setsid sleep 93 & (sleep 94 &)")
            assert result.ok
            await until(lambda: len(named("sleep")) == 4)
            assert (await session("pgrep -c sleep")).text == "4"
        assert not named("sleep")

    async def test_b16_what_a_job_prints_later_is_labelled(self, session: Session):
        await session("(sleep 0.1; echo late) & (sleep 0.6; echo later) &")
        assert (await session("sleep 0.3; echo now")).text == "now"
        result = await session("sleep 0.5; echo again")
        assert "[background output of `(sleep 0.1; echo late) &" in result.text
        assert "late\n[end of background output]\nagain" in result.text
        assert "later\n[end of background output]" in (await session("true")).text

    async def test_all_that_a_job_printed_can_be_read_though_little_is_shown(self, tmp_path: Path):
        async with FakeContext(tmp_path, sandbox="bwrap") as context:
            await bash.run({"command": "(sleep 0.1; seq 3000) &"}, context)
            await bash.run({"command": "sleep 0.5"}, context)
            result = await bash.run({"command": "echo again"}, context)
            whole = context.spill_file().read_text(encoding="utf-8")
        assert result.spill
        assert "more characters left out; read_result(" in result.text
        assert "\n3000\n[end of background output]\nagain" in result.text
        assert "\n1500\n" not in result.text
        assert whole.startswith("again\n[background output of")
        assert "\n1500\n" in whole

    @settings(max_examples=20)
    @given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"]), max_size=200))
    def test_text_comes_back_as_it_was_sent(self, text: str):
        async def roundtrip(folder: Path) -> str:
            async with FakeContext(folder, sandbox="off") as context:
                quoted = text.replace("'", "'\\''")
                return (await bash.run({"command": f"printf '%s' '<{quoted}>'"}, context)).text

        with tempfile.TemporaryDirectory() as folder:
            assert asyncio.run(roundtrip(Path(folder))) == f"<{text}>"


class TestFaultyCommands:
    async def test_b8_nul_bytes_and_huge_commands_are_refused_before_they_run(self, session: Session, tmp_path: Path):
        with pytest.raises(ToolError, match="NUL byte"):
            await session("touch made\0")
        with pytest.raises(ToolError, match=r"longer than 1,000,000 bytes"):
            await session("touch made #" + "x" * 1_000_001)
        assert not (tmp_path / "made").exists()

    async def test_b8_a_command_just_below_the_limit_runs(self, session: Session):
        assert (await session(f"x='{'a' * 300_000}'; echo ${{#x}}")).text == "300000"

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ("read x; echo read:$?", "read:1"),
            ("cat; echo end", "end"),
            ("python -c 'input()'", "EOFError"),
            ("ssh -o BatchMode=no nobody@192.0.2.1 true", ""),
            ("git -c core.askpass= clone -q https://user@192.0.2.1/x.git", ""),
            ("sudo -S true", ""),
        ],
    )
    async def test_b9_whoever_asks_finds_the_end_of_input(self, session: Session, command: str, words: str):
        result = await session(command, 10)
        assert "timed out" not in result.text
        assert words in result.text

    @pytest.mark.parametrize(
        "command", ["vim", "vi -c q", "less /etc/passwd", "more /etc/passwd", "top -n 1", "man ls"]
    )
    async def test_b10_programs_that_want_a_terminal_end_or_time_out(self, session: Session, command: str):
        result = await session(command, 1)
        assert "timed out" not in result.text or "no terminal" in result.text

    async def test_b10_a_terminal_program_that_times_out_is_explained(self, session: Session):
        result = await session("top() { sleep 99; }; top", 0.3)
        assert (result.ok, "there is no terminal" in result.text) == (False, True)

    @pytest.mark.parametrize("command", ['echo "abc', "for x in 1 2", "if true; then", "echo $(", "}", ")", "cat <<"])
    async def test_b11_half_a_command_is_a_syntax_error(self, session: Session, command: str):
        await session("x=5")
        result = await session(command)
        assert not result.ok
        assert "syntax error" in result.text or "unexpected EOF" in result.text
        assert "[exit code " in result.text
        assert (await session("echo $x")).text == "5"

    async def test_b11_a_heredoc_without_its_end_is_taken_to_the_end(self, session: Session):
        result = await session("x=5; cat <<EOF\nhello")
        assert "hello" in result.text
        assert (await session("echo $x")).text == "5"

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ("exit 7", "status 7"),
            ("set -e; false", "status 1"),
            ("exec true", "status 0"),
            ("kill -9 $$", "signal 9"),
            ("exec sleep 0.1", "status 0"),
        ],
    )
    async def test_b12_the_end_of_the_shell_is_told_and_a_new_one_follows(
        self, session: Session, command: str, words: str
    ):
        await session("x=5")
        result = await session(f"echo so far; {command}")
        assert not result.ok
        assert result.text.startswith("so far")
        assert words in result.text
        assert "variables, directory and background jobs are gone" in result.text
        assert (await session("echo [$x]")).text == "[]"

    async def test_b12_a_shell_that_died_between_two_commands_is_told(self, session: Session):
        await session("(sleep 0.2; kill -9 $$) & true")
        await until(lambda: not named("bash"))
        result = await session("echo next")
        assert result.ok
        assert "since the last command the shell was lost" in result.text
        assert result.text.endswith("next")

    @pytest.mark.parametrize(
        "command",
        [
            "exec >/dev/null",
            "exec 1>&-",
            "exec 2>&1 >/dev/null </dev/zero",
            "PS1='$ '; PS2=x; PROMPT_COMMAND='echo prompt'",
            "unset -f $(compgen -A function); unset IFS HOME",
            "alias echo='false' builtin=false eval=false printf=false read=false; shopt -s expand_aliases; unalias -a",
            "set -u; set -f; set -o noclobber; set -o posix",
            "shopt -s histverify; set -H; set -o history",
            "trap 'x=1' DEBUG; trap 'true' ERR EXIT; false",
            "ulimit -f 1; exec 9>/dev/null 8</dev/null",
            "printf() { echo mine; }; echo_() { :; }; cd() { :; }",
            "IFS=x; x=1; readonly y=2",
        ],
    )
    async def test_b13_later_commands_are_unaffected(self, session: Session, command: str):
        await session(command)
        assert (await session("echo 'a!b' us'able' $((1 + 1))")).text.split("\n")[-1] == "a!b usable 2"

    async def test_b23_two_calls_at_once_wait_for_each_other(self, session: Session):
        await session("n=0")
        await asyncio.gather(*(session("k=$n; sleep 0.05; n=$((k + 1))") for _ in range(3)))
        assert (await session("echo $n")).text == "3"


class TestTheMachine:
    async def test_b17_too_much_memory_or_too_large_a_file_is_an_error_of_the_program(self, tmp_path: Path):
        async with opened(tmp_path, SandboxSettings(memory_mb=256, file_mb=5)) as session:
            result = await session("python -c 'x = bytearray(10**10)'")
            assert (result.ok, "MemoryError" in result.text) == (False, True)
            result = await session("head -c 100M /dev/zero > big; echo status $?; ls -s --block-size=1M big")
            assert "status 153" in result.text
            assert result.text.endswith("5 big")
            result = await session("head -c 100M /dev/zero > big")
            assert "a file would have become larger than may be written" in result.text

    async def test_b17_many_processes_that_fill_the_memory_together_are_stopped(self, tmp_path: Path):
        async with opened(tmp_path, SandboxSettings(memory_mb=64)) as session:
            code = "import time; x = bytearray(50_000_000); time.sleep(20)"
            result = await session(f"for i in 1 2 3 4; do python -c '{code}' & done; wait")
            assert (result.ok, "more than 128 MB of memory" in result.text) == (False, True)

    async def test_b18_orphans_are_reaped(self, session: Session):
        await session("for i in $(seq 200); do (true &); done")
        counted = "ps -eo stat,comm | tail -n +2 | grep -cv -e bwrap -e bash -e ps -e tail -e grep"
        await session("sleep 0.1")
        assert (await session(counted)).text.split("\n")[0] == "0"

    async def test_b19_a_deleted_directory_is_left_for_the_workspace(self, session: Session, tmp_path: Path):
        await session("mkdir gone; cd gone; rmdir ../gone")
        result = await session("pwd")
        assert "the working directory was deleted" in result.text
        assert result.text.endswith(str(tmp_path))

    async def test_b19_a_deleted_workspace_is_said_and_a_new_one_is_used(self, tmp_path: Path):
        (workspace := tmp_path / "ws").mkdir()
        async with opened(workspace) as session:
            await session("true")
            shutil.rmtree(workspace)
            with pytest.raises(ToolError, match="is gone; create the folder again"):
                await session("pwd")
            workspace.mkdir()

    async def test_b20_keys_environment_other_processes_and_sockets_are_not_there(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("SOME_API_KEY", "canary-123")
        result = await session(
            "cat ~/.ssh/* /etc/shadow /etc/ssh/*; ls -A ~/.ssh ~/.config /var/run/docker.sock; env; cat /proc/*/environ; docker ps; ps ax; echo end"
        )
        assert "canary" not in result.text
        assert "root:" not in result.text
        assert "pytest" not in (await session("ps axo comm")).text
        assert "No such file" in result.text

    async def test_b21_nothing_outside_the_workspace_can_be_changed(self, session: Session):
        bashrc = Path.home() / ".bashrc"
        before = bashrc.read_bytes() if bashrc.exists() else None
        result = await session("echo x > /etc/handloom-x")
        assert (result.ok, "Read-only file system" in result.text) == (False, True)
        await session("echo evil >> ~/.bashrc; touch /usr/x /opt/x /x /dev/x /run/x /var/x")
        assert (bashrc.read_bytes() if bashrc.exists() else None) == before
        assert not any(Path(place, name).exists() for place in ("/usr", "/opt", "/", "/run", "/var") for name in ("x",))
        assert not Path("/etc/handloom-x").exists()

    async def test_b21_what_runs_on_the_persons_side_can_be_neither_changed_nor_made(self, tmp_path: Path):
        (tmp_path / ".git/hooks").mkdir(parents=True)
        (tmp_path / ".git/config").write_text("[core]\n")
        (tmp_path / ".envrc").write_text("true\n")
        async with opened(tmp_path) as session:
            for command in (
                "echo evil > .git/hooks/pre-commit",
                "echo evil >> .git/config",
                "echo evil > .envrc",
                "rm .envrc",
                "mkdir -p .vscode && echo evil > .vscode/tasks.json",
                "echo evil > .mcp.json",
                "mkdir .handloom",
                "mv .git old",
                "mv .git/hooks x",  # a copy is made, the original stays
                "git config core.fsmonitor evil",
            ):
                assert not (await session(command)).ok, command
            assert (await session("echo fine > .git/HEAD; echo fine > file")).ok
        assert sorted(path.name for path in tmp_path.iterdir()) == [".envrc", ".git", "file", "x"]
        assert (tmp_path / ".envrc").read_text() == "true\n"
        assert list((tmp_path / ".git/hooks").iterdir()) == []

    async def test_b21_a_repository_that_is_made_inside_is_protected_from_the_next_shell_on(self, session: Session):
        assert (await session("git init -q . && echo made")).text == "made"
        await session("", restart=True)
        assert not (await session("echo evil > .git/hooks/pre-commit")).ok
        assert (
            await session("git -c user.name=a -c user.email=b commit -q --allow-empty -m 初 && git log --format=%s")
        ).text == "初"

    @pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1:{port}", "192.0.2.1", "example.org"])
    async def test_b22_no_host_can_be_reached(self, session: Session, host: str):
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            code = f"import urllib.request; urllib.request.urlopen('http://{host.format(port=port)}', timeout=5)"
            result = await session(f'python -c "{code}"', 10)
            assert not result.ok
            assert any(words in result.text for words in ("unreachable", "refused", "resolution", "not known"))


def named_in(text: str) -> str:
    """The handle that a cut result tells the model."""
    return text.partition('read_result("')[2].partition('"')[0]


async def test_in_a_run_a_long_output_can_be_read_in_pieces_afterwards(tmp_path: Path):
    """Through the loop itself: the file that the tool wrote is the one that `read_result` reads."""
    model = ScriptedModel(
        [
            calls(("bash", {"command": "seq 200000; echo 完"})),
            lambda request: calls(("read_result", {"handle": named_in(str(request.messages)), "start": 1_000_000})),
            finish("done"),
        ]
    )
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(bash, read_result, terminate_tool()))
    run = await Run.start("count", store=MemoryStore(), workspace=tmp_path)
    result = await run.complete(agent.run)
    cut, piece, _ = [message.text for message in run.memory.messages if message.role == "tool"]
    assert result.status == "success"
    assert cut.endswith("200000\n完")
    assert "left out" in cut
    whole = "\n".join([*map(str, range(1, 200_001)), "完"])
    assert piece.startswith(whole[1_000_000:1_001_000])


async def test_a_pipe_that_is_closed_early_is_no_noise(session: Session) -> None:
    for command, text in {"yes | head -1": "y", "seq 100000 | head -2": "1\n2"}.items():
        result = await session(command)
        assert (result.ok, result.text) == (True, text)
