"""What the tests of flows share: a run of a flow with tools whose outcome is told by their arguments, and what must hold of every run."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handloom.errors import ToolError
from handloom.events import Event, PlanMade, PlanRevised, RunStarted, StepEnded, StepStarted
from handloom.flow import files, spans
from handloom.flow.engine import Engine, begun
from handloom.flow.workers import GivenWorkers
from handloom.journal import MemoryStore, Store
from handloom.plans import Plan
from handloom.runs import Asker, Limits, Run, RunResult, Safety
from handloom.state import State
from handloom.tools import Tool, ToolContext, tool

OVER = ("success", "failed", "skipped")


@tool(repeatable=True)
async def work(context: ToolContext, say: Any = "done", wait: int = 0, fail_first: int = 0) -> str:
    """Give back `say` after so many looks at the clock; the first attempts fail."""
    for _ in range(wait):
        await asyncio.sleep(0)
    attempt = int(context.call_id.removeprefix("call"))
    if attempt <= fail_first:
        raise ToolError(f"attempt {attempt} fails")
    return say if isinstance(say, str) else str(say)


@dataclass
class Desk:
    """Where a test runs flows: a store, a folder, tools, a model, and answers to questions."""

    folder: Path
    tools: tuple[Tool, ...] = ()
    model: Any = None
    asker: Asker | None = None
    store: Store = field(default_factory=MemoryStore)
    limits: Limits = field(default_factory=lambda: Limits(turns=None))
    safety: Safety | None = None
    more: dict[str, Any] = field(default_factory=dict)

    async def start(self, flow: str | dict[str, Any] | Plan, **inputs: Any) -> tuple[Run, Engine]:
        plan = (
            flow if isinstance(flow, Plan) else files.plan_of(flow) if isinstance(flow, dict) else files.parse(flow)[0]
        )
        run = await Run.start(
            plan.name, store=self.store, workspace=self.folder, limits=self.limits, asker=self.asker, safety=self.safety
        )
        await run.emit(begun(plan, inputs, folder=self.folder))
        return run, self.engine(run)

    async def reopen(self, run_id: str) -> tuple[Run, Engine]:
        run = await Run.reopen(run_id, store=self.store, limits=self.limits, asker=self.asker, safety=self.safety)
        return run, self.engine(run)

    async def run(self, flow: str | dict[str, Any] | Plan, **inputs: Any) -> tuple[RunResult, State]:
        run, engine = await self.start(flow, **inputs)
        return await run.complete(engine.carry_out), run.state

    async def resume(self, run_id: str) -> tuple[RunResult, State]:
        run, engine = await self.reopen(run_id)
        return await run.complete(engine.carry_out), run.state

    def engine(self, run: Run) -> Engine:
        workers = {key: value for key, value in self.more.items() if key in ("models", "agents", "planner")}
        others = {key: value for key, value in self.more.items() if key not in workers}
        return Engine(run, GivenWorkers(given_model=self.model, tools=(work, *self.tools), **workers), **others)

    def events(self, run_id: str) -> list[Event]:
        return self.store.read(run_id)


def statuses(state: State) -> dict[str, str]:
    return {span: step.status for span, step in state.steps.items()}


def outputs(state: State) -> dict[str, Any]:
    return {span: step.output for span, step in state.steps.items()}


def broken_promises(events: Iterable[Event]) -> list[str]:
    """What does not hold of a run that has ended: no step before its needs, each ends once, none without a status and its cause."""
    found: list[str] = []
    plans: dict[str, dict[str, Any]] = {}
    ended: dict[str, StepEnded] = {}
    started: set[str] = set()
    for event in events:
        match event:
            case PlanMade():
                plans[event.span] = dict(event.plan["steps"])
            case PlanRevised():
                plans[event.span] = {k: v for k, v in {**plans[event.span], **event.steps}.items() if v is not None}
                again = {spans.inside(event.span, name) for name in event.again}
                ended = {
                    span: end for span, end in ended.items() if not any(spans.is_below(span, one) for one in again)
                }
                plans = {
                    scope: steps
                    for scope, steps in plans.items()
                    if not any(spans.is_below(scope, one) for one in again)
                }
            case StepStarted(span=span):
                started.add(span)
                found += [f"{span} started after its end"] if span in ended else []
                step = plans[spans.scope_of(span)][spans.step_of(span)]
                for other in step.get("needs", ()):
                    if spans.inside(spans.scope_of(span), other) not in ended:
                        found.append(f"{span} started before {other} had ended")
            case StepEnded(span=span):
                found += [f"{span} ended twice"] if span in ended else []
                ended[span] = event
                if event.status != "success" and not event.reason:
                    found.append(f"{span} is {event.status} without a reason")
            case _:
                pass
    for scope, steps in plans.items():
        found += [f"{name} of {scope!r} has no end" for name in steps if spans.inside(scope, name) not in ended]
    return found


def prefix(events: list[Event], length: int, store: MemoryStore) -> str:
    """A store's run as it was after so many events."""
    first = events[0]
    assert isinstance(first, RunStarted)
    store.runs[first.run] = list(events[:length])
    return first.run
