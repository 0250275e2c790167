"""The values that a plan is given: from the command line's words, with defaults, checked against their types."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from handloom.errors import FlowError
from handloom.flow.problems import Problem, meant
from handloom.messages import Json
from handloom.plans import Input


def complete(declared: Mapping[str, Input], given: Mapping[str, Any]) -> Json:
    """All values of a plan, defaults included. Raises: FlowError with everything that is missing, unknown or of the wrong type."""
    problems = [
        Problem(("inputs", name), f"this flow has no input {name!r}; {meant(name, declared)}")
        for name in given
        if name not in declared
    ]
    values: Json = {}
    for name, form in declared.items():
        if name in given:
            values[name] = given[name]
            problems += faults(("inputs", name), form, given[name])
        elif form.required:
            hint = f" ({form.description})" if form.description else ""
            problems.append(
                Problem(
                    ("inputs", name), f"this input is required{hint}, of type {form.type}; give it with -i {name}=..."
                )
            )
        else:
            values[name] = form.default
    if problems:
        raise FlowError(*problems)
    return values


def faults(path: tuple[str | int, ...], form: Input, value: Any) -> list[Problem]:
    """Why a value is none of this form."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(form.schema_of())
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return [Problem(path, f"this is no valid JSON Schema: {str(error).splitlines()[0]}")]
    found = list(validator.iter_errors(value))[:3]
    return [Problem((*path, *error.instance_path), error.message) for error in found]


def read(words: Iterable[str], declared: Mapping[str, Input]) -> Json:
    """Values from words such as `product=tea` and `companies=["A", "B"]`; text needs no quotes, other types are JSON. Raises: FlowError."""
    values: Json = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise FlowError(Problem((), f"{word!r} is no value; write NAME=VALUE"))
        values[name] = _value(name, text, declared.get(name))
    return values


def _value(name: str, text: str, form: Input | None) -> Any:
    if form is None or form.type == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        if form.type != "array":
            raise FlowError(Problem(("inputs", name), f"{text!r} is no {form.type}; write it as JSON")) from None
    # A list of words is what people mean by commas.
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        return [part.strip() for part in text.split(",") if part.strip()]
