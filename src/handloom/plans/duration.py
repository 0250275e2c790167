"""Durations as flow files write them: seconds, or `90s`, `5m`, `24h`."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
LONGEST = 10 * 366 * 86_400.0


def seconds(value: object) -> object:
    """A duration in seconds; what is none is left as it is, for the type to refuse. Raises: ValueError."""
    if not isinstance(value, str):
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhd]?)\s*", value)
    if match is None:
        raise ValueError(f"{value!r} is no duration; write seconds, or 90s, 5m, 24h")
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0, le=LONGEST),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "^[0-9.]+ *(ms|[smhd])?$"}]}
    ),
]
