"""Tool: a name, a schema and something to call; `@tool` makes one from a function."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

from handloom.messages import Json, ToolResult, ToolSpec
from handloom.sandbox.sandbox import Sandbox
from handloom.tools import schema

Effect = Literal["read", "write_workspace", "execute", "network_send", "external"]
Output = ToolResult | str | None
ResourceT = TypeVar("ResourceT", bound="Resource")


class Resource(Protocol):
    """Something a tool keeps alive between its calls in one run."""

    async def aclose(self) -> None: ...


class ToolContext(Protocol):
    """What a call may know of the run it belongs to."""

    @property
    def workspace(self) -> Path:
        """The folder in which the run works, absolute and resolved."""
        ...

    @property
    def call_id(self) -> str: ...

    async def ask(self, question: str, options: tuple[str, ...] = ()) -> str:
        """A person's answer. Raises: SuspendedError when nobody is there; the call is run again from its start once there is an answer."""
        ...

    async def resource(self, kind: type[ResourceT], make: Callable[[], Awaitable[ResourceT]]) -> ResourceT:
        """The run's one object of this kind; made at its first use, closed when the run ends."""
        ...

    async def sandbox(self) -> Sandbox:
        """Where the run starts programs; opened at its first use. Raises: SandboxError when there is none, with the reason and the fix."""
        ...

    def spill_file(self) -> Path:
        """Where the call may write the complete text of a result that is too long to hand over; `ToolResult.spill` then has the file's name."""
        ...

    async def artifact(self, path: Path, note: str = "") -> None:
        """Report a file that a person will want to see."""
        ...

    def earlier(self, name: str) -> list[Json]:
        """The arguments of the calls of this tool that have succeeded in this conversation, in order."""
        ...

    def recall(self, handle: str) -> str:
        """The complete text of an earlier result of this run. Raises: ToolError when no result has this handle."""
        ...


@dataclass(frozen=True)
class Tool:
    """A tool that a model can call.

    `parameters` is a JSON Schema of type object. `call` gets the checked arguments as keywords, and the context when `wants_context` is set.
    `untrusted` results are written by strangers; `destinations` names the parameters that say where a call sends something.
    `repeatable` tools may run again after a crash; `parallel` tools may run beside others of the same reply.
    """

    name: str
    description: str
    parameters: Json
    call: Callable[..., Any]
    effects: frozenset[Effect] = frozenset({"external"})
    repeatable: bool = False
    parallel: bool = False
    untrusted: bool = False
    destinations: tuple[str, ...] = ()
    context_name: str = ""
    variants: tuple[Json, ...] = ()
    check: Callable[[Json], Json] = field(default=lambda arguments: arguments, repr=False)

    @cached_property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, parameters=self.parameters, variants=self.variants
        )

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.call)

    async def run(self, arguments: Json, context: ToolContext) -> ToolResult:
        """Check the arguments and call. Raises: ToolError for wrong arguments, and whatever the tool raises."""
        values = self.check(arguments)
        if self.context_name:
            values = {**values, self.context_name: context}
        if self._is_async:
            return as_result(await self.call(**values))
        return as_result(await asyncio.to_thread(self.call, **values))


def with_actions(tool: Tool, actions: Mapping[str, str], description: str) -> Tool:
    """The tool with these of its actions alone, written as for `@tool(actions=...)`: a small model chooses better among few, and each parameter costs tokens."""
    selector, *_ = properties = tool.parameters["properties"]
    used = {name for words in actions.values() for name in words.replace("?", "").split()}
    kept = {name: sub for name, sub in properties.items() if name in used}
    parameters = {**tool.parameters, "properties": {selector: {**properties[selector], "enum": [*actions]}, **kept}}
    return replace(tool, description=description, parameters=parameters, variants=schema.variants(parameters, actions))


@runtime_checkable
class Toolset(Protocol):
    """A changing set of tools, read anew each turn (an MCP server, say)."""

    async def tools(self) -> list[Tool]: ...


def as_result(output: object) -> ToolResult:
    """What a tool's function returned, as a result: text as it is, other values as JSON where they have a JSON form."""
    match output:
        case ToolResult():
            return output
        case None:
            return ToolResult(text="done")
        case str():
            return ToolResult(text=output)
        case _:
            return ToolResult(text=schema.as_text(output))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    effects: frozenset[Effect] | set[Effect] = ...,
    repeatable: bool = False,
    parallel: bool = False,
    untrusted: bool = False,
    destinations: tuple[str, ...] = (),
    actions: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    effects: frozenset[Effect] | set[Effect] = frozenset({"external"}),
    repeatable: bool = False,
    parallel: bool = False,
    untrusted: bool = False,
    destinations: tuple[str, ...] = (),
    actions: Mapping[str, str] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a function, sync or async: its signature is the schema, its docstring the description.

    A parameter annotated `ToolContext` is filled by handloom and hidden from the model. A sync function runs in a thread.
    `actions`, for a tool whose first parameter chooses what it does, names the other parameters of each: `{"view": "path range?", "create": "path text"}`.
    Raises: TypeError when a parameter has no annotation.
    """

    def make(function: Callable[..., Any]) -> Tool:
        shape = schema.read(function, ToolContext)
        return Tool(
            name=name or function.__name__,
            description=shape.description,
            parameters=shape.parameters,
            call=function,
            effects=frozenset(effects),
            repeatable=repeatable,
            parallel=parallel,
            untrusted=untrusted,
            destinations=destinations,
            context_name=shape.context_name,
            variants=schema.variants(shape.parameters, actions or {}),
            check=shape.check,
        )

    return make if function is None else make(function)
