"""Plans below a step: the file that a `flow` step names, or what a planner makes for a `plan` step."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from handloom.errors import FlowError, ModelError
from handloom.events import PlanMade
from handloom.flow import check, files, inputs, spans, templates
from handloom.flow.order import Order
from handloom.flow.revision import Revision
from handloom.flow.workers import Ask, Planner
from handloom.plans import Plan
from handloom.runs import Run

DEEPEST = 8  # plans within plans
MOST_REPLANS = 3  # of one step, with those that were put in its place


@dataclass(frozen=True)
class PlanMaker:
    """Makes the plans below a step: of a file, or as the planner gives them."""

    run: Run
    around: check.Surroundings
    planner: Planner | None
    ask: Ask

    async def plan(self, order: Order, scopes: Iterable[str]) -> PlanMade:
        """The plan that a step carries out; `scopes` are those of the plans that are open. Raises: FlowError, and what the planner raises."""
        if sum(order.span.startswith(f"{scope}/") for scope in scopes if scope) >= DEEPEST:
            raise FlowError(f"plans within plans go deeper than {DEEPEST}; does a flow run itself?")
        step, folder = order.step, order.known.plan.folder
        given: dict[str, Any] = templates.fill_all(step.with_, order.values(*templates.reads(step.with_)))
        if step.flow is not None:
            path = _file(folder, _filled(order, step.flow))
            plan, document = await asyncio.to_thread(files.load, path)
            folder = str(path.parent)
            check.check(plan, replace(self.around, folder=path.parent), document)
        elif self.planner is None:
            raise FlowError("nobody is there to make plans while the flow runs; give the workers a planner")
        else:
            plan = await self.planner.plan(_filled(order, step.plan or ""), given, self._asking(order), self.ask)
            check.check(plan, self.around)
            given = {name: value for name, value in given.items() if name in plan.inputs}
        return PlanMade(span=order.span, plan=plan.as_json(), inputs=inputs.complete(plan.inputs, given), folder=folder)

    async def replan(self, order: Order, reason: str) -> Revision | None:
        """The planner's way around a step that failed; none when it knows none, or was asked too often. What has succeeded stays."""
        known = order.known.plan
        replans = known.changed.get(order.name, 0)
        if self.planner is None or replans >= MOST_REPLANS or spans.item_of(order.unit) is not None:
            return None
        plan = Plan.model_validate(known.plan)
        try:
            changes = await self.planner.replan(plan, order.name, reason, self._asking(order), self.ask)
        except (FlowError, ModelError):
            return None
        if order.name not in changes:
            return None
        why = f"{order.name} failed: {reason}"
        again = (order.name,) if changes[order.name] is not None else ()
        return Revision(steps=changes, again=again, reason=why, scope=spans.scope_of(order.unit))

    def _asking(self, order: Order) -> Run:
        return self.run.child(f"{order.span}/plan")


def _filled(order: Order, text: str) -> str:
    return templates.fill(text, order.values(*templates.reads(text)))


def _file(folder: str, name: str) -> Path:
    if not folder and not Path(name).is_absolute():
        raise FlowError(f"the flow file {name} is relative, and this flow came from no file; give the flow a folder")
    return Path(folder) / name
