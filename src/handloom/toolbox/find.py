"""find_files: files of the workspace by name and by what is in them; the system's own find and grep look, in the sandbox."""

import asyncio
from dataclasses import dataclass
from pathlib import PurePosixPath

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.noise import NOISE
from handloom.sandbox.once import Ran, run_once
from handloom.tools import results
from handloom.tools.tool import ToolContext, tool

SECONDS = 20.0
MOST_LINES = 200
LINE_CHARS = 300
MOST_BYTES = 2_000_000
SKIPPED = (".git", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", *sorted(NOISE))


@tool(name="find_files", effects={"read"}, repeatable=True, parallel=True)
async def find_files(context: ToolContext, name: str = "", text: str = "", path: str = ".") -> ToolResult:
    """Find files below `path`: by `name` (a glob such as *.py), and lines in them by `text` (an extended regular expression)."""
    if not name and not text:
        raise ToolError("give name (a glob such as *.py), text (a regular expression), or both")
    if any(sign in word for word in (name, text, path) for sign in "\0\n"):
        raise ToolError("name, text and path are single lines")
    if "/" in name:
        raise ToolError(f"name {name!r}: give the name of a file alone, and the folder in path")
    sandbox = await context.sandbox()
    try:
        async with asyncio.timeout(SECONDS):
            ran = await run_once(sandbox, _command(name, text, path), most=MOST_BYTES)
    except TimeoutError:
        raise ToolError(
            f"looking took longer than {SECONDS:g} s and was stopped; give a narrower path, name or text"
        ) from None
    return _told(Search(name, text, path), ran)


@dataclass(frozen=True)
class Search:
    """What was looked for."""

    name: str
    text: str
    path: str


def _command(name: str, text: str, path: str) -> list[str]:
    if text:
        # A folder that is named itself is looked into.
        skipped = [f"--exclude-dir={folder}" for folder in SKIPPED if folder != PurePosixPath(path).name]
        return [
            "grep",
            "-rnIE",
            "-D",
            "skip",
            *skipped,
            *([f"--include={name}"] if name else []),
            "-e",
            text,
            "--",
            path,
        ]
    pruned = [word for folder in SKIPPED for word in ("-name", folder, "-o")][:-1]
    # An option-like path is a path.
    start = path if path.startswith(("/", ".")) else f"./{path}"
    # A protected name is kept by a device, which is no file of anybody's; `-xtype` looks at it, and not at its folder alone.
    own = ("-not", "-xtype", "c")
    return ["find", start, "-mindepth", "1", "(", *pruned, ")", "-prune", "-o", "-name", name, *own, "-print"]


def _told(search: Search, ran: Ran) -> ToolResult:
    """The lines that were found, bounded, with the count of the rest."""
    lines = sorted(line.removeprefix("./") for line in ran.out.splitlines() if line)
    # What may not be read holds nothing for the model; a protected name is kept by an empty file of this kind.
    errors = [line for line in ran.err.strip().splitlines() if not line.endswith("Permission denied")][:5]
    if not lines:
        if errors or ran.fate or ran.code < 0:
            raise ToolError(results.clean("\n".join(errors) or ran.fate or f"looking failed with status {ran.code}"))
        what = " and ".join(filter(None, (search.name, search.text and f"line like {search.text!r}")))
        return ToolResult(text=f"nothing found: no {what} below {search.path}")
    shown = [
        results.clean(line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} ...") for line in lines[:MOST_LINES]
    ]
    if len(lines) > MOST_LINES or ran.cut:
        more = f"{'at least ' if ran.cut else ''}{len(lines) - MOST_LINES:,}"
        shown.append(f"[... {more} more left out; give a narrower path, name or text ...]")
    return ToolResult(text="\n".join(shown))
