"""The view on a terminal: finished lines scroll away above, and one moving part below shows what happens now."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from handloom.events import (
    Event,
    ModelDelta,
    ModelReplied,
    RunEnded,
    RunSuspended,
    StepEnded,
    StepQueued,
    StepStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from handloom.messages import Usage
from handloom.tools.results import clean
from handloom.views.lines import brief, called, line
from handloom.views.underway import Underway

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

TAIL = 300  # characters of a streamed reply that stay visible


class PlainView:
    """Lines on a stream that is no terminal: every event that matters, nothing that moves."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        if text := line(event):
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Nothing moves here."""
        yield


class LiveView:
    """A terminal's view, with a spinner, the words being written, and what the run has used so far."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._console = console
        self._usage = Usage()
        self._turn = 0
        self._doing = "starting"
        self._words = ""
        self._started = time.monotonic()
        self._steps = Underway()
        self._live = Live(get_renderable=self._moving, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        self._steps.apply(event, time.monotonic())
        match event:
            case ModelDelta(text=text):
                self._doing, self._words = "writing", (self._words + text)[-TAIL:]
                return
            case TurnStarted(turn=turn):
                self._turn, self._doing, self._words = turn, "thinking", ""
            case ModelReplied(usage=usage):
                self._usage, self._words = self._usage + usage, ""
            case ToolCalled(call=call):
                self._doing = called(call)
            case ToolReturned():
                self._doing = "thinking"
            case RunEnded() | RunSuspended():
                self._doing = ""
            case _:
                pass
        if text := line(event):
            self._console.print(text, style=_style(event), markup=False, highlight=False)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the terminal to a question while the context lasts."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _moving(self) -> "RenderableType":
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.text import Text

        if not self._doing:
            return Text("")
        cost = f" · {self._usage.cost:.4f} USD" if self._usage.cost else ""
        spent = f"{time.monotonic() - self._started:.0f} s · {self._usage.total_tokens:,} tokens{cost}"
        if self._steps.is_flow:
            rows = [Text(row, style="dim", no_wrap=True) for row in self._steps.rows(time.monotonic())]
            return Group(*rows, Spinner("dots", Text(f"{self._steps.summary}  [{spent}]")))
        return Group(
            Text(brief(clean(self._words), TAIL), style="dim"),
            Spinner("dots", Text(f"{brief(self._doing, 80)}  [turn {self._turn} · {spent}]")),
        )


def _style(event: Event) -> str:
    match event:
        case ToolReturned(result=result) if not result.ok:
            return "red"
        case ToolReturned() | ModelReplied():
            return "dim"
        case TurnStarted():
            return "bold"
        case StepEnded(status="failed"):
            return "red"
        case StepStarted() | StepQueued():
            return "dim"
        case RunEnded(status="success"):
            return "green"
        case RunEnded() | RunSuspended():
            return "yellow"
        case _:
            return ""
