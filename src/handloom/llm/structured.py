"""Structured mode: tools for models that cannot call them natively.

The tools stand in the system prompt and the reply is bound by a JSON Schema to be a call, so that a small model cannot write a broken one.
Memory is the same as in native mode; only the form on the wire differs. The `qwen` form follows the layout that family was trained on
(a `# Tools` section, one schema a line in `<tools>` tags, results in `<tool_response>` tags).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handloom.llm.profiles import Dialect, Profile
from handloom.llm.repair import MAX_CALLS, make_call
from handloom.llm.wire import content, merged, tool_line
from handloom.messages import Json, Message, ToolCall, ToolSpec, is_list, is_object

THOUGHT = 240  # characters of thought that the schema allows before the calls
FEW = 4  # calls in one reply
_DEFINITIONS = ("$defs", "definitions")
_REFERENCE = re.compile(r"^#/(?:\$defs|definitions)/")


@dataclass(frozen=True)
class Form:
    """How a family wants its calls: with a thought first or not, one or several in a reply."""

    thought: bool
    several: bool
    result: str
    rules: str


FORMS: dict[Dialect, Form] = {
    "calls": Form(
        thought=True,
        several=True,
        result="Observed output of `{name}`:\n{text}",
        rules='Reply with one JSON object: {"thought": why, in one short sentence, "calls": [{"name": tool, "arguments": {...}}, ...]}.',
    ),
    "qwen": Form(
        thought=False,
        several=False,
        result="<tool_response>\n{text}\n</tool_response>",
        rules='Reply with one JSON object that calls one function: {"name": function name, "arguments": {...}}.',
    ),
}


def system_prompt(system: str, tools: Sequence[ToolSpec], dialect: Dialect) -> str:
    """The system prompt with the tools and the form of a reply behind it."""
    lines = "\n".join(tool_line(tool) for tool in tools)
    return f"{system}\n\n# Tools\n\nThese functions are all you can call:\n<tools>\n{lines}\n</tools>\n\n{FORMS[dialect].rules}".strip()


def reply_schema(tools: Sequence[ToolSpec], dialect: Dialect) -> Json:
    """The JSON Schema of a reply: a union of the tools, each with its own arguments. Their definitions move up to the root, where references start."""
    named = [(tool, f"t{number}_") for number, tool in enumerate(tools)]  # definitions of two tools may share a name
    union = _union([member for tool, prefix in named for member in _members(tool, prefix)], FORMS[dialect])
    shared: Json = {}
    for tool, prefix in named:
        shared |= _definitions(tool, prefix)
    return {**union, "$defs": shared} if shared else union


def _union(members: list[Json], form: Form) -> Json:
    union: Json = members[0] if len(members) == 1 else {"anyOf": members}
    if form.several:
        calls: Json = {"type": "array", "items": union, "minItems": 1, "maxItems": FEW}
        return _object({"thought": {"type": "string", "maxLength": THOUGHT}, "calls": calls}, ["thought", "calls"])
    if form.thought:
        for member in members:
            member["properties"] = {"thought": {"type": "string", "maxLength": THOUGHT}, **member["properties"]}
            member["required"] = ["thought", *member["required"]]
    return union


def format_messages(
    system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], profile: Profile
) -> list[Json]:
    """Provider dicts in order; what follows a reply (results, prompts) is one user message, since strict chat templates want roles to alternate."""
    form = FORMS[profile.dialect]
    out: list[Json] = [
        {"role": "system", "content": system_prompt(system, tools, profile.dialect) if tools else system}
    ]
    for message in messages:
        match message.role:
            case "assistant":
                out.append({"role": "assistant", "content": _said(message, form)})
                continue
            case "tool":
                text = form.result.format(name=message.name, text=message.text)
            case "user":
                text = message.text
        merged(out, content(text, message.images, profile))
    return out


def read_reply(value: Json, dialect: Dialect) -> tuple[str, list[ToolCall]] | None:
    """(thought, calls) of a reply of this form, or None when it is of another."""
    thought = value.get("thought", "")
    calls = value.get("calls") if FORMS[dialect].several else [value]
    if not isinstance(thought, str) or not is_list(calls):
        return None
    found = [_call(call) for call in calls[:MAX_CALLS]]
    return (thought, [call for call in found if call]) if all(found) else None


def _call(value: Any) -> ToolCall | None:
    if is_object(value) and isinstance(value.get("name"), str) and is_object(value.get("arguments")):
        return make_call("", value["name"], value["arguments"])
    return None


def _said(message: Message, form: Form) -> str:
    """An assistant message in the form in which the model would write it now."""
    if not message.tool_calls:
        return message.text or "(empty)"
    calls = [
        {"name": call.name, "arguments": {"unreadable": call.raw[:200]} if call.error else call.arguments}
        for call in message.tool_calls
    ]
    if form.several:
        return _dump({"thought": message.text, "calls": calls})
    head = {"thought": message.text} if form.thought else {}
    return "\n".join(_dump(head | call) for call in calls)


def _object(properties: Json, required: list[str]) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _members(tool: ToolSpec, prefix: str) -> list[Json]:
    """A call of the tool, or one for each of its actions."""
    return [
        _object(
            {
                "name": {"const": tool.name},
                "arguments": _closed({key: sub for key, sub in arguments.items() if key not in _DEFINITIONS}, prefix),
            },
            ["name", "arguments"],
        )
        for arguments in tool.variants or (tool.parameters,)
    ]


def _definitions(tool: ToolSpec, prefix: str) -> Json:
    """What the schemas of the tool refer to; those of its actions refer to the definitions of the whole."""
    return {
        f"{prefix}{name}": _closed(sub, prefix)
        for schema in (tool.parameters, *tool.variants)
        for key in _DEFINITIONS
        for name, sub in schema.get(key, {}).items()
    }


def _closed(schema: Any, prefix: str) -> Any:
    """The schema as decoders want it: closed objects, bounded arrays, nothing that only documents. References get the prefix of the definitions."""
    if is_list(schema):
        return [_closed(sub, prefix) for sub in schema]
    if not is_object(schema):
        return schema
    out: Json = {}
    for key, value in schema.items():
        match key:
            case "description" | "default" | "title" | "examples" | "discriminator":
                continue
            case "properties" | "patternProperties" | "$defs" | "definitions":
                out[key] = {name: _closed(sub, prefix) for name, sub in value.items()}
            case "const" | "enum":
                out[key] = value
            case "$ref":
                out[key] = _REFERENCE.sub(f"#/$defs/{prefix}", value)
            case _:
                out[key] = _closed(value, prefix)
    if out.get("type") == "object" and "properties" in out:
        out.setdefault("additionalProperties", False)
    if out.get("type") == "array":
        out.setdefault("maxItems", 100)
    return out


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
