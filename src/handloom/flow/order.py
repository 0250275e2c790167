"""Order: one attempt at one unit of a flow, with all that decides what is to be done; and how such an attempt comes out."""

from typing import Any

import msgspec

from handloom.errors import ModelError
from handloom.events import Event
from handloom.flow import spans
from handloom.flow.templates import Reads
from handloom.flow.values import Known
from handloom.messages import Json
from handloom.plans import Defaults, Retry, Step, StepLimits
from handloom.state import State
from handloom.steps import StepState


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """`again` says that the attempt was under way when the run stopped."""

    unit: str
    step: Step
    defaults: Defaults
    known: Known
    attempt: int = 1
    again: bool = False

    @property
    def name(self) -> str:
        return spans.step_of(self.unit)

    @property
    def span(self) -> str:
        """The span of this attempt, whose memory is its own."""
        return spans.attempt(self.unit, self.attempt)

    @property
    def state(self) -> State:
        return self.known.state

    @property
    def so_far(self) -> StepState:
        return self.state.step(self.unit)

    @property
    def local(self) -> Json:
        """The values of this item and this round."""
        values: Json = {}
        if (item := spans.item_of(self.unit)) is not None:
            items = self.state.step(spans.whole(self.unit)).items or ()
            values |= {"item": items[item], "index": item}
        if self.step.repeat is not None:
            values |= {"previous": self.so_far.previous, "round": self.so_far.round}
        return values

    def values(self, *reads: Reads, **more: Any) -> Json:
        return self.known.values(self.name, reads, **self.local, **more)

    @property
    def retry(self) -> Retry:
        return self.step.retry or self.defaults.retry or Retry(max=0)

    @property
    def timeout(self) -> float | None:
        return self.step.timeout if self.step.timeout is not None else self.defaults.timeout

    @property
    def on_error(self) -> str:
        return self.step.on_error or self.defaults.on_error

    @property
    def limits(self) -> StepLimits:
        return self.step.limits.over(self.defaults.limits) if self.step.limits else self.defaults.limits


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an attempt, and what is to be recorded with it."""

    output: Any = None
    events: tuple[Event, ...] = ()
    cached: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed. `unavailable` is the error of a model that is out of reach; `unknown` says that it may have done its
    work all the same, `final` that another attempt would be the same.
    """

    reason: str
    events: tuple[Event, ...] = ()
    unavailable: ModelError | None = None
    unknown: bool = False
    final: bool = False


Outcome = Done | Failed
