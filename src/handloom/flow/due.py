"""Due: what is to be taken up when a run goes on, found in its state."""

from dataclasses import dataclass, field

from handloom.flow import spans
from handloom.flow.progress import Progress
from handloom.state import State


@dataclass(frozen=True)
class Due:
    """Units by what is to be done with them: go on with what was under way, try again after a while, start, and end `for_each` steps of which every item is over."""

    under_way: list[str] = field(default_factory=list[str])
    later: list[str] = field(default_factory=list[str])
    start: list[str] = field(default_factory=list[str])
    finish: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, state: State, progress: Progress) -> "Due":
        due = cls()
        for unit, step in state.steps.items():
            if step.is_over or not progress.is_current(unit):
                continue
            if step.items is not None:
                if not progress.items_left[unit]:
                    due.finish.append(unit)
                due.start.extend(one for at in range(len(step.items)) if (one := f"{unit}#{at}") not in state.steps)
            elif step.status in ("running", "waiting"):
                due.under_way.append(unit)
            elif step.failures:
                due.later.append(unit)
            elif spans.item_of(unit) is not None:
                due.start.append(unit)
        return due
