"""From settings and a flow to a run of it, and the public door `run_flow`."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import handloom
from handloom import config
from handloom.agents.presets import PRESETS
from handloom.config import Loaded
from handloom.flow.cache import FolderCache
from handloom.flow.check import Surroundings
from handloom.flow.engine import Engine, begun
from handloom.flow.flow import Flow
from handloom.flow.report import Report
from handloom.flow.revision import Revision
from handloom.flow.workers import Planner
from handloom.journal import Store
from handloom.llm.model import Model
from handloom.plans import Plan, StepLimits
from handloom.runs import Asker, Limits, Reader, Run, RunResult
from handloom.tools import Tool, Toolset
from handloom.wiring.agents import known_tools
from handloom.wiring.safety import safety_for
from handloom.wiring.session import Session, one_at_a_time, store_of
from handloom.wiring.wishes import FLOW, Given, Wishes
from handloom.wiring.workers import SettingsWorkers


@dataclass(frozen=True, kw_only=True)
class FlowResult(RunResult):
    """How a run of a flow stands: what any run has, and the report of its steps; `value` holds the outputs."""

    report: Report


@dataclass(frozen=True)
class FlowSession(Session):
    """A run of a flow and its engine, through which it can be answered, changed and paused while it is carried out."""

    engine: Engine | None = None

    async def complete(self) -> RunResult:
        """Work until the run ends or must wait; once there is a plan, the result has a report."""
        result = await super().complete()
        return flow_result(result, self.run) if self.run.state.plans else result


@asynccontextmanager
async def begin_flow(
    loaded: Loaded,
    flow: Flow,
    values: Mapping[str, Any],
    wishes: Wishes,
    given: Given,
    *,
    workspace: Path,
    planner: Planner | None = None,
) -> AsyncGenerator[FlowSession]:
    """A new run of a flow, checked and ready to work. Raises: FlowError before anything is recorded."""
    async with aclosing(
        SettingsWorkers(loaded=loaded, given=given, model_name=wishes.model, own_planner=planner)
    ) as workers:
        flow.check(known_to(given, flow.folder))
        first = begun(flow.plan, values, folder=flow.folder)
        with store_of(loaded, given) as store:
            run = await Run.start(
                _said(flow.plan, values),
                store=store,
                workspace=workspace,
                limits=given.limits or limits_of(loaded, flow.plan, wishes.limits),
                settings=wishes.recorded() | {FLOW: flow.plan.name},
                asker=one_at_a_time(given.asker),
                readers=given.readers,
                safety=safety_for(loaded, workspace, approval=given.approval, model=given.model),
                version=handloom.__version__,
            )
            try:
                await run.emit(first)
            except BaseException:
                await run.aclose()
                raise
            engine = engine_of(loaded, run, workers, flow.plan)
            yield FlowSession(run, engine.carry_out, engine=engine)


@asynccontextmanager
async def reopened(
    loaded: Loaded,
    run: Run,
    wishes: Wishes,
    given: Given,
    *,
    again: tuple[str, ...] = (),
    values: Mapping[str, Any] | None = None,
) -> AsyncGenerator[FlowSession]:
    """A known run of a flow, to go on with; the steps of `again` run once more, and `values` are new values of its inputs. Raises: FlowError."""
    async with aclosing(SettingsWorkers(loaded=loaded, given=given, model_name=wishes.model)) as workers:
        engine = engine_of(loaded, run, workers)
        plan = Plan.model_validate(run.state.plans[""].plan)
        run.limits = given.limits or limits_of(loaded, plan, wishes.limits)
        if again or values:
            if run.state.status == "running":  # it stopped without a word
                await run.take_up()
            await engine.revise(Revision(again=again, inputs=values or {}, reason="resumed so"))
        yield FlowSession(run, None if run.state.status in ("success", "failed") else engine.carry_out, engine=engine)


def _said(plan: Plan, values: Mapping[str, Any]) -> str:
    """What a person says by starting a flow: what it is for, and the values they give. The policy takes a destination in it as one that the person has named."""
    given = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    ]
    return "\n".join([plan.description or plan.name, *given])


def before_plan(loaded: Loaded, wishes: Mapping[str, float | None]) -> Limits:
    """The limits of a run that has no plan yet."""
    return limits_of(loaded, Plan.model_construct(), wishes)


def limits_of(loaded: Loaded, plan: Plan, wishes: Mapping[str, float | None]) -> Limits:
    """The limits of a whole run: wishes over the flow's over the settings'. Turns are limited for each step, not for all together."""
    section, own = loaded.settings.limits, plan.limits
    limits = Limits(
        turns=None,
        tokens=own.max_tokens or section.max_tokens,
        cost=own.max_cost_usd or section.max_cost,
        seconds=own.timeout if own.timeout is not None else config.seconds(section.timeout),
    )
    return replace(limits, **{name: value for name, value in wishes.items() if value is not None})


def known_to(given: Given, folder: Path | None) -> Surroundings:
    """What there is for a flow to name. Tools of toolsets come and go, so with one of those any name may be right."""
    changes = any(not isinstance(tool, Tool) for tool in given.tools)
    tools = None if changes else [*_names(), *(tool.name for tool in given.tools if isinstance(tool, Tool))]
    return Surroundings(agents=list(PRESETS), tools=tools, folder=folder)


@cache
def _names() -> list[str]:
    """The names of the tools that there are, with whatever settings."""
    return list(known_tools())


def engine_of(loaded: Loaded, run: Run, workers: SettingsWorkers, plan: Plan | None = None) -> Engine:
    folder = run.state.plans[""].folder if run.state.plans else ""
    return Engine(
        run,
        workers,
        around=known_to(workers.given, Path(folder) if folder else None),
        cache=FolderCache(loaded.folders.cache / "steps"),
        limits=StepLimits(max_turns=loaded.settings.limits.max_turns),
        plan=plan,
    )


async def run_flow(  # noqa: PLR0913 - the public door
    flow: Flow | Path | str,
    *,
    inputs: Mapping[str, Any] | None = None,
    model: Model | str = "",
    tools: tuple[Tool | Toolset, ...] = (),
    workspace: Path | str | None = None,
    limits: Limits | None = None,
    store: Store | None = None,
    readers: tuple[Reader, ...] = (),
    asker: Asker | None = None,
    planner: Planner | None = None,
) -> FlowResult:
    """Carry out a flow and wait for its end; this is what `handloom flow run` does.

    `flow` is a Flow or the path of a flow file, `inputs` are its values, `tools` are added to those that steps can name. A question or an approval that nobody
    answers suspends the run; `handloom.resume` goes on with it. Raises: FlowError before the run starts; what stops it later is in the result.
    """
    folder = Path(workspace or Path.cwd()).resolve()  # noqa: ASYNC240 - once, before anything runs
    loaded = config.load(folder=folder)
    chosen = flow if isinstance(flow, Flow) else Flow.load(flow)
    wishes = Wishes(model=model if isinstance(model, str) else "")
    given = Given(
        model=None if isinstance(model, str) else model,
        tools=tools,
        limits=limits,
        store=store,
        asker=asker,
        readers=readers,
    )
    async with begin_flow(loaded, chosen, inputs or {}, wishes, given, workspace=folder, planner=planner) as session:
        result = await session.complete()
        assert isinstance(result, FlowResult)  # noqa: S101 - a run of a flow has a plan from its start
        return result


def flow_result(result: RunResult, run: Run) -> FlowResult:
    """The result of a run of a flow, with its report."""
    report = Report.of(run.state)
    fields: dict[str, Any] = {name: getattr(result, name) for name in result.__dataclass_fields__}
    return FlowResult(**{**fields, "value": report.outputs}, report=report)
