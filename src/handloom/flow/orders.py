"""Orders: from a unit of a run to what is to be done, with the steps and defaults of its plan read once."""

from dataclasses import dataclass, field

from handloom.flow import spans
from handloom.flow.order import Order
from handloom.flow.values import Known
from handloom.plans import Defaults, Step, StepLimits
from handloom.state import State


@dataclass
class Orders:
    """Makes the orders of one run. What it knows of a plan holds until that is changed. `limits` are those of steps for which neither they nor their plan say any."""

    state: State
    limits: StepLimits
    steps: dict[str, dict[str, Step]] = field(default_factory=dict[str, dict[str, Step]])
    _known: dict[str, Known] = field(default_factory=dict[str, Known])
    _defaults: dict[str, Defaults] = field(default_factory=dict[str, Defaults])

    def of(self, unit: str, attempt: int, *, again: bool = False) -> Order:
        """One attempt at a unit."""
        scope, name = spans.split(unit)
        if scope not in self._defaults:
            defaults = Defaults.model_validate(self.state.plans[scope].plan.get("defaults", {}))
            self._defaults[scope] = defaults.model_copy(update={"limits": defaults.limits.over(self.limits)})
        return Order(
            unit=unit,
            step=self._step(scope, name),
            defaults=self._defaults[scope],
            known=self._known_of(scope),
            attempt=attempt,
            again=again,
        )

    def forget(self, scope: str) -> None:
        """A plan was changed."""
        self.steps.pop(scope, None)
        self._known.pop(scope, None)

    def _known_of(self, scope: str) -> Known:
        if scope not in self._known:
            self._known[scope] = Known(self.state, scope)
        return self._known[scope]

    def _step(self, scope: str, name: str) -> Step:
        steps = self.steps.setdefault(scope, {})
        if name not in steps:
            steps[name] = Step.model_validate(self.state.plans[scope].steps[name])
        return steps[name]
