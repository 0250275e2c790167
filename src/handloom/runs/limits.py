"""When a run must stop, and how much it has used."""

from dataclasses import dataclass

from handloom.state import State


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a run must stop; None is no limit. `tokens` are prompt and completion together, `cost` is USD, `seconds` is time spent running."""

    turns: int | None = 50
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def spent(self, state: State) -> dict[str, tuple[float, float]]:
        """(used, allowed) of each limit that is set."""
        used = {
            name: now - before for (name, now), before in zip(state.spent().items(), state.spent_before, strict=True)
        }
        return {name: (used[name], allowed) for name in used if (allowed := getattr(self, name)) is not None}


def amount(name: str, value: float) -> str:
    """A quantity of a limit, for people."""
    match name:
        case "cost":
            return f"{value:.4f} USD"
        case "seconds":
            return f"{value:.0f} s"
        case _:
            return f"{value:,.0f} {name}"
