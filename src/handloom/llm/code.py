"""The `code` form: a model acts by writing Python in a fence, and ends by writing no fence.

A small coding model writes good programs and bad JSON strings: packed into an argument, its code loses line breaks and grows semicolons. Here the block
is the call of the tool that takes `code`; the other tools are called with a JSON block. Nothing binds the decoding, so the reader is tolerant.
"""

import ast
import re
from collections.abc import Sequence

from handloom.llm.profiles import Profile
from handloom.llm.repair import recognise
from handloom.llm.wire import content, merged, tool_line
from handloom.messages import Json, Message, ToolCall, ToolSpec

START = "```python\n"  # how a reply begins that acts
STOP = "\n```\n\n"  # the end of a block: what a model writes behind it is a guess at the output
_BLOCK = re.compile(r"```(?:python|py)[ \t]*\n(.*?)(^[ \t]*```|\Z)", re.DOTALL | re.IGNORECASE | re.MULTILINE)
_BARE = re.compile(r"```[ \t]*\n(.*?)(^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
END = "terminate"


def code_tool(tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool that runs code: the one that needs `code` and nothing else."""
    return next((tool for tool in tools if tool.parameters.get("required") == ["code"]), None)


def suits(tools: Sequence[ToolSpec]) -> bool:
    """Whether this is the form for these tools: one of them runs code, and none has actions of its own, whose arguments are better bound than hoped for."""
    return code_tool(tools) is not None and not any(tool.variants for tool in tools)


def system_prompt(system: str, tools: Sequence[ToolSpec]) -> str:
    """The system prompt with the form of a reply behind it; `terminate` needs no mention, a plain answer ends the run."""
    runner = code_tool(tools)
    others = [tool for tool in tools if tool is not runner and tool.name != END]
    parts = [system, "# Reply"]
    if runner is not None:
        parts.append(f"To act, reply with one ```python block. {runner.description}")
    if others:
        lines = "\n".join(tool_line(tool) for tool in others)
        parts.append(
            f'To call another function, reply with one ```json block {{"name": ..., "arguments": {{...}}}}:\n<tools>\n{lines}\n</tools>'
        )
    parts.append("To end, reply with the complete answer in plain words, without a block.")
    return "\n\n".join(part for part in parts if part)


def format_messages(
    system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], profile: Profile
) -> list[Json]:
    """Provider dicts in order; what follows a reply is one user message."""
    out: list[Json] = [{"role": "system", "content": system_prompt(system, tools) if tools else system}]
    for message in messages:
        match message.role:
            case "assistant":
                out.append({"role": "assistant", "content": _said(message)})
            case "tool":
                merged(out, content(f"Output:\n{message.text}", message.images, profile))
            case "user":
                merged(out, content(message.text, message.images, profile))
    return out


def read_reply(text: str, tools: Sequence[ToolSpec], *, cut: bool = False) -> tuple[str, list[ToolCall]]:
    """(words, calls) of a reply. Several Python blocks are one program; one whose fence is open where the reply was `cut` is the beginning of one, and no call."""
    rest, calls = recognise(text, [tool for tool in tools if tool.parameters.get("required") != ["code"]])
    runner = code_tool(tools)
    if calls or runner is None:
        return rest, calls
    blocks: list[tuple[str, str]] = _BLOCK.findall(text) or [
        found for found in _BARE.findall(text) if _is_code(found[0])
    ]
    code = "\n".join(block.rstrip("\n") for block, _ in blocks if block.strip())
    if not code or (cut and not all(fence for _, fence in blocks)):
        return text, []
    return text[: text.index("```")].strip(), [ToolCall(id="", name=runner.name, arguments={"code": code})]


def _is_code(block: str) -> bool:
    """Whether a block without a language is Python; what a program printed seldom is."""
    try:
        return bool(ast.parse(block).body) and not block.strip().isdecimal()
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _said(message: Message) -> str:
    """An assistant message as it was written: its words, then a block for each call."""
    blocks = [_block(call) for call in message.tool_calls]
    return "\n".join(part for part in (message.text, *blocks) if part) or "(empty)"


def _block(call: ToolCall) -> str:
    if call.name == END:
        return str(call.arguments.get("answer", ""))
    if "code" in call.arguments:
        return f"```python\n{call.arguments['code']}\n```"
    return f'```json\n{{"name": "{call.name}", "arguments": {call.arguments_json}}}\n```'
