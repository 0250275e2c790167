"""terminate: how an agent ends its run, with a status and an answer."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args

import jsonschema_rs

from handloom.errors import ConfigError, ToolError
from handloom.messages import Json, ToolResult
from handloom.tools.tool import Tool, tool

Status = Literal["success", "failure"]
SHOWN_ERRORS = 5
ERROR_CHARS = 200
_NOTHING = object()


@tool(repeatable=True, effects={"read"})
async def terminate(status: Status, answer: str) -> ToolResult:  # noqa: ARG001 - the status is read from the call
    """End the task. Nobody sees anything but `answer`: put the complete final answer there."""
    return ToolResult(text=answer)


def terminate_tool(output_schema: Json | None = None) -> Tool:
    """The tool that ends a run; with a JSON Schema, its `answer` must be valid under it, unless the status is failure.

    Raises: ConfigError when `output_schema` is not a JSON Schema.
    """
    if output_schema is None:
        return terminate
    answers = _Answers(output_schema)
    return Tool(
        name=terminate.name,
        description=terminate.description,
        parameters=answers.parameters,
        call=answers.end,
        effects=terminate.effects,
        repeatable=terminate.repeatable,
        check=answers.checked,
    )


class _Answers:
    """What an output schema makes of the arguments of `terminate`."""

    def __init__(self, output_schema: Json) -> None:
        try:
            self._validator = jsonschema_rs.validator_for(output_schema, retriever=_refuse)
        except (ValueError, TypeError) as error:  # `jsonschema_rs.ValidationError` is a ValueError
            raise ConfigError(f"the output schema is not a JSON Schema: {str(error).splitlines()[0]}") from None
        self.parameters = _parameters(output_schema)

    async def end(self, status: Status, answer: Any) -> ToolResult:  # noqa: ARG002 - the status is read from the call
        return ToolResult(text=answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))

    def checked(self, arguments: Json) -> Json:
        """Raises: ToolError that names each wrong place in the answer."""
        if arguments.keys() != {"status", "answer"} or arguments["status"] not in get_args(Status):
            raise ToolError("give status (success or failure) and answer, and nothing else")
        if arguments["status"] == "failure":
            return arguments
        answer = arguments["answer"]
        for candidate in (answer, _parsed(answer)):
            if candidate is not _NOTHING and self._validator.is_valid(candidate):
                return {**arguments, "answer": candidate}
        parsed = _parsed(answer)
        raise ToolError("the answer does not fit: " + "; ".join(self._faults(answer if parsed is _NOTHING else parsed)))

    def _faults(self, answer: Any) -> Iterator[str]:
        for number, error in enumerate(self._validator.iter_errors(answer)):
            if number == SHOWN_ERRORS:
                yield "and more"
                return
            where = ".".join(str(part) for part in ("answer", *error.instance_path))
            yield f"{where}: {error.message[:ERROR_CHARS]}"


def _parsed(answer: Any) -> Any:
    """Models often send JSON in a string where an object is wanted."""
    try:
        return json.loads(answer) if isinstance(answer, str) else _NOTHING
    except ValueError:
        return _NOTHING


def _parameters(output_schema: Json) -> Json:
    """Definitions move up: their references start at the root of the schema that the model reads."""
    answer = {
        key: value for key, value in output_schema.items() if key not in ("$defs", "definitions", "$schema", "$id")
    }
    shared = {key: output_schema[key] for key in ("$defs", "definitions") if key in output_schema}
    return {
        "type": "object",
        "properties": {"status": {"enum": list(get_args(Status)), "type": "string"}, "answer": answer},
        "required": ["status", "answer"],
        "additionalProperties": False,
        **shared,
    }


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} would have to be fetched; put it into the schema")
