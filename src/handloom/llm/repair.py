"""Reading calls that a model wrote badly: arguments that are almost JSON, and calls that stand in the text.

Only what has one possible meaning is mended. Everything else becomes a call with an `error`, which the loop answers and never runs.
"""

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from handloom.messages import Json, ToolCall, ToolSpec, is_list, is_object

MAX_CALLS = 16
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*)```", re.DOTALL)
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCED_TAIL = re.compile(r"```(?:json|tool_call|tool_code|python|xml)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_LEAD = (
    300  # characters of introduction that may stand before a fenced call; a longer text is an answer that quotes one
)


class UnreadableError(ValueError):
    """Why a text is no JSON object, for the model to read."""


def read_object(text: str) -> Json:
    """The JSON object in a text. Mended: a code fence, raw line breaks in strings, text after the object, JSON in a JSON string, Python's quotes.

    Raises: UnreadableError, naming the position, for anything with more than one meaning (cut off, repeated keys, NaN, two objects).
    """
    text = _unfenced(text)
    if not text:
        return {}
    value = _decode(text)
    if isinstance(value, str):
        value = _decode(value.strip())
    if not is_object(value):
        raise UnreadableError(f"the arguments must be a JSON object, not {type(value).__name__}")
    return value


def _unfenced(text: str) -> str:
    """What stands in the fence that a text consists of, or the text, without the space around it."""
    text = text.strip()
    fenced = _FENCE.fullmatch(text)
    return fenced[1].strip() if fenced else text


def _decode(text: str) -> Any:
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_no_constant)
    try:
        value, end = decoder.raw_decode(text)
    except json.JSONDecodeError as error:
        return _python(text, error)
    except RecursionError:
        raise UnreadableError("the JSON is nested too deeply") from None
    rest = text[end:].strip()
    if "{" in rest or "[" in rest:
        raise UnreadableError(f"more than one JSON value: another one starts after position {end}")
    return value


def _python(text: str, error: json.JSONDecodeError) -> Any:
    """A Python literal (single quotes, True, None), which has one meaning too."""
    if text[:1] in "{'":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
        else:
            if is_object(value) or isinstance(value, str):
                return value
    raise UnreadableError(
        f"invalid JSON: {error.msg} at line {error.lineno} column {error.colno} (position {error.pos} of {len(text)})"
    ) from None


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    found: Json = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise UnreadableError(f"the key {key!r} stands twice with different values")
        found[key] = value
    return found


def _no_constant(name: str) -> float:
    raise UnreadableError(f"{name} is not JSON")


def make_call(identity: str, name: str, arguments: str | Json) -> ToolCall:
    """A call, with `error` set where its arguments cannot be read."""
    try:
        value = read_object(arguments) if isinstance(arguments, str) else arguments
        _check_text(value)
    except UnreadableError as error:
        return ToolCall(id=identity, name=sound(name), raw=sound(str(arguments)), error=str(error))
    return ToolCall(id=identity, name=sound(name), arguments=value)


def sound(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _check_text(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("a string holds half of a surrogate pair; write the character itself") from None


def recognise(text: str, tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]]:
    """(the text without its calls, the calls) of a reply that wrote its calls as text.

    Known forms: `<tool_call>` blocks, fenced JSON, bare JSON (one object or a list), a Python-like call of a known tool. A call counts only at the end of
    the reply and after a short introduction at most, so that a call quoted within an answer stays text.
    """
    for form in (_tagged, _whole, _fenced):
        if found := form(text, tools):
            return found
    return text, []


def _tagged(text: str, tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]] | None:
    start = text.find("<tool_call>")
    if start < 0 or _TAGGED.sub("", text[start:]).strip():
        return None
    bodies = [match[1].strip() for match in _TAGGED.finditer(text[start:])]
    calls = [
        call
        for body in bodies
        for call in _calls(body, tools) or [ToolCall(id="", name="", raw=body, error=_why(body))]
    ]
    return text[:start].strip(), calls[:MAX_CALLS]


def _whole(text: str, tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]] | None:
    calls = _calls(_unfenced(text), tools)
    return ("", calls[:MAX_CALLS]) if calls else None


def _fenced(text: str, tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]] | None:
    blocks = list(_FENCED_TAIL.finditer(text))
    if not blocks or text[blocks[-1].end() :].strip() or blocks[0].start() > _LEAD:
        return None
    calls: list[ToolCall] = []
    for block in blocks:
        calls += _calls(block[1], tools)
    return (text[: blocks[0].start()].strip(), calls[:MAX_CALLS]) if calls else None


def _calls(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """The calls that a body consists of, or nothing when it is anything else."""
    body = body.strip()
    names = {tool.name for tool in tools}
    if body[:1] in "{[":
        return _json_calls(body, names)
    return _python_call(body, tools)


def _json_calls(body: str, names: set[str]) -> list[ToolCall]:
    values: list[Any] = []
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unique, parse_constant=_no_constant)
    at = 0
    try:
        while at < len(body):
            value, at = decoder.raw_decode(body, at)
            values += value if is_list(value) else [value]
            while at < len(body) and body[at] in " \t\r\n,;":
                at += 1
    except (json.JSONDecodeError, UnreadableError, RecursionError):
        return []
    calls = [_json_call(value, names) for value in values]
    return [call for call in calls if call] if all(calls) else []


def _json_call(value: Any, names: set[str]) -> ToolCall | None:
    """A call from `{"name", "arguments"}` (or `parameters`), possibly inside `function`; an unknown name counts only with arguments beside it."""
    if not is_object(value):
        return None
    if is_object(value.get("function")):
        value = value["function"]
    name = value.get("name", value.get("tool"))
    arguments = next((value[key] for key in ("arguments", "parameters", "args") if key in value), None)
    extra = set(value) - {"name", "tool", "arguments", "parameters", "args", "id", "type"}
    if (
        not isinstance(name, str)
        or extra
        or (arguments is None and name not in names)
        or not (arguments is None or isinstance(arguments, str) or is_object(arguments))
    ):
        return None
    return make_call("", name, arguments if arguments is not None else {})


def _python_call(body: str, tools: Iterable[ToolSpec]) -> list[ToolCall]:
    """`name(key="value")` of a known tool with literal arguments; positional ones follow the order of the schema."""
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    known = {tool.name: list(tool.parameters.get("properties", {})) for tool in tools}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id not in known:
        return []
    order = known[tree.func.id]
    if len(tree.args) > len(order) or any(keyword.arg is None for keyword in tree.keywords):
        return []
    try:
        arguments = {name: ast.literal_eval(value) for name, value in zip(order, tree.args, strict=False)}
        arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}
        json.dumps(arguments)
    except (ValueError, TypeError):
        return []
    return [make_call("", tree.func.id, arguments)]


def _why(body: str) -> str:
    try:
        value = read_object(body)
    except UnreadableError as error:
        return str(error)
    return f'a call needs "name" and "arguments", this has {", ".join(map(repr, value)) or "nothing"}'
