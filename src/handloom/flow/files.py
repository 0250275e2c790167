"""Flow files: YAML to a plan and back. A mistake is told with its line and column, and all of a file at once."""

from pathlib import Path as File
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from handloom.errors import FlowError
from handloom.flow import yaml
from handloom.flow.problems import Path, Problem, meant
from handloom.messages import Json, is_list, is_object
from handloom.plans import Plan


def load(path: File) -> tuple[Plan, yaml.Document]:
    """The plan of a file, with the places of its parts. Raises: FlowError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FlowError(Problem((), f"the flow file {path} cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError:
        raise FlowError(Problem((), f"the flow file {path} is not UTF-8")) from None
    return parse(text, source=path.name)


def parse(text: str, *, source: str = "") -> tuple[Plan, yaml.Document]:
    """The plan of a text in YAML (or JSON, which is YAML too). Raises: FlowError."""
    document = yaml.read(text, source)
    if document.values is None:
        raise FlowError(document.problem((), "the flow is empty; it needs at least `steps`"))
    if not is_object(document.values):
        raise FlowError(document.problem((), "a flow is a mapping with `steps`, `name`, `inputs` and so on"))
    return plan_of(document.values, document), document


def plan_of(values: Json, document: yaml.Document | None = None) -> Plan:
    """The plan of plain values, such as a planner's JSON. Raises: FlowError with every mistake."""
    document = document or yaml.Document(values)
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        problems = [_problem(fault, values, document) for fault in error.errors(include_url=False)]
        raise FlowError(*dict.fromkeys(problems)) from None


def text_of(plan: Plan) -> str:
    """The plan as a flow file."""
    return yaml.write(plan.as_json())


def json_schema() -> Json:
    """The JSON Schema of a flow file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Plan.model_json_schema(by_alias=True)}


def _problem(fault: Any, values: Json, document: yaml.Document) -> Problem:
    path = _real_path(fault["loc"], values)
    last = str(path[-1]) if path else ""
    match fault["type"]:
        case "extra_forbidden":
            known = _keys(path[:-1])
            return document.problem(path, f"there is no key {last!r} here; {meant(last, known, shown=40)}")
        case "missing":
            return document.problem(path, f"{str(fault['loc'][-1])!r} is missing")
        case "value_error":
            return document.problem(path, str(fault["ctx"]["error"]))
        case "too_short" if path == ("steps",):
            return document.problem(path, "a plan needs at least one step")
        case "literal_error":
            return document.problem(path, f"must be {fault['ctx']['expected']}, and is {_brief(fault['input'])}")
        case "string_type":
            return document.problem(path, f"must be text, and is {_brief(fault['input'])}; put it in quotes")
        case _:
            said = fault["msg"].replace("Input should be", "must be")
            return document.problem(path, f"{said}; this is {_brief(fault['input'])}")


def _real_path(loc: Path, values: Any) -> Path:
    """The part of pydantic's path that is in the values; it also names branches of unions, and keys that are missing."""
    path: list[str | int] = []
    for part in loc:
        found = _at(values, part)
        if found is not None:
            values = found[0]
            path.append(part)
    return tuple(path)


def _at(values: Any, part: str | int) -> tuple[Any] | None:
    """The value under a key or at a place, in a tuple; None where there is none."""
    if is_object(values) and isinstance(part, str):
        return (values[part],) if part in values else None
    if is_list(values) and isinstance(part, int):
        return (values[part],) if part < len(values) else None
    return None


def _keys(path: Path) -> list[str]:
    """The keys that a mapping of a flow file may have."""
    kinds: list[Any] = [Plan]
    for part in path:
        kinds = [below for kind in kinds for below in _below(kind, part)]
    return [field.alias or name for kind in kinds if _is_model(kind) for name, field in kind.model_fields.items()]


def _below(kind: Any, part: str | int) -> list[Any]:
    """The kinds of value that a part of a value of this kind may have."""
    if _is_model(kind):
        fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
        return _branches(fields.get(str(part)))
    return _branches(get_args(kind)[-1]) if get_origin(kind) in (dict, list) else []


def _branches(kind: Any) -> list[Any]:
    return list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
