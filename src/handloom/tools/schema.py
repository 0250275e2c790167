"""From a Python signature to the JSON Schema a model reads, and from a model's arguments to checked values."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from handloom.errors import ToolError
from handloom.messages import Json, is_list, is_object


@dataclass(frozen=True)
class Shape:
    """What `read` found in a function: its description, its parameters and a check that returns the values to call it with."""

    description: str
    parameters: Json
    context_name: str
    check: Callable[[Json], Json]


_SHAPES: dict[object, Shape] = {}  # of functions that were read; a tool made anew for other settings has the same shape
_MOST_SHAPES = 1_000


def read(function: Callable[..., Any], context_type: type) -> Shape:
    """The shape of a function. Its docstring may describe parameters in Google, NumPy or reST style.

    Raises: TypeError when a parameter has no annotation.
    """
    key = _signature(function, context_type)
    if key is None:
        return _read(function, context_type)
    if key not in _SHAPES:
        if len(_SHAPES) >= _MOST_SHAPES:
            _SHAPES.clear()
        _SHAPES[key] = _read(function, context_type)
    return _SHAPES[key]


def _signature(function: Callable[..., Any], context_type: type) -> object:
    """All of a function that its shape follows from, and so the same for each closure of one definition; None where it cannot be compared."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return None
    defaults: list[object] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    key: tuple[object, ...] = (
        code,
        function.__name__,
        function.__doc__,
        tuple((type(value), value) for value in defaults),
        tuple(function.__annotations__.items()),
        context_type,
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _read(function: Callable[..., Any], context_type: type) -> Shape:
    import docstring_parser
    from pydantic import ConfigDict, Field, ValidationError, create_model

    doc = docstring_parser.parse(inspect.getdoc(function) or "")
    about = {param.arg_name: " ".join((param.description or "").split()) for param in doc.params}
    fields: dict[str, Any] = {}
    context_name = ""
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{function.__name__}: parameter {name!r} needs a type annotation, the model reads it")
        if parameter.annotation is context_type:
            context_name = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=about.get(name) or None))
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    parameters = slim(model.model_json_schema())

    names = tuple(fields)

    def check(arguments: Json) -> Json:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(explain(error.errors(include_url=False), parameters)) from None
        return {name: getattr(checked, name) for name in names}

    description = "\n".join(part for part in (doc.short_description, doc.long_description) if part)
    return Shape(description=description, parameters=parameters, context_name=context_name, check=check)


def slim(schema: Any) -> Any:
    """The schema without what costs tokens and tells a model nothing: titles, null defaults, the null branch of optional values."""
    if is_list(schema):
        return [slim(item) for item in schema]
    if not is_object(schema):
        return schema
    out: Json = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties":
            out[key] = {name: slim(sub) for name, sub in value.items()}
        elif not (key == "default" and value is None):
            out[key] = slim(value)
    branches = [branch for branch in out.get("anyOf", []) if branch != {"type": "null"}]
    if len(branches) == 1 and len(branches) < len(out["anyOf"]):
        del out["anyOf"]
        out |= branches[0]
    return out


def variants(parameters: Json, actions: Mapping[str, str]) -> tuple[Json, ...]:
    """A closed schema for each action: its name as a constant of the first parameter, then its own parameters, `?` behind the optional ones."""
    properties: Json = parameters["properties"]
    found: list[Json] = []
    for action, words in actions.items():
        selector, names = next(iter(properties)), words.replace("?", "").split()
        required = [name for name, word in zip(names, words.split(), strict=True) if not word.endswith("?")]
        own: Json = {selector: {"const": action}, **{name: properties[name] for name in names}}
        found.append(
            {"type": "object", "properties": own, "required": [selector, *required], "additionalProperties": False}
        )
    return tuple(found)


def explain(errors: list[Any], parameters: Json) -> str:
    """Why arguments were refused, field by field, with what was wanted."""
    lines: list[str] = []
    for error in errors:
        where = ".".join(str(part) for part in error["loc"]) or "arguments"
        got = "" if error["type"] in ("missing", "extra_forbidden") else f" (got {_brief(error['input'])})"
        said = {"missing": "is missing", "extra_forbidden": "is not a parameter"}.get(error["type"], error["msg"])
        lines.append(f"{where}: {said}{got}")
    return "wrong arguments: " + "; ".join(lines) + f". Parameters: {signature(parameters)}"


def signature(parameters: Json) -> str:
    """One line such as `code (string, required), timeout (number)`."""
    required = parameters.get("required", [])
    return ", ".join(
        f"{name} ({'|'.join(map(str, sub['enum'])) if 'enum' in sub else sub.get('type', 'any')}{', required' if name in required else ''})"
        for name, sub in parameters.get("properties", {}).items()
    )


def as_text(value: object) -> str:
    """A value as JSON where it has a JSON form, else as its `str`."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(value).decode()
    except (PydanticSerializationError, UnicodeDecodeError):
        return str(value)


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
