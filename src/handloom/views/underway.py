"""Underway: which steps of a flow are at work, and what each does now; what a live view shows in a few rows."""

from dataclasses import dataclass, field

from handloom.events import (
    Event,
    ModelDelta,
    ModelReplied,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    QuestionAsked,
    StepEnded,
    StepRepeated,
    StepRetried,
    StepStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from handloom.tools.results import clean
from handloom.views.lines import brief, called

MOST_ROWS, WIDTH, WORDS = 8, 70, 200


@dataclass
class Doing:
    """A step at work."""

    since: float
    what: str = "started"
    words: str = ""


@dataclass
class Underway:
    """Folded from events. It counts the steps of all plans; the items of a `for_each` step are at work one by one, and counted as their step."""

    steps: set[str] = field(default_factory=set[str])
    over: dict[str, str] = field(default_factory=dict[str, str])
    doing: dict[str, Doing] = field(default_factory=dict[str, Doing])

    @property
    def is_flow(self) -> bool:
        return bool(self.steps)

    def apply(self, event: Event, now: float) -> None:
        """Take in what an event says of steps; `now` is the clock of whoever shows it."""
        match event:
            case PlanMade(span=scope, plan=plan):
                self.steps |= {_inside(scope, name) for name in plan["steps"]}
            case PlanRevised(span=scope):
                for name, step in event.steps.items():
                    (self.steps.discard if step is None else self.steps.add)(_inside(scope, name))
                for name in (*event.again, *event.steps):
                    self.over.pop(_inside(scope, name), None)
            case StepStarted(items=None):
                self.doing[event.span] = Doing(now)
            case StepEnded(span=span):
                self.doing.pop(span, None)
                if span in self.steps:
                    self.over[span] = event.status
            case StepRetried() | StepRepeated():
                self.doing.pop(event.span, None)
            case _:
                self._note(event)

    def rows(self, now: float) -> list[str]:
        """A row for each step at work, the longest first."""
        shown = sorted(self.doing.items(), key=lambda pair: pair[1].since)
        rows = [
            f"{span}  {now - doing.since:.0f} s  {brief(clean(doing.words or doing.what), WIDTH)}"
            for span, doing in shown[:MOST_ROWS]
        ]
        return [*rows, f"and {len(shown) - MOST_ROWS} more"] if len(shown) > MOST_ROWS else rows

    @property
    def summary(self) -> str:
        """How far the flow is, in some words."""
        count = sum(status == "failed" for status in self.over.values())
        failed = f", {count} failed" if count else ""
        return f"{len(self.over)} of {len(self.steps)} steps over{failed}, {len(self.doing)} at work"

    def _note(self, event: Event) -> None:
        """What a step does now, told by what happens below it."""
        doing = self.doing.get(self._step_of(event.span))
        if doing is None:
            return
        match event:
            case ModelDelta(text=text):
                doing.words = (doing.words + text)[-WORDS:]
            case TurnStarted(turn=turn):
                doing.what, doing.words = f"thinking, turn {turn}", ""
            case ModelReplied():
                doing.what, doing.words = "has a reply", ""
            case ToolCalled(call=call):
                doing.what, doing.words = called(call), ""
            case ToolReturned():
                doing.what = "goes on"
            case QuestionAsked():
                doing.what = "waits for a person"
            case QuestionAnswered():
                doing.what = "has an answer"
            case _:
                pass

    def _step_of(self, span: str) -> str:
        """The innermost step at work that a span lies in."""
        while span and span not in self.doing:
            span = span.rpartition("/")[0]
        return span


def _inside(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name
