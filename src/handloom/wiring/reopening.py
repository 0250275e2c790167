"""Runs that are opened again as they were left, to go on with the agent or the flow that they had."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from handloom.config import Loaded
from handloom.errors import ConfigError, FlowError
from handloom.events import QuestionAnswered
from handloom.runs import Run
from handloom.wiring.safety import safety_for
from handloom.wiring.session import Session, one_at_a_time, store_of
from handloom.wiring.tasks import made, output_of
from handloom.wiring.wishes import FLOW, Given, Wishes, limits_for


@asynccontextmanager
async def reopen(
    loaded: Loaded,
    run_id: str,
    wishes: Wishes,
    given: Given,
    *,
    task: str = "",
    answer: str | None = None,
    again: tuple[str, ...] = (),
    values: Mapping[str, object] | None = None,
) -> AsyncGenerator[Session]:
    """A known run, with the agent or the flow it had and the settings of its workspace; `wishes` change what they name. `task` goes on in its conversation, `answer` answers its oldest open question.

    In the run of a flow the steps of `again` run once more, and `values` are new values of its inputs. Raises: RunNotFoundError, RunLockedError,
    ConfigError, FlowError.
    """
    with store_of(loaded, given) as store:
        run = await Run.reopen(run_id, store=store, asker=one_at_a_time(given.asker), readers=given.readers)
        try:
            loaded = loaded.at(run.workspace)
            run.safety = safety_for(loaded, run.workspace, approval=given.approval, model=given.model)
            merged = _merged(Wishes.of(run.state.settings), wishes, further=bool(task))
            output = output_of(merged, given)
            if answer is not None:
                await _answer(run, answer)
            if FLOW in run.state.settings:
                if task:
                    raise ConfigError(
                        f"run {run.id} is one of a flow and takes no further task; `handloom resume {run.id}` goes on with it"
                    )
                async with _of_flow(loaded, run, merged, given, again, values or {}) as session:
                    yield session
                return
            if again or values:
                raise ConfigError(f"run {run.id} is not one of a flow: it has no steps and no inputs")
            if not task and run.state.status in ("success", "failed"):
                yield Session(run, None, output)
                return
            async with made(loaded, merged, given, output, run.workspace) as agent:
                if task:
                    await run.follow_up(task, given.images, settings=replace(merged, agent=agent.name).recorded())
                run.limits = given.limits or limits_for(loaded, merged.agent, merged.limits)
                run.safety = safety_for(loaded, run.workspace, approval=given.approval, model=agent.model)
                yield Session(run, agent.run, agent.output)
        finally:
            await run.aclose()


def _of_flow(
    loaded: Loaded, run: Run, wishes: Wishes, given: Given, again: tuple[str, ...], values: Mapping[str, object]
) -> AbstractAsyncContextManager[Session]:
    """The run of a flow, or one that began with a goal and has no plan yet. Raises: FlowError."""
    from handloom.wiring import flows, planning

    if run.state.plans:
        return flows.reopened(loaded, run, wishes, given, again=again, values=values)
    if again or values:
        raise FlowError("this run has no plan yet, so no steps and no inputs; resume it without --from and --set")
    run.limits = given.limits or flows.before_plan(loaded, wishes.limits)
    return planning.goal_session(loaded, run, wishes, given)


def _merged(old: Wishes, new: Wishes, *, further: bool) -> Wishes:
    """What a run was asked for, with what is asked for now over it. A further task keeps agent and model alone: the form of an answer and limits were for the one before."""
    return Wishes(
        agent=new.agent or old.agent,
        model=new.model or old.model,
        output=new.output or (None if further else old.output),
        instructions=old.instructions,
        limits={
            **({} if further else old.limits),
            **{name: value for name, value in new.limits.items() if value is not None},
        },
    )


async def _answer(run: Run, answer: str) -> None:
    questions = run.state.open_questions()
    if not questions:
        raise ConfigError(f"run {run.id} has no open question; `handloom runs show {run.id}` shows how it stands")
    await run.take_up()
    await run.emit(QuestionAnswered(id=questions[0].id, answer=answer))
