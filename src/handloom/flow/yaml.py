"""Reading YAML into plain values, with the line and column of each, and writing it.

The words of YAML 1.1 that surprise people (`yes`, `on`, `1:30`) are text here, a key that stands twice is an error, and aliases cannot make a small file large.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from handloom.errors import FlowError
from handloom.flow.problems import Path, Problem

LONGEST = 2_000_000  # characters of a file
MOST_VALUES = 200_000
DEEPEST = 40
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*([eE][-+][0-9]+)?|\.[0-9]+([eE][-+][0-9]+)?)")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_ODD = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
Place = tuple[int, int]


@dataclass
class Document:
    """The values of a file and where they stand: the key where there is one, else the value."""

    values: Any = None
    places: dict[Path, Place] = field(default_factory=dict[Path, Place])
    source: str = ""

    def problem(self, path: Path, text: str) -> Problem:
        """A problem at the place of `path`, or of what holds it."""
        at = path
        while at and at not in self.places:
            at = at[:-1]
        line, column = self.places.get(at, (0, 0))
        return Problem(path, text, line, column, self.source)


def read(text: str, source: str = "") -> Document:
    """The document of a text. Raises: FlowError naming line and column."""
    if len(text) > LONGEST:
        raise FlowError(Problem((), f"the file has {len(text):,} characters, more than {LONGEST:,}", source=source))
    try:
        node = cast("Node | None", yaml.compose(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]  # its stubs leave the loader open
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, [error.context, error.problem]))
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise FlowError(Problem((), f"this is no YAML: {said}", line, column, source)) from None
    except yaml.YAMLError as error:  # characters that YAML does not allow
        raise FlowError(Problem((), f"this is no YAML: {' '.join(str(error).split())}", source=source)) from None
    except RecursionError:
        raise FlowError(Problem((), "this is nested too deeply", source=source)) from None
    reader = _Reader(source)
    values = None if node is None else reader.value(node, ())
    if reader.problems:
        raise FlowError(*reader.problems)
    return Document(values, reader.places, source)


def write(values: Mapping[str, Any]) -> str:
    """The values as YAML that people like to read; `read` gives the same values back."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - every value stands in full
            return True

    def text(dumper: Any, value: str) -> Node:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))

    Dumper.add_representer(str, text)
    return yaml.dump(dict(values), Dumper=Dumper, allow_unicode=True, sort_keys=False, width=120)


def _style(text: str) -> str | None:
    """Lines of a text stay lines; what a reader could take for a line break is written as an escape."""
    if _ODD.search(text):
        return '"'
    return "|" if "\n" in text else None


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self._count = 0

    def value(self, node: Node, path: Path) -> Any:
        self._count += 1
        place = _place(node)
        self.places.setdefault(path, place)
        if self._count > MOST_VALUES or len(path) > DEEPEST:
            if not self.problems:
                self.problems.append(
                    Problem((), "this holds too many values, or nests them too deeply", *place, self.source)
                )
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            items: list[Node] = node.value
            return [self.value(item, (*path, at)) for at, item in enumerate(items)]
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        pairs: list[tuple[Node, Node]] = node.value
        for key_node, value_node in pairs:
            if not isinstance(key_node, ScalarNode):
                self.problems.append(Problem(path, "a key must be a word", *_place(key_node), self.source))
                continue
            key = str(key_node.value)
            if key in found:
                self.problems.append(Problem((*path, key), "this key stands twice", *_place(key_node), self.source))
                continue
            self.places[*path, key] = _place(key_node)
            found[key] = self.value(value_node, (*path, key))
        return found


def _place(node: Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _scalar(node: Node) -> Any:
    text = str(node.value)
    if isinstance(node, ScalarNode) and node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 20:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
