"""python_execute, with real processes. p1 to p14 are rows of the table of faulty input."""

import asyncio
import contextlib
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.sandbox import SandboxSettings
from handloom.testing.tools import FakeContext
from handloom.toolbox.python import PythonWorker, python_execute
from handloom.toolbox.python_process import Printed

pytestmark = pytest.mark.anyio

Python = Callable[..., Awaitable[ToolResult]]
SWALLOW = "import time\nwhile True:\n    try: time.sleep(99)\n    except BaseException: pass"


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[FakeContext]:
    async with FakeContext(tmp_path) as context:
        yield context


@pytest.fixture
def python(context: FakeContext) -> Python:
    async def run(code: str, seconds: float = 20) -> ToolResult:
        return await python_execute.run({"code": textwrap.dedent(code), "timeout": seconds}, context)

    return run


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.01)


def family(pid: int | None = None) -> list[psutil.Process]:
    """All that a process has started, with what they started; their numbers inside the sandbox are others."""
    return psutil.Process(pid).children(recursive=True)


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.asynccontextmanager
async def working(workspace: Path) -> AsyncIterator[PythonWorker]:
    async with FakeContext(workspace) as context:
        worker = await PythonWorker.start(await context.sandbox())
        yield worker
        await worker.aclose()


class TestWhatIsShown:
    async def test_output_and_the_value_of_the_last_expression_in_order(self, python: Python):
        assert (await python("print('hello')\n6 * 7")).text == "hello\n42"

    async def test_variables_stay_between_calls(self, python: Python):
        await python("x = 20")
        assert (await python("x + 1")).text == "21"

    @pytest.mark.parametrize("code", ["", "None", "# a comment", "x = 1", "\n\n"])
    async def test_nothing_to_show_says_what_to_do(self, python: Python, code: str):
        result = await python(code)
        assert result.ok
        assert result.text == "(no output; print what you want to see)"

    async def test_stderr_subprocesses_and_c_code_are_captured_in_order(self, python: Python):
        result = await python("""
            import ctypes, os, subprocess, sys
            print("one")
            print("two", file=sys.stderr)
            os.write(1, b"three\\n")
            subprocess.run(["sh", "-c", "echo four; echo five >&2"])
            ctypes.CDLL(None).puts(b"six")
            None
        """)
        assert result.text.split() == ["one", "two", "three", "four", "five", "six"]

    async def test_a_traceback_shows_the_codes_lines_and_not_the_librarys(self, python: Python):
        await python("import json\ndef load(text):\n    return json.loads(text)")
        result = await python("load('{')")
        assert not result.ok
        assert "return json.loads(text)" in result.text
        assert "load('{')" in result.text
        assert "JSONDecodeError" in result.text
        assert "decoder.py" not in result.text
        assert "python_worker" not in result.text

    async def test_a_traceback_keeps_the_frames_of_workspace_modules(self, python: Python, tmp_path: Path):
        (tmp_path / "helper.py").write_text("def half(n):\n    return n / 0\n")
        result = await python("import helper\nhelper.half(4)")
        assert "return n / 0" in result.text

    async def test_a_syntax_error_shows_the_line(self, python: Python):
        result = await python("x = 1\ny = = 2")
        assert not result.ok
        assert "y = = 2" in result.text
        assert "SyntaxError" in result.text

    async def test_chained_exceptions_are_both_shown(self, python: Python):
        result = await python("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e")
        assert "ZeroDivisionError" in result.text
        assert "ValueError: bad" in result.text

    async def test_long_output_is_cut_in_the_middle_with_what_is_left_out_counted(self, python: Python):
        result = await python("print('first')\nfor _ in range(500_000): print('x' * 20)\nprint('last')")
        assert result.ok
        assert len(result.text) <= 32_000
        assert result.text.startswith("first")
        assert result.text.endswith("last")
        assert "left out" in result.text

    async def test_one_long_line_is_cut_too(self, python: Python):
        result = await python("print('a' + 'x' * 3_000_000 + 'z')")
        assert len(result.text) <= 32_000
        assert result.text[0] + result.text[-1] == "az"

    async def test_an_unfinished_control_sequence_hides_only_output(self, python: Python):
        assert (await python("print('\\x1b]0;title')\n6 * 7")).text == "42"

    async def test_control_sequences_are_removed(self, python: Python):
        assert (await python(r"print('\x1b[31mred\x1b[0m \u202eabc')")).text == "red abc"


class TestWhatRuns:
    async def test_top_level_await_with_one_loop_for_all_calls(self, python: Python):
        await python("""
            import asyncio
            async def work():
                await asyncio.sleep(0.01)
                return "done"
            async def begin():
                return asyncio.create_task(work())
            task = await begin()
        """)
        assert (await python("await task")).text == "'done'"
        assert (await python("asyncio.run(work())")).text == "'done'"

    async def test_the_main_guard_runs_and_classes_can_be_pickled(self, python: Python):
        result = await python("""
            import pickle
            class Point:
                x = 5
            if __name__ == "__main__":
                print(pickle.loads(pickle.dumps(Point())).x)
        """)
        assert result.text == "5"

    async def test_the_workspace_is_the_folder_and_importable(self, python: Python, tmp_path: Path):
        (tmp_path / "mine.py").write_text("name = 'Käse'")
        assert (await python("import os, mine\nos.getcwd(), mine.name")).text == f"('{tmp_path}', 'Käse')"

    async def test_installed_packages_are_importable(self, python: Python):
        assert (await python("import msgspec")).ok

    async def test_a_markdown_fence_is_removed(self, python: Python):
        assert (await python("```python\nprint(5)\n```")).text == "5"

    async def test_newlines_that_arrived_as_two_characters_are_decoded(self, python: Python):
        assert (await python(r"for i in range(2):\n    print(\"a\", i)")).text == "a 0\na 1"

    async def test_a_backslash_n_that_is_python_is_left_alone(self, python: Python):
        assert (await python(r"print('a\nb')")).text == "a\nb"

    async def test_processes_can_be_started_and_pooled(self, python: Python):
        result = await python("import multiprocessing\nwith multiprocessing.Pool(2) as p: print(p.map(abs, [-1, -2]))")
        assert result.text == "[1, 2]"

    async def test_the_environment_holds_no_keys(self, python: Python, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("SOME_API_KEY", "canary-123")
        result = await python("import os, subprocess\nos.environ, subprocess.getoutput('env; cat /proc/self/environ')")
        assert result.ok
        assert "PATH" in result.text
        assert "canary-123" not in result.text

    async def test_the_sandbox_holds_it(self, python: Python):
        result = await python("""
            import os, pathlib, socket
            for attempt in (
                lambda: pathlib.Path("/etc/x").write_text("x"),
                lambda: list((pathlib.Path.home() / ".ssh").iterdir()),
                lambda: socket.create_connection(("192.0.2.1", 80), timeout=5),
                lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else os.setuid(12345),
            ):
                try: print("done", attempt())
                except OSError as error: print("refused")
        """)
        assert result.text == "\n".join(["refused"] * 4)

    async def test_calls_at_the_same_time_wait_for_each_other(self, python: Python):
        await python("n = 0")
        slow = "import time\nk = n\ntime.sleep(0.05)\nn = k + 1"
        await asyncio.gather(*(python(slow) for _ in range(3)))
        assert (await python("n")).text == "3"

    @pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
    async def test_a_timeout_out_of_bounds_is_refused(self, python: Python, seconds: float):
        with pytest.raises(ToolError, match="between 0 and 3600"):
            await python("1", seconds)


class TestStopping:
    @pytest.mark.parametrize(
        "loop", ["while True: pass", "import time; time.sleep(99)", "import os; os.system('sleep 99')"]
    )
    async def test_p1_a_timeout_interrupts_keeps_variables_and_output(self, python: Python, loop: str):
        await python("x = 5")
        result = await python(f"print('so far')\n{loop}", 0.5)
        assert not result.ok
        assert result.text.startswith("so far")
        assert "timed out after 0.5 s" in result.text
        assert "variables are kept" in result.text
        assert (await python("x")).text == "5"

    async def test_p1_a_timeout_interrupts_await(self, python: Python):
        await python("x = 5")
        result = await python("import asyncio\nawait asyncio.sleep(99)", 0.5)
        assert "variables are kept" in result.text
        assert (await python("x")).text == "5"

    @pytest.mark.parametrize(
        "code",
        [
            SWALLOW,
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        ],
    )
    async def test_p2_code_that_swallows_interrupts_is_killed(self, python: Python, code: str):
        result = await python("print('so far')\n" + code, 0.5)
        assert not result.ok
        assert result.text.startswith("so far")
        assert "variables are gone" in result.text
        assert (await python("1 + 1")).text == "2"

    async def test_cancellation_interrupts_and_is_let_through(self, python: Python, tmp_path: Path):
        call = asyncio.create_task(python("x = 5\nopen('started', 'w').close()\nwhile True: pass"))
        await until((tmp_path / "started").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await python("x")).text == "5"

    async def test_a_cancelled_call_that_does_not_stop_is_killed(self, python: Python, tmp_path: Path):
        call = asyncio.create_task(python("open('started', 'w').close()\n" + SWALLOW))
        await until((tmp_path / "started").exists)
        started = family()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert started
        await until(lambda: not any(map(lives, started)))
        assert (await python("1 + 1")).text == "2"

    async def test_closing_ends_the_process_and_what_it_started(self, tmp_path: Path):
        async with working(tmp_path) as worker:
            await worker.execute("import subprocess\nsubprocess.Popen(['sleep', '99'], start_new_session=True)", 20)
            started = family()
            assert any(process.name() == "sleep" for process in started)
            await worker.aclose()
            await until(lambda: not any(map(lives, started)))

    async def test_closing_flushes_files_that_are_still_open(self, tmp_path: Path):
        async with working(tmp_path) as worker:
            await worker.execute("file = open('late.txt', 'w')\nfile.write('data')", 20)
        assert (tmp_path / "late.txt").read_text() == "data"

    async def test_closing_does_not_wait_for_a_thread_that_never_ends(self, tmp_path: Path):
        async with working(tmp_path) as worker:
            await worker.execute("import threading\nthreading.Thread(target=threading.Event().wait).start()", 20)
            started = family()
            assert started
            await worker.aclose()
            await until(lambda: not any(map(lives, started)))

    async def test_the_child_dies_in_the_middle_of_a_call_when_its_parent_is_killed(self, tmp_path: Path):
        parent = tmp_path / "parent.py"
        parent.write_text(
            textwrap.dedent("""
                import asyncio, pathlib
                from handloom.sandbox import open_sandbox
                from handloom.toolbox.python import PythonWorker
                async def main():
                    worker = await PythonWorker.start(await open_sandbox(pathlib.Path.cwd()))
                    await worker.execute("open('started', 'w').close()\\nwhile True: pass", 60)
                asyncio.run(main())
            """)
        )
        process = await asyncio.create_subprocess_exec(sys.executable, str(parent), cwd=tmp_path)
        try:
            await until((tmp_path / "started").exists)
            started = family(process.pid)
        finally:
            process.kill()
            await process.wait()
        assert started
        await until(lambda: not any(map(lives, started)))

    async def test_a_workspace_that_is_gone_is_said(self, tmp_path: Path):
        async with FakeContext(tmp_path / "gone") as context:
            with pytest.raises(ToolError, match="cannot be started"):
                await python_execute.run({"code": "1"}, context)


class TestFaultyCode:
    async def test_p3_too_much_memory_is_an_error_and_state_is_kept(self, python: Python):
        await python("x = 5")
        result = await python("bytearray(10**10)")
        assert not result.ok
        assert "MemoryError" in result.text
        assert (await python("x")).text == "5"

    async def test_p4_huge_integers_give_a_readable_error(self, python: Python):
        assert "4300 digits" in (await python("10**5000")).text
        result = await python("int('9' * 5000)")
        assert not result.ok
        assert "4300 digits" in result.text

    async def test_p4_a_computation_in_c_that_never_ends_is_stopped(self, python: Python):
        result = await python("len(str(10**10**8))", 0.3)
        assert not result.ok
        assert "timed out" in result.text
        assert (await python("1 + 1")).text == "2"

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("import ctypes\nctypes.string_at(0)", "signal 11"),
            ("import os\nos._exit(3)", "exit code 3"),
            ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ],
    )
    async def test_p5_death_is_told_with_its_reason_and_output(self, python: Python, code: str, reason: str):
        result = await python("print('so far')\n" + code)
        assert not result.ok
        assert result.text.startswith("so far")
        assert reason in result.text
        assert "variables are gone" in result.text
        assert (await python("1 + 1")).text == "2"

    @pytest.mark.parametrize("code", ["exit()", "import sys\nsys.exit(2)", "raise SystemExit('bye')"])
    async def test_p5_exit_is_reported_and_survived(self, python: Python, code: str):
        await python("x = 5")
        result = await python(code)
        assert result.ok is (code == "exit()")
        assert "SystemExit" in result.text
        assert (await python("x")).text == "5"

    async def test_p6_a_fork_that_falls_through_gives_one_reply(self, python: Python):
        await python("x = 5")
        result = await python("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')")
        assert result.text == "both\nboth"
        assert (await python("x, pid > 0")).text == "(5, True)"

    async def test_p6_300_forks_give_one_reply(self, python: Python):
        await python("import os\nfor _ in range(300):\n    if os.fork() == 0: break")
        assert (await python("1 + 1")).text == "2"

    async def test_p6_a_fork_that_lives_on_does_not_hide_the_death_of_the_process(self, python: Python):
        result = await python("import os, time\nif os.fork() == 0: time.sleep(99)\nos._exit(3)")
        assert "exit code 3" in result.text

    async def test_p6_forks_without_end_are_stopped_and_that_is_said(self, tmp_path: Path):
        async with FakeContext(tmp_path, sandbox=SandboxSettings(procs=64)) as context:
            code = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)"
            result = await python_execute.run({"code": code, "timeout": 20}, context)
            assert not result.ok
            assert "more than 64 processes" in result.text
            assert "variables are gone" in result.text
            assert (await python_execute.run({"code": "1 + 1"}, context)).text == "2"

    @pytest.mark.parametrize(
        "garbage", [r"b'garbage\n'", "b'garbage'", r"b'\xff\0{}\n'", r"b'{\"ok\": true}\n'", "b'x' * 2_000_000"]
    )
    async def test_p7_garbage_on_every_descriptor_is_not_believed(self, python: Python, garbage: str):
        result = await python(f"""
            import os
            for fd in range(3, 64):
                try: os.write(fd, {garbage})
                except OSError: pass
        """)
        assert not result.ok
        assert "variables are gone" in result.text
        assert (await python("1 + 1")).text == "2"

    async def test_p7_closing_every_descriptor_is_survived(self, python: Python):
        result = await python("import os\nos.closerange(3, 256)")
        assert not result.ok
        assert "variables are gone" in result.text
        assert (await python("print(1)")).text == "1"

    @pytest.mark.parametrize(
        "code",
        [
            "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
            "import sys\nsys.stdout.close()\nsys.stderr.close()",
            "import os\nos.close(0)\nos.close(1)\nos.close(2)",
            "import os\nos.dup2(os.open(os.devnull, os.O_RDWR), 1)",
            "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
        ],
    )
    async def test_p8_the_next_call_prints_again(self, python: Python, code: str):
        await python(code)
        assert (await python("import sys\nprint('out')\nprint('err', file=sys.stderr)")).text == "out\nerr"

    async def test_p9_a_repr_that_raises_gets_a_placeholder(self, python: Python):
        result = await python("class R:\n    def __repr__(self): raise ValueError('no')\nR()")
        assert result.ok
        assert result.text == "<R object; its repr raised ValueError: no>"

    @pytest.mark.parametrize("code", ["'x' * 50_000_000", "print('x' * 79 + '\\n', end='') or ['x' * 79] * 100_000"])
    async def test_p9_a_huge_repr_is_cut(self, python: Python, code: str):
        result = await python(code)
        assert result.ok
        assert len(result.text) <= 32_000

    @pytest.mark.parametrize(
        "code", [r"'\ud800'", r"print('\ud800')", r"raise ValueError('\ud800')", "a = []\na.append(a)\na"]
    )
    async def test_p9_surrogates_and_circles_give_valid_text(self, python: Python, code: str):
        result = await python(code)
        assert result.text.encode()

    @pytest.mark.parametrize(
        "code",
        [
            "def f(): f()\nf()",
            "(" * 10**6,
            "1" + "+1" * 10**6,
            "-" * 10**6 + "1",
            "a" + ".b" * 10**6,
            "x\0y",
            "x = '\ud800'",
            "return 5",
            "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        ],
        ids=["recursion", "parentheses", "sum", "minus", "dots", "nul", "surrogate", "return", "bad-str"],
    )
    async def test_p10_code_that_is_too_deep_or_wrong_is_an_error_and_state_is_kept(self, python: Python, code: str):
        await python("x = 5")
        result = await python(code)
        assert not result.ok
        assert result.text
        assert (await python("x")).text == "5"

    async def test_p11_input_is_at_its_end_and_breakpoints_do_not_hang(self, python: Python):
        assert "EOFError" in (await python("input('name? ')")).text
        assert (await python("breakpoint()")).ok
        assert "Quit" in (await python("import pdb\npdb.set_trace()\n1")).text

    async def test_p13_what_a_thread_prints_later_comes_with_the_next_call(self, python: Python):
        await python("""
            import threading
            go, gone = threading.Event(), threading.Event()
            def late():
                go.wait()
                print("late")
                gone.set()
            threading.Thread(target=late).start()
            threading.Timer(0.05, go.set).start()
        """)
        await asyncio.sleep(0.3)
        result = await python("gone.wait(10)")
        assert "late" in result.text
        assert result.text.endswith("True")

    @pytest.mark.parametrize(
        "code",
        [
            "import json\njson.dumps = json.loads = json.encoder = None",
            "import os\nos.write = os.read = os.getpid = os.dup2 = None",
            "import signal\nsignal.signal = None",
            "import sys\nsys.setrecursionlimit(40)",
            "import sys\ndel sys.modules['__main__']",
            "import builtins\nbuiltins.len = builtins.repr = builtins.isinstance = None",
            "import builtins\nfor name in list(vars(builtins)):\n    if not name.startswith('_'): delattr(builtins, name)",
        ],
    )
    async def test_p14_patched_modules_cost_at_most_the_state(self, python: Python, code: str):
        await python(code)
        assert (await python("print('fine')")).text == "fine"


MATPLOTLIB = """
class Figure:
    def __init__(self, number, size=(640, 480), stale=True):
        self.number, self.size, self.stale, self.canvas = number, size, stale, self
    def get_width_height(self): return self.size
    def savefig(self, path):
        self.stale = False
        open(path, "w").write(f"figure {self.number}")
figures = {}
def figure(number=None, **options): return figures.setdefault(number, Figure(number, **options))
def get_fignums(): return list(figures)
def close(which): figures.clear()
"""


class TestFigures:
    """With a stand-in for matplotlib, which is no dependency."""

    @pytest.fixture(autouse=True)
    def matplotlib(self, tmp_path: Path) -> None:
        (tmp_path / "matplotlib").mkdir()
        (tmp_path / "matplotlib/__init__.py").touch()
        (tmp_path / "matplotlib/pyplot.py").write_text(MATPLOTLIB)

    async def test_open_figures_are_saved_reported_and_closed(self, python: Python, context: FakeContext):
        (context.workspace / "figure-1.png").touch()
        result = await python("import matplotlib.pyplot as plt\nfor n in (1, 2): plt.figure(n)\nNone")
        assert result.text == "saved figure-2.png\nsaved figure-3.png"
        assert [path.read_text() for path in context.artifacts] == ["figure 1", "figure 2"]
        assert (await python("plt.get_fignums()")).text == "[]"

    async def test_a_figure_that_the_code_saved_is_not_saved_again(self, python: Python, context: FakeContext):
        await python("import matplotlib.pyplot as plt\nplt.figure(1).savefig('mine.png')")
        assert not context.artifacts

    async def test_p12_figures_are_capped_in_number_and_size(self, python: Python, context: FakeContext):
        code = "import matplotlib.pyplot as plt\nfor n in range(1000): plt.figure(n{})\nNone"
        result = await python(code.format(""))
        assert "990 more figures were not saved" in result.text
        assert len(context.artifacts) == 10
        result = await python("plt.figure(1, size=(20_000, 20_000))\nNone")
        assert "20000x20000 pixels was not saved" in result.text
        assert (await python("plt.get_fignums()")).text == "[]"


@given(st.lists(st.text("ab", max_size=40)), st.integers(2, 30))
def test_printed_keeps_head_and_tail_in_bounded_room(pieces: list[str], room: int):
    printed = Printed(room)
    for piece in pieces:
        printed.add(piece.encode())
    whole, text = "".join(pieces), printed.take()
    head, _, tail = text.partition("\n[... ")
    if tail:
        tail = tail.partition(" bytes left out ...]\n")[2]
        assert len(head) + len(tail) <= 2 * room
        assert whole.endswith(tail)
    else:
        assert text == whole
    assert whole.startswith(head)
    assert printed.take() == ""


async def test_a_line_break_inside_a_quoted_string_is_what_the_model_meant(python: Python):
    """Small models write `'\\n'` once too seldom escaped; the code then has one meaning only."""
    result = await python("for word in ('a', 'b'):\n    print(word, end='-\n')\nprint(f'{1 + 1}\n!')")
    assert (result.ok, result.text) == (True, "a-\nb-\n2\n!")


async def test_other_broken_strings_stay_errors(python: Python):
    assert not (await python("print('never closed)")).ok
    assert not (await python('x = """never closed')).ok


async def test_a_cell_can_write_a_file(python: Python, tmp_path: Path):
    result = await python("%%writefile 新/fizz.py\nprint('a\\n')\nprint(2)")
    assert (result.ok, result.silent, result.text) == (
        True,
        True,
        "(wrote 新/fizz.py, but did not run it: !python 新/fizz.py would)",
    )
    assert (tmp_path / "新" / "fizz.py").read_text(encoding="utf-8") == "print('a\\n')\nprint(2)\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "# Loom\n\n![logo](logo.png)\n"),
        (".gitignore", "*.log\n!keep.log\n!test\n"),
        ("notes.txt", "Buy yarn\n!important: today\n"),
    ],
)
async def test_the_last_lines_of_a_text_are_no_commands(python: Python, tmp_path: Path, name: str, text: str):
    result = await python(f"%%writefile {name}\n{text}")
    assert (result.ok, result.text) == (True, f"(wrote {name})")
    assert (tmp_path / name).read_text() == text


async def test_a_cell_can_add_to_a_file(python: Python, tmp_path: Path):
    for text in ("first", "second"):
        assert (await python(f"%%writefile -a log.txt\n{text}")).ok
    assert (tmp_path / "log.txt").read_text() == "first\nsecond\n"


async def test_a_cell_can_run_commands(python: Python):
    result = await python("for n in range(2):\n    !echo hello\nprint('done')")
    assert (result.ok, result.text) == (True, "hello\nhello\ndone")


async def test_a_command_that_fails_is_a_failure_with_its_output(python: Python):
    result = await python("!python -c \"raise SystemExit('no such thing')\"")
    assert not result.ok
    assert "no such thing" in result.text
    assert "returned non-zero exit status 1" in result.text


async def test_code_that_only_defines_something_says_that_no_file_was_written(python: Python):
    result = await python("import os\n\ndef add(a, b):\n    return a + b")
    assert result.ok
    assert "no file was written" in result.text
    assert result.silent
    assert "%%writefile" in result.text
    assert (await python("add(1, 2)")).text == "3"
    assert [(await python(code)).silent for code in ("x = 1", "print(x)", "x")] == [True, False, False]


async def test_a_block_can_write_files_and_then_run_one(python: Python, tmp_path: Path):
    result = await python(
        "%%writefile calc.py\ndef add(a, b):\n    return a + b\n\n%%writefile test_calc.py\nfrom calc import add\nprint(add(1, 2))\n\n!python test_calc.py"
    )
    assert (result.ok, result.silent, result.text) == (True, False, "3")
    assert (tmp_path / "calc.py").read_text(encoding="utf-8") == "def add(a, b):\n    return a + b\n"


async def test_a_written_program_is_tested_by_the_test_beside_it(python: Python, tmp_path: Path):
    (tmp_path / "test_calc.py").write_text("from calc import add\nassert add(1, 2) == 3, add(1, 2)\nprint('通过')\n")
    wrong = await python("%%writefile calc.py\ndef add(a, b):\n    return a - b")
    assert (wrong.ok, wrong.silent) == (False, False)
    assert "wrote calc.py; test_calc.py was run and fails" in wrong.text
    assert "AssertionError: -1" in wrong.text
    right = await python("%%writefile calc.py\ndef add(a, b):\n    return a + b")
    assert (right.ok, right.silent) == (True, False)
    assert (
        right.text
        == "(wrote calc.py; test_calc.py was run and passes:)\n通过\n(If that was the task, it is done: end with the answer.)"
    )
    again = await python("%%writefile calc.py\ndef add(a, b):\n    return a + b")
    assert again.text.startswith(
        "(calc.py held just this already, nothing has changed; test_calc.py was run and passes:)"
    )


async def test_test_functions_beside_a_written_program_are_run(python: Python, tmp_path: Path):
    (tmp_path / "test_calc.py").write_text(
        "import unittest\nimport calc\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(calc.ONE, 1)\n"
    )
    assert not (await python("%%writefile calc.py\nONE = 2")).ok
    assert (await python("%%writefile calc.py\nONE = 1")).ok
