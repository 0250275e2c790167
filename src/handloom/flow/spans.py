"""The spans of a flow: `research` is a step, `research#1` an item of it, `research#1/try-2` its second attempt, `sub/research` a step of a sub-flow.

A *scope* is the span of a plan: empty for the run's own, the span of an attempt for that of a sub-flow. A *unit* is what is carried out: a step or an item.
"""


def scope_of(unit: str) -> str:
    """The plan that a unit belongs to."""
    return unit.rpartition("/")[0]


def step_of(unit: str) -> str:
    """The name of a unit's step in its plan."""
    return unit.rpartition("/")[2].partition("#")[0]


def split(unit: str) -> tuple[str, str]:
    """The plan that a unit belongs to, and the name of its step there."""
    scope, _, name = unit.rpartition("/")
    return scope, name.partition("#")[0]


def item_of(unit: str) -> int | None:
    """The place of an item among the items of its step; None for a whole step."""
    if "#" not in unit:
        return None
    number = unit.rpartition("/")[2].partition("#")[2]
    return int(number) if number else None


def whole(unit: str) -> str:
    """The step of an item, as a unit."""
    return inside(scope_of(unit), step_of(unit))


def inside(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def attempt(unit: str, number: int) -> str:
    """The span of an attempt; the first has that of the unit."""
    return unit if number <= 1 else f"{unit}/try-{number}"


def owner(scope: str) -> str:
    """The unit whose attempt a scope is."""
    above, _, last = scope.rpartition("/")
    return above if last.startswith("try-") else scope


def is_below(span: str, other: str) -> bool:
    """Whether a span is another one, an item of it, or lies in it."""
    return span == other or span.startswith((f"{other}/", f"{other}#"))
