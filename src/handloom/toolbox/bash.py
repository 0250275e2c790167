"""bash: commands in one sandboxed shell that lives as long as the run, so variables, the directory and background jobs stay between calls."""

import asyncio
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.sandbox.sandbox import Sandbox
from handloom.toolbox.shell_output import Capture, Printed
from handloom.toolbox.shell_process import Ended, ShellProcess
from handloom.tools import results
from handloom.tools.tool import ToolContext, tool

COMMAND_BYTES = 1_000_000
OUTPUT_BYTES = 50_000_000  # more stops the command
MOST_CHARS = 32_000  # what memory keeps of a result
RESULT_CHARS = 31_000  # with what is said of its end it stays below that
MAX_TIMEOUT = 3600.0
BACKGROUND_CHARS = 4_000
JOBS = 50
BRIEF = 60
NOTE = 200  # characters of what is said in place of what is left out
SILENT = "(no output)"
GONE = "variables, directory and background jobs are gone"
WANT_TERMINAL = {"vim", "vi", "nano", "emacs", "less", "more", "top", "htop", "man", "ssh", "tmux", "screen"}
# What a status means that a program did not choose: 128 and the number of a signal.
STATUS = {
    126: ", it may not be executed",
    127: ", no such command",
    134: ", aborted",
    137: ", killed",
    139: ", segmentation fault",
    143: ", terminated",
    153: ", a file would have become larger than may be written",
}


# What bash says, being interactive without a terminal, when a program dies of a signal, as the left of `yes | head` does.
_NOISE = re.compile(r"^bash: \[\d+: \d+ \(\d+\)\] tcsetattr: [^\n]*\n?", re.MULTILINE)


@tool(name="bash", effects={"execute"})
async def bash(
    context: ToolContext,
    command: str = "",
    timeout: float | None = None,  # noqa: ASYNC109 - the model sets it
    restart: bool = False,  # noqa: FBT001,FBT002 - a parameter of the tool, which the model names
) -> ToolResult:
    """Run a bash command. The session stays: directory, variables and background jobs (`cmd &`) live on; `restart` begins a new one. No terminal, no input."""
    sandbox = await context.sandbox()
    seconds = sandbox.settings.timeout if timeout is None else timeout
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ToolError(f"timeout: give seconds between 0 and {MAX_TIMEOUT:.0f}")
    command = _checked(command, may_be_empty=restart)
    shell = await context.resource(Shell, lambda: Shell.start(sandbox))
    if restart:
        await shell.restart()
        if not command:
            return ToolResult(text="a new shell was started; background jobs of the old one are ended")
    outcome = await shell.run(command, seconds, context.spill_file())
    text = told(outcome, command, context, min(sandbox.settings.output, RESULT_CHARS))
    ok = outcome.ended.how == "done" and outcome.ended.status == 0
    spill = context.spill_file()
    return ToolResult(text=text, ok=ok, silent=ok and text == SILENT, spill=spill.name if spill.exists() else "")


def _checked(command: str, *, may_be_empty: bool) -> str:
    """Raises: ToolError for what no shell can run."""
    if not command.strip() and not may_be_empty:
        raise ToolError("command: give a command to run, or restart=true")
    if "\0" in command:
        raise ToolError("command: it holds a NUL byte, which no command can; nothing was run")
    if len(command.encode("utf-8", "replace")) > COMMAND_BYTES:
        raise ToolError(f"command: longer than {COMMAND_BYTES:,} bytes; write a file and run that. Nothing was run")
    return command.replace("\r\n", "\n").encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Outcome:
    """What one command gave. `earlier` are the jobs of earlier commands with what they printed meanwhile; `notes` are about the session."""

    ended: Ended
    printed: Printed
    seconds: float
    flooded: bool
    earlier: tuple[tuple[str, Printed], ...]
    notes: tuple[str, ...]


def told(outcome: Outcome, command: str, context: ToolContext, limit: int) -> str:
    """What the model reads: what background jobs printed, the output, then what is to be known of its end and of the shell."""
    whole = f'read_result("{context.call_id}") shows all'
    jobs = [_of_job(job, _shown(printed, RESULT_CHARS)) for job, printed in outcome.earlier]
    text = _shown(outcome.printed, limit, where=whole)
    late = any(len(job) > BACKGROUND_CHARS for job in jobs)
    if late or (not outcome.printed.lost and len(text) > limit):
        _spill(context.spill_file(), jobs if late else [], "" if outcome.printed.lost else text)
    parts = [
        *(f"[{note}]" for note in outcome.notes),
        *(results.cut(job, BACKGROUND_CHARS, where=whole) for job in jobs),
        *([results.cut(text, limit, where=whole)] if text else []),
        *(f"[{note}]" for note in _end(outcome, command)),
    ]
    return results.cut("\n".join(parts) or SILENT, MOST_CHARS, where=whole if late else "")


def _of_job(command: str, text: str) -> str:
    return f"[background output of `{_brief(command)}`]\n{text}\n[end of background output]"


def _spill(file: Path, jobs: list[str], text: str) -> None:
    """Keep all of it: what the command printed, which may be in the file already, then what jobs of earlier commands did."""
    with file.open("a", encoding="utf-8") as spill:
        spill.write("\n".join(part for part in (text, *jobs) if part))


def _end(outcome: Outcome, command: str) -> list[str]:
    ended = outcome.ended
    reason = (
        f"stopped after {OUTPUT_BYTES // 1_000_000} MB of output"
        if outcome.flooded
        else f"timed out after {outcome.seconds:g} s"
    )
    match ended.how:
        case "done" if ended.status == 0:
            return []
        case "done":
            return [f"exit code {ended.status}{STATUS.get(ended.status, '')}"]
        case "interrupted":
            words = command.replace("|", " ").replace(";", " ").split()
            hint = ["there is no terminal here: interactive programs do not work"] if set(words) & WANT_TERMINAL else []
            return [f"{reason} and was interrupted; the session lives, variables and background jobs are kept", *hint]
        case "lost":
            asked = f"{reason}; " if outcome.flooded or "interrupted" in ended.why or "stopped" in ended.why else ""
            return [f"{asked}{ended.why}; the next command gets a new shell: {GONE}"]


def _shown(printed: Printed, limit: int, *, where: str = "") -> str:
    """The text of the output; head and tail alone where the rest was not kept, with its bytes counted."""
    if not printed.lost:
        text = (printed.head + printed.tail).decode(errors="replace")
        return results.clean(_NOISE.sub("", text)).rstrip("\n")
    room = max(0, limit - NOTE)
    head = results.clean(printed.head.decode(errors="replace"))[: room * 2 // 3]
    tail = results.clean(printed.tail.decode(errors="replace"))[-(room // 3) :].rstrip("\n")
    left = printed.lost + len(printed.head) + len(printed.tail) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[... about {left:,} bytes left out{'; ' + where if where else ''} ...]\n{tail}"


def _brief(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= BRIEF else f"{line[: BRIEF - 3]}..."


class Shell:
    """The run's bash: one process, and a new one after it died. Commands wait for each other."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._process: ShellProcess | None = None
        self._one_at_a_time = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._jobs: list[tuple[str, Capture]] = []

    @classmethod
    async def start(cls, sandbox: Sandbox) -> Self:
        """Raises: ToolError when bash cannot be started."""
        shell = cls(sandbox)
        shell._process = await ShellProcess.start(sandbox)
        return shell

    @property
    def directory(self) -> str:
        """Where the next command runs."""
        return self._process.directory if self._process and not self._process.dead else str(self._sandbox.workspace)

    async def restart(self) -> None:
        async with self._one_at_a_time:
            await self._end()
            self._process = await ShellProcess.start(self._sandbox)

    async def run(self, command: str, seconds: float, spill: Path) -> Outcome:
        """Run one command for at most `seconds`. Cancellation interrupts it and is let through."""
        async with self._one_at_a_time:
            process, notes = await self._revived()
            earlier = self._printed_meanwhile()
            name = f"output-{next(self._numbers)}"
            capture = Capture(self._sandbox.shared.outside / name, OUTPUT_BYTES)
            capture.spill_to(spill)
            pipe = f"{self._sandbox.shared.inside}/{name}"
            try:
                ended = await process.run(command, pipe, seconds, capture.full)
            except BaseException:
                capture.close()
                raise
            capture.drain()
            printed = capture.take()
            self._kept(command, capture)
            return Outcome(ended, printed, seconds, capture.full.is_set(), earlier, notes)

    async def aclose(self) -> None:
        await self._end()

    async def _revived(self) -> tuple[ShellProcess, tuple[str, ...]]:
        """A living shell, whatever happened since the last command; and what is to be said about it."""
        workspace = self._sandbox.workspace
        if not workspace.is_dir():
            raise ToolError(f"the workspace {workspace} is gone; create the folder again and repeat the call")
        old, notes = self._process, ()
        if old is not None and not old.dead:
            why = await old.lost()
            if not why:
                return old, ()
            notes = (f"since the last command the shell was lost: {why}. This is a new shell: {GONE}",)
        self._process = None
        self._process = process = await ShellProcess.start(self._sandbox)
        return process, notes

    def _printed_meanwhile(self) -> tuple[tuple[str, Printed], ...]:
        printed: list[tuple[str, Printed]] = []
        for command, capture in self._jobs:
            capture.drain()
            if capture.total:
                printed.append((command, capture.take()))
        self._jobs = [job for job in self._jobs if not job[1].closed]
        return tuple(printed)

    def _kept(self, command: str, capture: Capture) -> None:
        """Jobs of the command may print later."""
        capture.leave_to_jobs()
        if capture.closed:
            return
        self._jobs.append((command, capture))
        if len(self._jobs) > JOBS:
            self._jobs.pop(0)[1].close()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.aclose()
        for _, capture in self._jobs:
            capture.close()
        self._jobs = []
