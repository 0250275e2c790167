"""Planning with the settings: the planner that they describe, and runs that begin with a goal and plan it first."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import handloom
from handloom.agents.presets import PRESETS
from handloom.config import Loaded
from handloom.errors import FlowError, NoPlanError
from handloom.flow.cache import FolderCache
from handloom.flow.engine import begun
from handloom.flow.files import text_of
from handloom.flow.planner import ModelPlanner
from handloom.flow.review import reviewed
from handloom.llm.model import Model
from handloom.memory import Answer
from handloom.messages import Json
from handloom.plans import Plan
from handloom.runs import Run
from handloom.wiring.safety import safety_for
from handloom.wiring.sessions import one_at_a_time, store_of
from handloom.wiring.wishes import Given, Wishes

if TYPE_CHECKING:
    from handloom.wiring.flows import FlowSession, SettingsWorkers

PLANNER = "planner"  # the name of [llm.planner], the model that plans where there is one
AGENT = "planning"  # the agent whose settings may name a model for it
SPAN = "call-plan"  # no step can have this name
GOAL = "goal"  # the key among a run's settings that says it begins with a goal


@dataclass(frozen=True, kw_only=True)
class Goal:
    """How a goal is to be planned: shown to a person first or not, carried out or only printed, with kept plans or without."""

    review: bool = True
    carry_out: bool = True
    keep: bool = True

    def recorded(self) -> Json:
        return {"review": self.review, "carry_out": self.carry_out, "keep": self.keep}


def planner_of(workers: "SettingsWorkers", *, keep: bool = True) -> ModelPlanner:
    """The planner of the settings: its model is that of the workers, or `[llm.planner]`; it plans with the tools and agents that there are."""
    loaded, given = workers.loaded, workers.given

    async def model(name: str) -> Model:
        is_chosen = given.model is not None or bool(workers.model_name)
        own = PLANNER if PLANNER in loaded.settings.llm.named and not is_chosen else ""
        return await workers.model(name or own, AGENT)

    def tools() -> dict[str, str]:
        return {name: tool.description.split("\n")[0][:200] for name, tool in workers.tools.items()}

    cache = FolderCache(loaded.folders.cache / "plans") if keep else None
    return ModelPlanner(model=model, tools=tools, agents=[name for name in PRESETS if name != AGENT], cache=cache)


@asynccontextmanager
async def begin_goal(
    loaded: Loaded, goal: str, how: Goal, wishes: Wishes, given: Given, *, workspace: Path
) -> AsyncGenerator["FlowSession"]:
    """A new run that plans a goal, and then carries the plan out or gives it as its answer."""
    from handloom.wiring.flows import FLOW, before_plan

    with store_of(loaded, given) as store:
        run = await Run.start(
            goal,
            store=store,
            workspace=workspace,
            limits=given.limits or before_plan(loaded, wishes.limits),
            settings=wishes.recorded() | {FLOW: "", GOAL: how.recorded()},
            asker=one_at_a_time(given.asker),
            readers=given.readers,
            safety=safety_for(loaded, workspace, approval=given.approval, model=given.model),
            version=handloom.__version__,
        )
        try:
            async with goal_session(loaded, run, wishes, given) as session:
                yield session
        finally:
            await run.aclose()


@asynccontextmanager
async def goal_session(loaded: Loaded, run: Run, wishes: Wishes, given: Given) -> AsyncGenerator["FlowSession"]:
    """What works on a run that begins with a goal and has no plan yet."""
    from handloom.wiring.flows import FlowSession, engine_of, known_to, limits_of, workers_of

    how = Goal(**run.state.settings[GOAL])
    async with workers_of(loaded, given, wishes.model, None) as workers:
        planner = planner_of(workers, keep=how.keep)

        async def work(run: Run) -> Answer:
            plan = await _planned(run, planner)
            if how.review:
                plan = await reviewed(plan, planner, run.child(SPAN), known_to(given, None))
            if not how.carry_out:
                return Answer(text_of(plan))
            await run.emit(begun(plan, {}))
            run.limits = given.limits or limits_of(loaded, plan, wishes.limits)
            return await engine_of(loaded, run, workers, plan).carry_out(run)

        yield FlowSession(run, None if run.state.status in ("success", "failed") else work)


async def _planned(run: Run, planner: ModelPlanner) -> Plan:
    try:
        return await planner.plan(run.state.task, {}, run.child(f"{SPAN}/draft-1"))
    except FlowError as error:
        raise NoPlanError(str(error)) from None
