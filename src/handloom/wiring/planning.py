"""Runs that begin with a goal and plan it first."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import handloom
from handloom.config import Loaded
from handloom.errors import FlowError, NoPlanError
from handloom.flow.engine import begun
from handloom.flow.files import text_of
from handloom.flow.planner import ModelPlanner
from handloom.flow.review import reviewed
from handloom.memory import Answer
from handloom.messages import Json
from handloom.plans import Plan
from handloom.runs import Run
from handloom.wiring.flows import FlowSession, before_plan, engine_of, known_to, limits_of
from handloom.wiring.safety import safety_for
from handloom.wiring.session import one_at_a_time, store_of
from handloom.wiring.wishes import FLOW, Given, Wishes
from handloom.wiring.workers import SettingsWorkers

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


@asynccontextmanager
async def begin_goal(
    loaded: Loaded, goal: str, how: Goal, wishes: Wishes, given: Given, *, workspace: Path
) -> AsyncGenerator[FlowSession]:
    """A new run that plans a goal, and then carries the plan out or gives it as its answer."""
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
async def goal_session(loaded: Loaded, run: Run, wishes: Wishes, given: Given) -> AsyncGenerator[FlowSession]:
    """What works on a run that begins with a goal and has no plan yet."""
    how = Goal(**run.state.settings[GOAL])
    async with aclosing(SettingsWorkers(loaded=loaded, given=given, model_name=wishes.model)) as workers:
        planner = workers.planning(keep=how.keep)

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
