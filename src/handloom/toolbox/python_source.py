"""The Python that a model meant: fences, notebook lines and lost escapes are read as what they stand for; standard library only.

Only what has one possible meaning is changed, and only where the code is no Python as it came.
"""

import ast
import importlib.util
import os
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

MOST_JOINS = 100
TEST_SECONDS, TEST_CHARS = 20, 1_500
ENOUGH = "\n(If that was the task, it is done: end with the answer.)"
DEFINED = "(defined for later calls; nothing was run and no file was written. To write it into a file, begin with %%writefile NAME)"
_FENCE = re.compile(r"\s*```[\w+-]*[ \t]*\r?\n(.*?)(?:\n?[ \t]*```\s*)?\Z", re.DOTALL)
_COMMAND = re.compile(r"^([ \t]*)!(.+)$", re.MULTILINE)
_WRITE = re.compile(r"^%%writefile[ \t]+(-a[ \t]+)?[\"']?(.+?)[\"']?[ \t]*$\n?", re.MULTILINE)
_TESTS = re.compile(r"^(async )?def test_|^class Test|unittest\.TestCase", re.MULTILINE)
_ESCAPE = re.compile(r"\\([nt\"'\\])")


def readable(code: str) -> str:
    """The code without a Markdown fence; newlines that arrived as two characters are decoded when only that makes it Python."""
    if fenced := _FENCE.match(code):
        code = fenced[1]
    if is_python(code):
        return code
    if noted := notebook(code):
        return noted
    if "\\n" not in code or "\n" in code.strip():
        return rejoined(code)
    decoded = _ESCAPE.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), code)
    return decoded if is_python(decoded) else code


def notebook(code: str) -> str:
    """Notebook cells as plain Python: `%%writefile NAME` writes what follows into a file, `!command` runs a command; empty when there are none."""
    head, *cells = _WRITE.split(code)
    plain = [_COMMAND.sub(_as_call, head)] if head.strip() else []
    for adds, name, body in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        lines = body.strip("\n").split("\n")
        kept = len(lines)
        while kept and (not lines[kept - 1].strip() or _is_command(lines[kept - 1], name)):
            kept -= 1  # commands behind the file are no part of it
        text = "\n".join(lines[:kept]) + "\n"
        plain += [
            f"__write_file__({name!r}, {text!r}{', append=True' if adds else ''})",
            *(_COMMAND.sub(_as_call, line) for line in lines[kept:] if line.strip()),
        ]
    whole = "\n".join(plain)
    return whole if whole != code and is_python(whole) else ""


def _is_command(line: str, name: str) -> bool:
    """Whether a line behind the text of a file is a command to run: behind a program any that begins so; else one that names a program, where the file has no such lines itself."""
    if not line.startswith("!"):
        return False
    words = line[1:].split()
    return name.endswith(".py") or bool(words and not name.endswith(("ignore", ".md")) and shutil.which(words[0]))


def _as_call(line: re.Match[str]) -> str:
    return f"{line[1]}__run_command__({line[2].strip()!r})"


def only_defines(code: str) -> bool:
    """Whether running the code can have done nothing but define functions and classes."""
    quiet = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    body = ast.parse(code).body
    return any(isinstance(node, quiet[:3]) for node in body) and all(isinstance(node, quiet) for node in body)


@dataclass(frozen=True)
class Note:
    """The value of code that wrote a file; `silent` when nothing of its effect was shown, not `ok` when the file's test fails."""

    text: str
    ok: bool = True
    silent: bool = True


def write_file(name: str, text: str, *, append: bool = False) -> Note:
    """What `%%writefile` does, and with `-a` what it adds. The test that stands beside a program runs at once, which spares the turn that would run it."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if append and path.exists():
        text = f"{path.read_text(encoding='utf-8')}{text}"
    done = f"{name} held just this already, nothing has changed" if _holds(path, text) else f"wrote {name}"
    path.write_text(text, encoding="utf-8")
    if path.suffix != ".py":
        return Note(f"({done})")
    # Compiled code is taken for fresh when time (in seconds) and size are the same, which `a - b` and `a + b` are.
    Path(importlib.util.cache_from_source(str(path.absolute()))).unlink(missing_ok=True)
    test = path if path.name.startswith("test_") else path.with_name(f"test_{path.name}")
    return _tested(done, test) if test.exists() else Note(f"({done}, but did not run it: !python {name} would)")


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):  # not there, or no text
        return False


def _tested(done: str, test: Path) -> Note:
    """The verdict of a test on the file that was just written."""
    import subprocess

    command = [sys.executable, "-B", *_runner(test.read_text("utf-8", "replace")), str(test)]
    run = subprocess.Popen(  # noqa: S603 - the code's own test
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = run.communicate(timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return Note(f"({done}; {test} was run and did not end within {TEST_SECONDS} s)", ok=False)
    finally:  # an interrupt comes by here too
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    said = output.decode("utf-8", "replace").strip()[-TEST_CHARS:]
    passed = run.returncode == 0
    text = f"({done}; {test} was run and {'passes' if passed else 'fails'}{':' if said else ''})\n{said}"
    return Note(text.rstrip() + ENOUGH * passed, ok=passed, silent=False)


def _runner(source: str) -> list[str]:
    """What runs a test: itself, unless it only defines test functions or cases."""
    if "__main__" in source or not _TESTS.search(source):
        return []
    if importlib.util.find_spec("pytest"):
        return ["-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    return ["-m", "unittest"]


def run_command(command: str) -> None:
    """What `!command` does: both streams appear as they come. Raises: CalledProcessError for a status that is not 0."""
    import subprocess

    sys.stdout.flush()
    subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, check=True)  # noqa: S602 - the model's command


def rejoined(code: str) -> str:
    """The code with an escape where a line breaks inside a quoted string; it has no other meaning, the model escaped it once too seldom for JSON."""
    lines = code.split("\n")
    for _ in range(MOST_JOINS):
        try:
            parsed("\n".join(lines), "<guess>")
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            if not error.msg.startswith("unterminated") or "triple" in error.msg or not 0 <= at < len(lines) - 1:
                return code
            lines[at : at + 2] = [f"{lines[at]}\\n{lines[at + 1]}"]
        except (ValueError, MemoryError, RecursionError, OverflowError):
            return code
        else:
            return "\n".join(lines)
    return code


def parsed(code: str, name: str) -> ast.Module:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    return compile(code, name, "exec", flags, dont_inherit=True)


def is_python(code: str) -> bool:
    try:
        parsed(code, "<guess>")
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def hint(error: BaseException) -> str:
    """What to do about the mistakes that small models make most and mend least."""
    match error:
        case ModuleNotFoundError():
            return "\nIt is not installed: do it with the standard library (csv, json, re, statistics, sqlite3, pathlib, ...)."
        case SyntaxError(text=str(text)) if "; " in text or ": " in text:
            return "\nWrite each statement on a line of its own, with real line breaks and indentation."
        case NameError(name=str(name)) if name in sys.stdlib_module_names:
            return f"\nWrite `import {name}` first."
        case NameError(name=str(name)) if home := _home_of(name):
            return f"\nIt is defined in {home.name}: write `from {home.stem} import {name}` first. To change it, write the whole file with %%writefile {home.name}."
        case NameError():
            return "\nNo code has set it. What another tool showed is not in Python: read the file, or define it first."
        case FileNotFoundError():
            return f"\nFiles here: {', '.join(sorted(path.name for path in Path().iterdir())[:20]) or 'none'}"
        case _:
            return ""


def _home_of(name: str) -> Path | None:
    """The program of the working directory that defines a function or class of this name, where one does."""
    definition = re.compile(rf"^(?:async def|def|class) {re.escape(name)}\b", re.MULTILINE)
    programs = (path for path in sorted(Path().glob("*.py"))[:50] if path.stem.isidentifier())
    return next((path for path in programs if definition.search(path.read_text("utf-8", "replace"))), None)
