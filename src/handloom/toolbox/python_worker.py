"""The child process of `python_execute`: reads code from a socket, runs it, replies; standard library only.

Started as `python -P -m handloom.toolbox.python_worker CONTROL_FD MEMORY_BYTES WORKSPACE`. One JSON object a line: `{"nonce", "code"}` comes in,
`{"nonce", "ok", "text", "figures", "silent"}` goes out. What the code prints goes to fd 1 and 2 and never into the reply.
"""

import ast
import builtins
import contextlib
import ctypes
import io
import itertools
import json
import linecache
import os
import resource
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from handloom.toolbox.python_source import DEFINED, Note, hint, only_defines, parsed, readable, run_command, write_file

VALUE_CHARS = 32_000
ERROR_CHARS = 8_000
FIGURES = 10
FIGURE_PIXELS = 4_000
RECURSION = sys.getrecursionlimit()

# The code may replace `os.write` or `signal.signal`; these names keep the real ones.
_write, _dup2, _getpid, _leave = os.write, os.dup2, os.getpid, os._exit  # pyright: ignore[reportPrivateUsage] - it is documented
_dumps, _loads, _on_signal = json.dumps, json.loads, signal.signal
_builtins = dict(builtins.__dict__)
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_IS_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the import


class Session:
    """The code's `__main__` module, and what must be right around each call whatever earlier calls did."""

    def __init__(self, control: int, workspace: Path) -> None:
        self._control = control
        self._workspace = workspace
        self._streams = Streams()
        self._main = types.ModuleType("__main__")
        self._pid = _getpid()
        self._names = (f"<call-{number}>" for number in itertools.count(1))
        self._runner: Any = None
        self._silent = False
        _builtins.update(__write_file__=write_file, __run_command__=run_command)

    def serve(self) -> None:
        """Answer requests until the parent closes the socket."""
        with open(self._control, "rb", closefd=False) as requests:
            for line in requests:
                request = _loads(line)
                ok, text, figures = self._call(request["code"])
                if _getpid() != self._pid:  # the code forked, and the child fell through to here
                    _leave(0 if ok else 1)
                self._reply(
                    {"nonce": request["nonce"], "ok": ok, "text": text, "figures": figures, "silent": self._silent}
                )

    def _call(self, code: str) -> tuple[bool, str, list[str]]:
        builtins.__dict__.update(_builtins)
        self._streams.restore()
        sys.modules["__main__"] = self._main
        sys.setrecursionlimit(RECURSION)
        try:
            # `asyncio.Runner` turns an interrupt into a cancellation only when it finds this very handler.
            _on_signal(signal.SIGINT, signal.default_int_handler)
            ok, text = self._attempt(code)
            figures, notes = saved_figures(self._workspace)
            self._streams.flush()
            return ok, "\n".join(part for part in (text, *notes) if part), figures
        except KeyboardInterrupt:
            return False, "KeyboardInterrupt", []
        finally:
            _on_signal(signal.SIGINT, _stay)

    def _attempt(self, code: str) -> tuple[bool, str]:
        name = next(self._names)
        self._silent = False
        try:
            code = readable(code)
            value = self._execute(code, name)
            if isinstance(value, Note):
                self._silent = value.silent
                return value.ok, value.text
            self._silent = value is None
            return True, DEFINED if value is None and only_defines(code) else shown(value)
        except SystemExit as left:
            said = (
                f"SystemExit: the code asked to exit with {shown(left.code) or 0}; Python goes on, variables are kept"
            )
            return not left.code, said
        except BaseException as error:  # noqa: BLE001 - whatever the code raises is its result
            return False, explained(error, name, str(self._workspace))

    def _execute(self, code: str, name: str) -> object:
        """Run the code; the value is that of a last line that is an expression."""
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        body = parsed(code, name).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        self._evaluate(ast.Module(body, type_ignores=[]), name, "exec")
        return self._evaluate(ast.Expression(last.value), name, "eval") if isinstance(last, ast.Expr) else None

    def _evaluate(self, tree: ast.Module | ast.Expression, name: str, mode: str) -> object:
        compiled = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        value = eval(compiled, self._main.__dict__)  # noqa: S307 - this program is there to run the code
        return self._finished(value) if compiled.co_flags & _IS_COROUTINE else value

    def _finished(self, coroutine: Any) -> object:
        """Run top-level `await`. One loop serves all calls, so that a task goes on at the next `await`."""
        import asyncio

        if self._runner is None or self._runner.get_loop().is_closed():
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)

    def _reply(self, reply: dict[str, Any]) -> None:
        data = _dumps(reply).encode() + b"\n"
        while data:
            data = data[_write(self._control, data) :]


class Streams:
    """The real fd 0, 1 and 2 with the text streams on them; code may close, replace or redirect them."""

    def __init__(self) -> None:
        self._spares = tuple(os.dup(fd) for fd in range(3))
        self._stdin, self._stdout, self._stderr = _reader(), _writer(1), _writer(2)

    def restore(self) -> None:
        for fd, spare in enumerate(self._spares):
            _dup2(spare, fd)
        # The code's own streams go first: when they are collected they close what they wrap, which may be ours.
        sys.stdin, sys.stdout, sys.stderr = self._stdin, self._stdout, self._stderr
        # Loggers hold on to a stream, so a healthy one is kept.
        self._stdin = _reader() if self._stdin.closed else self._stdin
        self._stdout = _writer(1) if self._stdout.closed else self._stdout
        self._stderr = _writer(2) if self._stderr.closed else self._stderr
        sys.stdin, sys.stdout, sys.stderr = self._stdin, self._stdout, self._stderr

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr, self._stdout, self._stderr):
            with contextlib.suppress(Exception):  # the code's own streams may raise anything
                stream.flush()
        _libc.fflush(None)  # C code has buffers of its own


def _reader() -> TextIO:
    return io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8", errors="replace")


def _writer(fd: int) -> TextIO:
    raw = io.BufferedWriter(io.FileIO(fd, "wb", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def shown(value: object) -> str:
    """The value as a notebook shows it: its `repr`, bounded; nothing for None."""
    if value is None:
        return ""
    try:
        return bounded(repr(value), VALUE_CHARS)
    except Exception as error:  # noqa: BLE001 - the code's own __repr__ may raise anything
        reason = traceback.format_exception_only(error)[-1].strip()
        return bounded(f"<{type(value).__name__} object; its repr raised {reason}>", VALUE_CHARS)


def explained(error: BaseException, name: str, workspace: str) -> str:
    """The traceback with the frames of the code and of files in the workspace; libraries and this program are left out."""
    try:
        report = (
            _report(error, name, workspace).rstrip().replace(name, "<code>")
        )  # the same mistake reads the same each time
        return bounded(report + hint(error), ERROR_CHARS)
    except Exception:  # noqa: BLE001 - no memory, or an exception type that defends itself
        return f"{type(error).__name__} (its traceback cannot be shown)"


def _report(error: BaseException, name: str, workspace: str) -> str:
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    report = traceback.TracebackException(type(error), error, trace, compact=True)
    if trace is None:  # it does not compile, or was interrupted between two steps of a coroutine
        return "".join(report.format_exception_only())
    for part in _chained(report):
        own = [frame for frame in part.stack if _is_own(frame.filename, workspace)]
        part.stack = traceback.StackSummary.from_list(own)
    return "".join(report.format())


def _chained(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [report]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [other for other in (part.__cause__, part.__context__, *(part.exceptions or ())) if other]


def _is_own(filename: str, workspace: str) -> bool:
    in_workspace = filename.startswith(workspace + os.sep) and "site-packages" not in filename
    return in_workspace or filename.startswith("<call-")


def bounded(text: str, limit: int) -> str:
    """Head and tail of the text, as something JSON and UTF-8 can carry."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def saved_figures(workspace: Path) -> tuple[list[str], list[str]]:
    """Save what matplotlib has open and the code has not saved, then close it; the names, and what to say about them."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    names: list[str] = []
    notes: list[str] = []
    try:
        fresh = [figure for figure in map(pyplot.figure, pyplot.get_fignums()) if figure.stale] if pyplot else []
        for figure in fresh[:FIGURES]:
            width, height = figure.canvas.get_width_height()
            if max(width, height) > FIGURE_PIXELS:
                notes.append(f"a figure of {width}x{height} pixels was not saved; the limit is {FIGURE_PIXELS} a side")
                continue
            names.append(_free_name(workspace))
            figure.savefig(workspace / names[-1])
        if len(fresh) > FIGURES:
            notes.append(f"{len(fresh) - FIGURES} more figures were not saved; save them with savefig")
    except Exception as error:  # noqa: BLE001 - a half-imported or broken matplotlib must not cost the reply
        notes.append(f"figures could not be saved: {bounded(repr(error), 500)}")
    finally:
        if pyplot is not None:
            with contextlib.suppress(Exception):  # the same
                pyplot.close("all")
    return names, [f"saved {name}" for name in names] + notes


def _free_name(workspace: Path) -> str:
    return next(name for number in itertools.count(1) if not (workspace / (name := f"figure-{number}.png")).exists())


def _stay(_signal: int, _frame: object) -> None:
    """An interrupt that comes between two calls has nothing to interrupt."""


def _die_with_parent() -> None:
    """Linux kills this process when its parent dies; elsewhere the closed socket ends it after the call."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _close_in_children(control: int) -> None:
    """A forked child must neither reply nor keep the socket open after this process died."""

    def close() -> None:
        with contextlib.suppress(OSError):
            os.close(control)

    os.register_at_fork(after_in_child=close)
    os.set_inheritable(control, False)


def main() -> None:
    control, memory, workspace = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    _on_signal(signal.SIGINT, _stay)
    _die_with_parent()
    with contextlib.suppress(ValueError, OSError):  # a stricter limit is already set, or the system has none
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _close_in_children(control)
    sys.argv = [""]
    sys.path.insert(0, str(workspace))
    warnings.filterwarnings("ignore", message=".*is non-interactive, and thus cannot be shown")
    try:
        Session(control, workspace).serve()
    except Exception as error:  # noqa: BLE001 - the code broke the worker; the parent starts a new one
        os.write(2, f"the Python process broke: {type(error).__name__}: {error}\n".encode())
        _leave(1)


if __name__ == "__main__":
    main()
