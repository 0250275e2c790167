"""Which step needs which: order, circles, and all that a step depends on. Pure functions of names."""

from collections.abc import Iterable, Mapping

Needs = Mapping[str, Iterable[str]]


def dependants(needs: Needs) -> dict[str, list[str]]:
    """The steps that need a step, by its name."""
    found: dict[str, list[str]] = {name: [] for name in needs}
    for name, before in needs.items():
        for other in dict.fromkeys(before):
            if other in found:
                found[other].append(name)
    return found


def layers(needs: Needs) -> list[list[str]]:
    """The steps in layers, each of which needs only earlier ones; steps in a circle, and behind one, are in none."""
    after = dependants(needs)
    left = {name: sum(other in after for other in set(before)) for name, before in needs.items()}
    ready = [name for name, count in left.items() if not count]
    found: list[list[str]] = []
    while ready:
        found.append(ready)
        following: list[str] = []
        for name in ready:
            for other in after[name]:
                left[other] -= 1
                if not left[other]:
                    following.append(other)
        ready = following
    return found


def circle(needs: Needs) -> list[str]:
    """One circle of steps as a path whose first name is its last, or nothing."""
    placed = {name for layer in layers(needs) for name in layer}
    # What is in no layer is in a circle or needs what is in one: so a walk among those along `needs` comes to a circle.
    at = next((name for name in needs if name not in placed), None)
    seen: dict[str, None] = {}
    while at is not None and at not in seen:
        seen[at] = None
        at = next(other for other in needs[at] if other in needs and other not in placed)
    if at is None:
        return []
    names = list(seen)
    return [*names[names.index(at) :], at]


def all_needs(name: str, needs: Needs) -> set[str]:
    """Every step that a step depends on, directly or not."""
    return _reached(name, needs)


def all_dependants(names: Iterable[str], needs: Needs) -> set[str]:
    """Every step that depends on one of these."""
    after = dependants(needs)
    return {found for name in names for found in _reached(name, after)}


def _reached(name: str, edges: Needs) -> set[str]:
    found: set[str] = set()
    waiting = list(edges.get(name, ()))
    while waiting:
        other = waiting.pop()
        if other not in found and other in edges:
            found.add(other)
            waiting.extend(edges[other])
    return found
