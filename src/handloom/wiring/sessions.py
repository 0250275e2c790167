"""A run together with what works on it, an agent or a flow: begun, or opened again as it was left."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import handloom
from handloom.agents import Agent, Output
from handloom.agents.instructions import read_instructions
from handloom.config import Loaded
from handloom.errors import ConfigError
from handloom.events import QuestionAnswered
from handloom.journal import Store
from handloom.memory import Answer
from handloom.policy import run_hooks
from handloom.runs import Asker, Run, RunResult
from handloom.state import Question
from handloom.wiring.agents import build_agent, takes_instructions
from handloom.wiring.models import open_model
from handloom.wiring.profiles import remember_mode
from handloom.wiring.safety import safety_for
from handloom.wiring.wishes import Given, Wishes, limits_for


def open_store(loaded: Loaded) -> Store:
    """The store of runs in the data folder."""
    from handloom.journal.sqlite import SqliteStore

    return SqliteStore(loaded.folders.data, durability=loaded.settings.journal.durability)


@dataclass(frozen=True)
class Session:
    """A run and what works on it; a run that has ended needs nothing."""

    run: Run
    work: Callable[[Run], Awaitable[Answer]] | None
    output: Output | None = None

    async def complete(self) -> RunResult:
        """Work until the run ends or must wait; a run that has ended gives its result again."""
        result = self.run.result() if self.work is None else await self._worked(self.work)
        if self.output is None or result.status != "success":
            return result
        return replace(result, value=self.output.parse(result.answer))

    async def _worked(self, work: Callable[[Run], Awaitable[Answer]]) -> RunResult:
        policy = self.run.safety.policy
        if policy is not None and not policy.sandboxed:
            await self.run.take_up()
            await self.run.warn(
                "sandbox", "UNSANDBOXED: programs run as you, with all you may do (sandbox.kind is off)"
            )
        result = await self.run.complete(work)
        if policy is not None:
            body = {
                "event": "run_end",
                "run": result.run,
                "status": result.status,
                "answer": result.answer,
                "reason": result.reason,
            }
            await run_hooks(policy.hooks, "run_end", body, folder=str(self.run.workspace))
        return result


@asynccontextmanager
async def begin(loaded: Loaded, task: str, wishes: Wishes, given: Given, *, workspace: Path) -> AsyncGenerator[Session]:
    """A new run, ready to work; a model and a store made here are closed at the end. Raises: ConfigError."""
    output = _output(wishes, given)
    if given.agent is None and takes_instructions(wishes.agent or loaded.settings.agent):
        wishes = replace(wishes, instructions=read_instructions(workspace))
    async with _made(loaded, wishes, given, output, workspace) as agent:
        with store_of(loaded, given) as store:
            run = await Run.start(
                task,
                store=store,
                workspace=workspace,
                limits=given.limits or limits_for(loaded, agent.name, wishes.limits),
                settings=replace(wishes, agent=agent.name).recorded(),
                images=given.images,
                asker=one_at_a_time(given.asker),
                readers=given.readers,
                safety=safety_for(loaded, workspace, approval=given.approval, model=agent.model),
                version=handloom.__version__,
            )
            yield Session(run, agent.run, agent.output)


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
            output = _output(merged, given)
            if answer is not None:
                await _answer(run, answer)
            if "flow" in run.state.settings:
                from handloom.wiring.flows import reopened

                if task:
                    raise ConfigError(
                        f"run {run.id} is one of a flow and takes no further task; `handloom resume {run.id}` goes on with it"
                    )
                async with reopened(loaded, run, merged, given, again=again, values=values) as session:
                    yield session
                return
            if again or values:
                raise ConfigError(f"run {run.id} is not one of a flow: it has no steps and no inputs")
            if not task and run.state.status in ("success", "failed"):
                yield Session(run, None, output)
                return
            async with _made(loaded, merged, given, output, run.workspace) as agent:
                if task:
                    await run.follow_up(task, given.images, settings=replace(merged, agent=agent.name).recorded())
                run.limits = given.limits or limits_for(loaded, merged.agent, merged.limits)
                run.safety = safety_for(loaded, run.workspace, approval=given.approval, model=agent.model)
                yield Session(run, agent.run, agent.output)
        finally:
            await run.aclose()


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


def _output(wishes: Wishes, given: Given) -> Output | None:
    own = given.output or (given.agent.output if given.agent else None)
    return own or (Output.of(wishes.output) if wishes.output is not None else None)


@contextmanager
def store_of(loaded: Loaded, given: Given) -> Generator[Store]:
    """The store that is given, or one that is closed at the end."""
    if given.store is not None:
        yield given.store
        return
    store = open_store(loaded)
    try:
        yield store
    finally:
        store.close()


@asynccontextmanager
async def _made(
    loaded: Loaded, wishes: Wishes, given: Given, output: Output | None, workspace: Path
) -> AsyncGenerator[Agent]:
    """The agent that is given, or the one that the wishes name, with its model open while the context lasts."""
    if given.agent is not None:
        yield given.agent
        return
    model = given.model or await open_model(loaded, wishes.model or _agent_model(loaded, wishes.agent), given.progress)
    try:
        yield build_agent(
            loaded,
            wishes.agent,
            model,
            workspace,
            output=output,
            extra=given.tools,
            instructions=wishes.instructions,
        )
    finally:
        if given.model is None:
            remember_mode(loaded, model)
            await model.aclose()


def one_at_a_time(asker: Asker | None) -> Asker | None:
    """Steps that run side by side ask a person one after the other."""
    if asker is None:
        return None
    turn = asyncio.Lock()

    async def ask(question: Question) -> str | None:
        async with turn:
            return await asker(question)

    return ask


def _agent_model(loaded: Loaded, name: str) -> str:
    section = loaded.settings.agents.get(name or loaded.settings.agent)
    return section.model if section else ""


async def _answer(run: Run, answer: str) -> None:
    questions = run.state.open_questions()
    if not questions:
        raise ConfigError(f"run {run.id} has no open question; `handloom runs show {run.id}` shows how it stands")
    await run.take_up()
    await run.emit(QuestionAnswered(id=questions[0].id, answer=answer))
