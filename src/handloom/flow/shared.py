"""What came of a step, as all templates that read it have it: its text is made once and not for each of them, so that the items of a `for_each` can read a long list."""

import json
from functools import cached_property
from typing import Any

import msgspec

from handloom.messages import is_list, is_object


class _Shared:
    """A value that many read and nobody changes. The underscore keeps its text out of the reach of templates, which would find any other name of this class."""

    @cached_property
    def _text(self) -> str:
        return json.dumps(self, ensure_ascii=False)


class _List(_Shared, list[Any]):
    pass


class _Object(_Shared, dict[str, Any]):
    pass


for _kind, _name in ((_List, "list"), (_Object, "dict")):
    _kind.__module__, _kind.__name__ = "builtins", _name  # as which the errors of templates speak of them


def share(value: Any) -> Any:
    """An equal value that is shared; what is no list and no object is given as it is."""
    if is_list(value):
        return _List(value)
    return _Object(value) if is_object(value) else value


def is_shared(value: object) -> bool:
    return isinstance(value, _Shared)


def text_of(value: object) -> str | None:
    """A shared value as JSON; None for others."""
    return value._text if isinstance(value, _Shared) else None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # of this module


def copied(value: Any) -> Any:
    """A copy for whoever may change it, on every level."""
    return msgspec.to_builtins(value)
