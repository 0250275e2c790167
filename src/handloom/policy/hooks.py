"""Hooks: a person's own commands that see each call as JSON and may block it."""

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from handloom.messages import Json

Moment = Literal["before_tool", "after_tool", "run_end"]
KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
SAID = 2_000  # characters of a reason


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A command for a moment. `tool` limits it to tools of that name (`*` stands for any text); `timeout` is seconds."""

    on: Moment
    command: str
    tool: str = "*"
    timeout: float = 30.0


@dataclass(frozen=True)
class Refused:
    """A hook said no, or could not be asked."""

    reason: str


async def run_hooks(
    hooks: Iterable[Hook], moment: Moment, body: Json, *, tool: str = "", folder: str
) -> Refused | None:
    """Run the hooks of a moment one after the other with `body` on their standard input; the first refusal ends it.

    Exit 0 lets the call pass, exit 2 blocks it, anything else (a crash, a time-out, a command that is not there) counts as a refusal too: a guard that
    fell asleep lets nobody in.
    """
    for hook in hooks:
        if hook.on == moment and (moment == "run_end" or fnmatchcase(tool, hook.tool)):
            refused = await _asked(hook, body, folder)
            if refused:
                return refused
    return None


async def _asked(hook: Hook, body: Json, folder: str) -> Refused | None:
    # A pipe stays open as long as any child of the hook holds it; a file says what the hook has said when the hook has ended.
    with tempfile.TemporaryFile() as said:
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(hook.command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=said,
                cwd=folder,
                env=_environment(os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Refused(f"the hook {hook.command!r} cannot be run: {error}")
        try:
            async with asyncio.timeout(hook.timeout):
                await process.communicate(msgspec.json.encode(body))
        except TimeoutError:
            return Refused(f"the hook {hook.command!r} did not answer within {hook.timeout:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or belongs to somebody else
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        said.seek(0)
        reason = said.read(4 * SAID).decode("utf-8", "replace").strip()[:SAID]
    match process.returncode:
        case 0:
            return None
        case 2:
            return Refused(reason or f"the hook {hook.command!r} blocked it")
        case status:
            return Refused(f"the hook {hook.command!r} failed with status {status}{f': {reason}' if reason else ''}")


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in KEPT if name in environment}
