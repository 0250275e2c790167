"""The Jinja2 environment in which templates are filled: sandboxed, strict, and bounded in time and size.

Jinja2's own sandbox keeps a template from reaching Python's insides; it does not keep it from running for ever or filling the memory. So templates are for
filling in and nothing else (`{{ }}`, `{% if %}`, `{% for %}`), loops look at the clock, and what could make a long text of a short one is bounded.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import StrictUndefined, Undefined, nodes, pass_environment
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import do_indent, make_attrgetter
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from handloom.flow import shared

LONGEST = 4_000_000  # characters that a template may make
ALL_TEXTS = 16 * LONGEST  # characters that its filters may make on the way, all together
SLOWEST = 2.0  # seconds
MOST_ITEMS = 100_000
_deadline: ContextVar[float] = ContextVar("deadline", default=0.0)
_made: ContextVar[int] = ContextVar("made", default=0)

_STATEMENTS = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For)
# Filters and methods whose result can be far longer than what they are given, or that reach for what is not there.
_NO_FILTERS = (
    "center",
    "format",
    "batch",
    "slice",
    "xmlattr",
    "urlize",
    "pprint",
    "random",
    "wordwrap",
    "filesizeformat",
    "attr",
)
_NO_METHODS = {"center", "ljust", "rjust", "zfill", "format", "format_map", "expandtabs", "translate", "to_bytes"}
_NO_GLOBALS = ("lipsum", "cycler", "joiner", "namespace")


class Environment(ImmutableSandboxedEnvironment):
    """Fills templates within bounds; `begin` starts the clock."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, finalize=shown, keep_trailing_newline=True, autoescape=False)
        filters: dict[str, Any] = {name: each for name, each in self.filters.items() if name not in _NO_FILTERS}
        filters |= {"indent": _indented, "replace": _replaced, "join": _glued}
        filters |= {"tojson": _to_json, "_watched": _watched, "_joined": _joined}
        self.filters = filters
        given: dict[str, Any] = {name: each for name, each in self.globals.items() if name not in _NO_GLOBALS}
        self.globals = given | {"range": _range}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "**":
                raise SecurityError("powers are not calculated in templates")
            case "%" if isinstance(left, str | bytes):
                raise SecurityError("% does not format text in templates; write {{ }} where the value should stand")
            case "*" if not (_is_number(left) and _is_number(right)):
                raise SecurityError("only numbers are multiplied in templates")
            case "*" | "+" if isinstance(left, int) and isinstance(right, int) and (left + right).bit_length() > 256:
                raise SecurityError("a number became too large")
            case "+" if isinstance(left, str | list | tuple) and len(left) > LONGEST:  # pyright: ignore[reportUnknownArgumentType]
                raise SecurityError("a text became too long")
            case _:
                return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key of a mapping comes before its methods: `inputs.items` is the input of this name."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]  # pyright: ignore[reportUnknownVariableType]
        return super().getattr(obj, attribute)

    def call(self, context: Any, obj: Any, /, *arguments: Any, **named: Any) -> Any:
        match getattr(obj, "__name__", ""), getattr(obj, "__self__", None), arguments:
            case "replace", str() as text, (old, new, *count):
                _check_replaced(text, old, new, *count)
            case "join", str() as between, (items,):
                arguments = (_fitting(items, len(between)),)
            case (("replace" | "join"), bytes(), _):
                raise SecurityError("bytes are not for templates")
            case _:
                pass
        return super().call(context, obj, *arguments, **named)

    def is_safe_callable(self, obj: Any) -> bool:
        return getattr(obj, "__name__", "") not in _NO_METHODS and super().is_safe_callable(obj)

    def watched(self, tree: nodes.Template) -> nodes.Template:
        """The tree with every loop and every joined text under watch. Raises: TemplateSyntaxError for statements that are not for filling in."""
        for node in list(tree.find_all(nodes.Stmt)):
            if not isinstance(node, _STATEMENTS) or (isinstance(node, nodes.For) and node.recursive):
                word = type(node).__name__.lower()
                raise TemplateSyntaxError(
                    f"{{% {word} %}} is not for templates of a flow; they take if and for", node.lineno
                )
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_watched")
        _replace_joins(tree)
        tree.set_environment(self)
        return tree


def begin(seconds: float = SLOWEST) -> None:
    """Start the clock of the template that is filled next."""
    _deadline.set(time.monotonic() + seconds)
    _made.set(0)


def check_time() -> None:
    """Raises: SecurityError when the time of this template is over."""
    if time.monotonic() > _deadline.get():
        raise SecurityError(f"the template takes longer than {SLOWEST:.0f} s")


def shown(value: Any) -> Any:
    """How a value reads in a text: JSON for what is no text, nothing for null."""
    if isinstance(value, str | Undefined):
        return value
    return "" if value is None else _to_json(value)


def no_value(method: Any) -> SecurityError:
    """The error for a method, which is what a name gives that is no key but that all texts, lists or objects know."""
    name = getattr(method, "__name__", "it").lstrip("_")
    return SecurityError(f"there is no key {name!r}, and the method of this name is called with {name}()")


def _to_json(value: Any, indent: int | None = None) -> str:
    if isinstance(value, Undefined):
        str(value)  # raises what is missing
    if callable(value):
        raise no_value(value)
    if not indent and (known := shared.text_of(value)) is not None:
        return known
    # The encoder calls this for what has no JSON form, such as the view of all steps.
    return json.dumps(value, ensure_ascii=False, indent=min(indent, 8) if indent else None, default=_plain)


def _plain(value: Any) -> Any:
    if callable(value):
        raise no_value(value)
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return list(value) if isinstance(value, Iterable) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MOST_ITEMS:
        raise SecurityError(f"range is longer than {MOST_ITEMS:,}")
    return found


def _watched(items: Iterable[Any]) -> Iterator[Any] | Iterable[Any]:
    if isinstance(items, Undefined | LoopContext):
        return items
    return _Watched(items)


class _Watched:
    """A loop's items, which look at the clock; with a length where there was one, for `loop.last` and `loop.length`."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items if hasattr(items, "__len__") else list(items)

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            check_time()
            yield item

    def __len__(self) -> int:
        return len(self._items)  # pyright: ignore[reportArgumentType]  # it has a length


def _joined(parts: list[Any]) -> str:
    return "".join(_fitting([str(shown(part)) for part in parts], 0))


# Filters and methods that can make a long text of short ones: how long it would be is reckoned first


@pass_environment
def _glued(environment: Environment, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return str(d).join(_fitting(map(str, value), len(str(d))))


def _replaced(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new, most = str(text), str(old), str(new), -1 if count is None else count
    _check_replaced(text, old, new, most)
    return text.replace(old, new, most)


def _indented(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:  # noqa: FBT001, FBT002 - the signature of Jinja2
    text = text if isinstance(text, str) else str(shown(text))
    _check_growth(text, (len(text.splitlines()) + 1) * (len(width) if isinstance(width, str) else width))
    return do_indent(text, width, first, blank)


def _fitting(texts: Iterable[Any], between: int) -> list[Any]:
    """The texts as a list. Raises: SecurityError when they would be too long once they are joined."""
    found: list[Any] = []
    size = 0
    for text in texts:
        check_time()
        size += between + (len(text) if isinstance(text, str) else 0)
        if size > LONGEST:
            raise SecurityError("a text became too long")
        found.append(text)
    _count(size)
    return found


def _check_replaced(text: str, old: str, new: str, most: int = -1) -> None:
    times = text.count(old)
    _check_growth(text, (times if most < 0 else min(times, most)) * (len(new) - len(old)))


def _check_growth(text: str, more: int) -> None:
    if more > 0 and len(text) + more > LONGEST:
        raise SecurityError("a text became too long")
    _count(len(text) + more)


def _count(size: int) -> None:
    """Count a text that a filter makes: with `map`, many of them are there at once."""
    check_time()
    _made.set(_made.get() + size)
    if _made.get() > ALL_TEXTS:
        raise SecurityError(f"filters make more than {ALL_TEXTS:,} characters")


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _join(concat: nodes.Concat) -> nodes.Filter:
    return _filtered(nodes.List(concat.nodes, lineno=concat.lineno), "_joined")


def _replace_joins(node: nodes.Node) -> None:
    """Put the watched join in the place of each `~`."""
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            _replace_joins(value)
            if isinstance(value, nodes.Concat):
                setattr(node, field, _join(value))
        elif isinstance(value, list):
            for at, item in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                if isinstance(item, nodes.Node):
                    _replace_joins(item)
                    if isinstance(item, nodes.Concat):
                        value[at] = _join(item)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
