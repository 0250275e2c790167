"""Running the calls of one reply: each becomes a result, whatever happens, and each is recorded before and after."""

import asyncio
import difflib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec

from handloom.agents import gate
from handloom.errors import HandloomError, RunStoppedError, ToolError
from handloom.events import ArtifactAdded, ToolCalled, ToolReturned
from handloom.messages import Json, ToolCall, ToolResult
from handloom.runs import Closeable, Run
from handloom.sandbox import Sandbox
from handloom.tools import Tool, schema
from handloom.tools.earlier import successful
from handloom.tools.results import clean, cut

log = logging.getLogger(__name__)

MOST_CALLS = 16
OUTPUT = 32_000  # characters of a result that memory keeps; the rest is in a file of the run
CloseableT = TypeVar("CloseableT", bound=Closeable)


class CallContext:
    """A ToolContext for one call of a run."""

    def __init__(self, run: Run, call: ToolCall) -> None:
        self.workspace = run.workspace
        self.call_id = call.id
        self._run = run
        self._asked = 0

    async def ask(self, question: str, options: tuple[str, ...] = ()) -> str:
        self._asked += 1
        return await self._run.ask(question, options, key=str(self._asked))

    async def resource(self, kind: type[CloseableT], make: Callable[[], Awaitable[CloseableT]]) -> CloseableT:
        return await self._run.resource(kind, make)

    async def sandbox(self) -> Sandbox:
        return await self._run.sandbox()

    def spill_file(self) -> Path:
        return self._run.folder / _spill_name(self._run.span, self.call_id)

    async def artifact(self, path: Path, note: str = "") -> None:
        await self._run.emit(ArtifactAdded(path=str(path), note=note))

    def earlier(self, name: str) -> list[Json]:
        return successful(self._run.memory.messages, name)

    def recall(self, handle: str) -> str:
        message = self._run.memory.result(handle)
        if message is None:
            raise ToolError(f"no result has the handle {handle!r}")
        if not message.spill:
            return message.text
        return clean((self._run.folder / message.spill).read_text(encoding="utf-8", errors="replace"))


async def run_calls(run: Run, calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> None:
    """Run the calls of a reply in order; neighbours whose tools allow it run together.

    A call that must wait for a person lets the others finish first. Raises: SuspendedError and the other stops of a run.
    """
    for together, group in groupby(calls, key=lambda call: call.name in tools and tools[call.name].parallel):
        batch = list(group)
        if not together:
            for call in batch:
                await _run_call(run, call, tools)
            continue
        outcomes = await asyncio.gather(*(_run_call(run, call, tools) for call in batch), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome


async def _run_call(run: Run, call: ToolCall, tools: Mapping[str, Tool]) -> None:
    span = run.child(f"call-{call.id}")
    started = time.monotonic()
    tool = tools.get(call.name)
    if tool is None or call.error:
        result = ToolResult(text=_unknown(call, tools) if tool is None else _unreadable(call, tool), ok=False)
    elif span.span in run.state.open_calls and not tool.repeatable and not _asked(span):
        result = ToolResult(
            text="interrupted, outcome unknown: the run stopped during this call. Check what it did before you repeat it.",
            ok=False,
        )
    else:
        result = _wrong(call, tool) or await gate.refusal(span, call, tool) or await _run_tool(span, call, tool)
    await span.emit(ToolReturned(call=call, result=result, seconds=round(time.monotonic() - started, 3)))


def _wrong(call: ToolCall, tool: Tool) -> ToolResult | None:
    """What is wrong with the arguments, before anyone is asked about them."""
    try:
        tool.check(call.arguments)
    except ToolError as error:
        return ToolResult(text=str(error), ok=False)
    return None


async def _run_tool(span: Run, call: ToolCall, tool: Tool) -> ToolResult:
    if span.span not in span.state.open_calls:
        await span.emit(ToolCalled(call=call))
    result = await gate.checked(span, call, tool, await _result(span, call, tool))
    return _bounded(span, call, result)


def _asked(span: Run) -> bool:
    """Whether the call had stopped to ask a person, so that it is known where it stopped."""
    own = (identity for identity in span.state.questions if identity.startswith(f"{span.span}?"))
    return any(not identity.endswith(f"?{gate.APPROVAL}") for identity in own)


async def _result(span: Run, call: ToolCall, tool: Tool) -> ToolResult:
    try:
        return await tool.run(call.arguments, CallContext(span, call))
    except RunStoppedError:
        raise
    except ToolError as error:
        return ToolResult(text=str(error), ok=False)
    except HandloomError as error:
        return ToolResult(text=f"{type(error).__name__}: {error}", ok=False)
    except Exception as error:
        log.exception("tool %s failed in run %s", tool.name, span.id)
        return ToolResult(text=f"the tool {tool.name} broke: {type(error).__name__}: {error}", ok=False)


def _bounded(span: Run, call: ToolCall, result: ToolResult) -> ToolResult:
    """The result with clean text of bounded length; the complete text goes to a file of the run."""
    redactor = span.safety.redactor
    text = redactor.clean_cut(clean(result.text))
    if result.spill:
        path = span.folder / result.spill
        if redactor.values and (whole := path.read_bytes()) != (cleaned := redactor.clean_bytes(whole)):
            path.write_bytes(cleaned)
    if len(text) <= OUTPUT or result.spill:
        return msgspec.structs.replace(result, text=text)
    name = _spill_name(span.span, call.id)
    (span.folder / name).write_text(text, encoding="utf-8")
    return msgspec.structs.replace(
        result, text=redactor.clean_cut(cut(text, OUTPUT, where=f'read_result("{call.id}") shows all')), spill=name
    )


def _spill_name(span: str, call_id: str) -> str:
    """The file for the long result of a call: ids count per agent, so the span, whose names may be long, tells those of one run apart."""
    return f"{call_id}-{hashlib.sha256(span.encode()).hexdigest()[:16]}.txt"


def _unknown(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    if not call.name:
        return f"the call could not be read: {call.error}"
    by_lower = {name.lower(): name for name in tools}
    near = [by_lower[name] for name in difflib.get_close_matches(call.name.lower(), by_lower, n=3, cutoff=0.3)]
    return f"there is no tool {call.name[:80]!r}; the nearest are: {', '.join(near or list(tools)[:3])}"


def _unreadable(call: ToolCall, tool: Tool) -> str:
    return f"the arguments of {call.name} could not be read: {call.error}. It was not run. Parameters: {schema.signature(tool.parameters)}"
