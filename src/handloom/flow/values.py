"""What templates see: inputs, what came of the steps before, and the item or round at hand.

Only what a template reads is put together, so a step costs what it uses and not what the plan is long.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from handloom.flow import graph, spans
from handloom.flow.shared import share
from handloom.flow.templates import Reads
from handloom.messages import Json
from handloom.state import State
from handloom.steps import PlanState, StepState

LOCAL = ("item", "index", "previous", "round", "output")
_TOOL = re.compile(r"tool_(.+)_result")


@dataclass(frozen=True)
class Known:
    """What is known inside one plan of a run. It holds what a plan has until that is changed."""

    state: State
    scope: str
    _outputs: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @property
    def plan(self) -> PlanState:
        return self.state.plans[self.scope]

    @cached_property
    def flat(self) -> dict[str, str]:
        """The steps by the flat names of their outputs."""
        return aliases(self.plan.steps)

    @cached_property
    def needs(self) -> dict[str, list[str]]:
        """What each step needs."""
        return {name: step.get("needs", []) for name, step in self.plan.steps.items()}

    def output(self, name: str) -> Any:
        """What came of a step; a list for a `for_each` step, without the items that were skipped. Of one that is over it is the same value for all who ask."""
        unit = spans.inside(self.scope, name)
        step = self.state.step(unit)
        if not step.is_over:
            return self._output(unit, step)
        if name not in self._outputs:
            self._outputs[name] = share(self._output(unit, step))
        return self._outputs[name]

    def _output(self, unit: str, step: StepState) -> Any:
        if step.items is None:
            return step.output
        items = [self.state.step(f"{unit}#{at}") for at in range(len(step.items))]
        return [item.output for item in items if item.status != "skipped"]

    def view(self, name: str) -> Json:
        """A step as templates see it."""
        step = self.state.step(spans.inside(self.scope, name))
        raw = self.plan.steps[name]
        return {
            "output": self.output(name),
            "status": step.status,
            "reason": step.reason,
            "artifacts": raw.get("artifacts", []),
        }

    def values(self, name: str, reads: Iterable[Reads], **local: Any) -> Json:
        """The values for templates of the step `name` ("" for the outputs of the plan) that read this."""
        reads = list(reads)
        names = {read for found in reads for read in found.names}
        values: Json = {"inputs": self.plan.inputs, **local}
        if "steps" in names:
            all_of_them = any(found.unclear or found.all_steps for found in reads)
            wanted = self.before(name) if all_of_them else [one for found in reads for one in found.steps]
            values["steps"] = {one: self.view(one) for one in wanted if one in self.plan.steps}
        flat = [one for one in names if one not in values and one not in ("steps", *LOCAL)]
        if flat:
            values |= self._flat(name, flat)
        return values

    def before(self, name: str) -> list[str]:
        """The steps whose outputs a step may read, in the order of the plan."""
        steps = self.plan.steps
        if not name:
            return list(steps)
        wanted = graph.all_needs(name, self.needs)
        return [one for one in steps if one in wanted]

    def _flat(self, name: str, wanted: list[str]) -> Json:
        """The flat names: `step_<name>_output`, `tool_<name>_result`, `tool_results`."""
        values: Json = {alias: self.output(self.flat[alias]) for alias in wanted if alias in self.flat}
        if not any(alias.startswith("tool_") for alias in wanted):
            return values
        before = self.before(name)
        tools = [(step, self.plan.steps[step].get("tool")) for step in before]
        tools = sorted(
            ((step, tool) for step, tool in tools if tool),
            key=lambda pair: self.state.step(spans.inside(self.scope, pair[0])).ended,
        )
        if "tool_results" in wanted:
            values["tool_results"] = {step: self.output(step) for step, _ in tools}
        for step, tool in tools:
            if f"tool_{tool}_result" in wanted:
                values[f"tool_{tool}_result"] = self.output(step)
        return values


def aliases(names: Iterable[str]) -> dict[str, str]:
    """The flat name of each step's output, and the step; what is no letter or digit is `_` in it."""
    return {
        f"step_{re.sub(r'[^0-9A-Za-z_]', lambda m: m[0] if m[0].isidentifier() else '_', name)}_output": name
        for name in names
    }


def tool_of(alias: str) -> str:
    """The tool of a name such as `tool_<name>_result`; empty for other names."""
    match = _TOOL.fullmatch(alias)
    return match[1] if match else ""


def environment(known: Known, name: str, given: Json, local: Json) -> dict[str, Any]:
    """The values that a `run` step gets as variables: `input_<name>`, `step_<name>_output` of its needs, `item` and its like, and those of its own `with`."""
    found: dict[str, Any] = {f"input_{key}": value for key, value in known.plan.inputs.items()}
    needs: list[str] = known.plan.steps[name].get("needs", [])
    found |= {alias: known.output(step) for alias, step in aliases(needs).items()}
    found |= {key: value for key, value in local.items() if value is not None}
    found = {key: value for key, value in found.items() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)}
    return found | given
