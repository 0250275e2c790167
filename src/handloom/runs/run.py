"""Run: one durable execution. The only thing that changes, and it changes by one verb, `emit`."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from handloom.errors import (
    CancelledRunError,
    DeniedError,
    LimitReachedError,
    ModelError,
    RunStoppedError,
    SuspendedError,
)
from handloom.events import (
    Cause,
    Event,
    MessageAdded,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    WarningRaised,
    agent_scope,
)
from handloom.journal import Store, new_run_id
from handloom.memory import Answer, Memory
from handloom.messages import ImagePart, Json, Message, ToolResult
from handloom.runs.limits import Limits, amount
from handloom.runs.recorder import Reader, Recorder
from handloom.runs.resources import CloseableT, Resources
from handloom.runs.result import RunResult
from handloom.runs.safety import Safety
from handloom.sandbox import Sandbox, open_sandbox
from handloom.state import Question, State

LEFT = "not done: another task was given"
Asker = Callable[[Question], Awaitable[str | None]]
T = TypeVar("T")


@dataclass
class _Core:
    """What all spans of a run share."""

    recorder: Recorder
    workspace: Path
    limits: Limits
    asker: Asker | None
    fresh: bool  # nothing was done since the newest task was given
    safety: Safety
    resources: Resources = field(default_factory=Resources)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class Run:
    """A run seen from one of its spans."""

    def __init__(self, core: _Core, span: str = "") -> None:
        self._core = core
        self.span = span

    @classmethod
    async def start(  # noqa: PLR0913 - each is a thing a run is made of
        cls,
        task: str,
        *,
        store: Store,
        workspace: Path,
        limits: Limits | None = None,
        settings: Json | None = None,
        images: tuple[ImagePart, ...] = (),
        asker: Asker | None = None,
        readers: tuple[Reader, ...] = (),
        safety: Safety | None = None,
        clock: Callable[[], float] = time.time,
        version: str = "",
    ) -> "Run":
        """A new run with its task in memory. `asker` answers questions while the run waits; without one it suspends."""
        journal = store.create(new_run_id())
        safety = safety or Safety()
        recorder = Recorder(journal, State(), clock, list(readers), safety.redactor)
        run = cls(_Core(recorder, workspace, limits or Limits(), asker, fresh=True, safety=safety))
        await run.emit(
            RunStarted(task=task, images=images, workspace=str(workspace), settings=settings or {}, version=version)
        )
        return run

    @classmethod
    async def reopen(
        cls,
        run_id: str,
        *,
        store: Store,
        limits: Limits | None = None,
        asker: Asker | None = None,
        readers: tuple[Reader, ...] = (),
        safety: Safety | None = None,
        clock: Callable[[], float] = time.time,
    ) -> "Run":
        """A known run in the state it was left. Raises: RunNotFoundError, RunLockedError, JournalError."""
        journal = store.open(run_id)
        try:
            state = State()
            for event in store.read(run_id):
                state.apply(event)
        except BaseException:
            await journal.aclose()
            raise
        safety = safety or Safety()
        recorder = Recorder(journal, state, clock, list(readers), safety.redactor)
        return cls(_Core(recorder, Path(state.workspace), limits or Limits(), asker, fresh=False, safety=safety))

    async def take_up(self) -> None:
        """Record, before anything else of it is, that a run goes on: the time since its last event is not its own."""
        if not self._core.fresh:
            await self.emit(RunResumed())
            self._core.fresh = True

    async def follow_up(self, task: str, images: tuple[ImagePart, ...] = (), *, settings: Json | None = None) -> None:
        """Give a run that has ended, or waits, its next task; its memory goes on, its limits count from here. `settings` are as those of `start`.

        Questions and calls that were left are closed: nobody waits for them any more.
        """
        await self.emit(RunResumed(settings=settings))
        for question in self.state.open_questions():
            await self.emit(QuestionAnswered(id=question.id, answer=LEFT))
        spans = {span.rpartition("call-")[2]: span for span in self.state.open_calls}
        for call in self.memory.pending_calls():
            span = Run(self._core, spans.get(call.id, self.span))
            await span.emit(ToolReturned(call=call, result=ToolResult(text=LEFT, ok=False)))
        scope = agent_scope(self.span)
        if scope in self.state.open_turns:
            number = self.state.turn[scope]
            await self.child(f"turn-{number}").emit(TurnEnded(turn=number))
        await self.add(Message.user(task, origin="task", images=images))
        self._core.fresh = True

    # What a run knows

    @property
    def id(self) -> str:
        return self._core.recorder.journal.run

    @property
    def state(self) -> State:
        return self._core.recorder.state

    @property
    def memory(self) -> Memory:
        return self.state.memory(self.span)

    @property
    def workspace(self) -> Path:
        return self._core.workspace

    @property
    def folder(self) -> Path:
        return self._core.recorder.journal.folder

    @property
    def safety(self) -> Safety:
        return self._core.safety

    @safety.setter
    def safety(self, safety: Safety) -> None:
        self._core.safety = safety
        self._core.recorder.redactor = safety.redactor

    @property
    def is_attended(self) -> bool:
        """Whether somebody is there to answer a question now."""
        return self._core.asker is not None

    @property
    def limits(self) -> Limits:
        return self._core.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._core.limits = limits

    def child(self, name: str) -> "Run":
        """The same run, one step deeper: `run.child("call-ab")`."""
        return Run(self._core, f"{self.span}/{name}" if self.span else name)

    def result(self) -> RunResult:
        return RunResult.of(self.id, self.state)

    # The one verb

    async def emit(self, *events: Event) -> None:
        """Save the events together, fold them, show them to the readers; in this order, one call at a time."""
        await self._core.recorder.record(self.span, *events)

    async def add(self, message: Message) -> None:
        """Put a user message into this agent's memory."""
        await self.emit(MessageAdded(message=message))

    async def warn(self, topic: str, text: str) -> None:
        await self.emit(WarningRaised(topic=topic, text=text))

    def watch(self, reader: Reader) -> None:
        """Show every later event to `reader`, deltas included."""
        self._core.recorder.readers.append(reader)

    # Turns and limits

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncGenerator["Run"]:
        """The next turn of this agent, or the one that was open when the run stopped.

        Raises: LimitReachedError, CancelledRunError before the turn starts.
        """
        scope = agent_scope(self.span)
        is_open = scope in self.state.open_turns
        number = self.state.turn.get(scope, 0) + (not is_open)
        turn = self.child(f"turn-{number}")
        if not is_open:
            await self.check_limits()
            await turn.emit(TurnStarted(turn=number))
        yield turn
        await turn.emit(TurnEnded(turn=number))

    async def check_limits(self) -> None:
        """Warn once at 80 % of each limit. Raises: LimitReachedError at 100 %, CancelledRunError when asked to stop."""
        if self.cancelled:
            raise CancelledRunError(f"stopped as asked; `handloom resume {self.id}` goes on")
        for name, (used, allowed) in self.limits.spent(self.state).items():
            if used >= allowed:
                raise LimitReachedError(self._spent_all(name, used))
            if used >= 0.8 * allowed and f"limit:{name}" not in self.state.warned:
                await self.warn(f"limit:{name}", f"{amount(name, used)} used of {amount(name, allowed)}")

    def _spent_all(self, name: str, used: float) -> str:
        return f"the limit is reached, {amount(name, used)}; `handloom resume {self.id}` with a higher limit goes on"

    def cancel(self) -> None:
        """Ask the run to stop at the next safe point; it can be resumed."""
        self._core.cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether the run was asked to stop."""
        return self._core.cancelled.is_set()

    async def unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that loses nothing when it is given up. Raises: CancelledRunError as soon as the run is asked to stop."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._core.cancelled.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                raise CancelledRunError(f"stopped as asked; `handloom resume {self.id}` goes on")
            return task.result()
        finally:
            stop.cancel()
            task.cancel()

    # Questions and resources

    async def ask(self, question: str, options: tuple[str, ...] = (), *, key: str = "") -> str:
        """A person's answer, asked for once: a resumed run finds the recorded one. Raises: SuspendedError when nobody answers now."""
        identity = f"{self.span}?{key}"
        known = self.state.questions.get(identity)
        if known is None:
            await self.emit(QuestionAsked(id=identity, question=question, options=options))
            known = self.state.questions[identity]
        if known.answer is None and self._core.asker is not None:
            answer = await self._core.asker(known)
            if answer is not None:
                await self.emit(QuestionAnswered(id=identity, answer=answer))
        if known.answer is None:
            raise SuspendedError(
                f'waits for an answer: {known.question}\nAnswer with: handloom runs answer {self.id} "..."'
            )
        return known.answer

    async def resource(self, kind: type[CloseableT], make: Callable[[], Awaitable[CloseableT]]) -> CloseableT:
        """The one object of this kind that the run keeps until it stops."""
        return await self._core.resources.get(kind, make)

    def opened(self, kind: type[CloseableT]) -> CloseableT | None:
        """The object of this kind, where a call has made one."""
        return self._core.resources.opened(kind)

    async def sandbox(self) -> Sandbox:
        """Where the run starts programs, opened at its first use. Raises: SandboxError when none works here."""
        return await self._core.resources.get(Sandbox, lambda: open_sandbox(self.workspace, self._core.safety.sandbox))

    @contextlib.asynccontextmanager
    async def apart(self, name: str) -> AsyncGenerator["Run"]:
        """A child with resources of its own, closed at the end: what one step of a flow keeps open is not another's."""
        resources = Resources()
        try:
            yield Run(replace(self._core, resources=resources), self.child(name).span)
        finally:
            await resources.aclose()

    # The life of a run

    async def complete(self, work: Callable[["Run"], Awaitable[Answer]]) -> RunResult:
        """Do the work of the run to its end, and record how it ended; a run that has ended gives its result again.

        Everything that stops a run becomes its status: what can be resumed suspends it. A bug travels and leaves the run resumable.
        """
        try:
            if self.state.status in ("success", "failed"):
                return self.result()
            await self.take_up()
            self._core.fresh = False
            await self._record(work)
            return self.result()
        finally:
            await self.aclose()

    async def _record(self, work: Callable[["Run"], Awaitable[Answer]]) -> None:
        try:
            answer = await self._in_time(work)
        except RunStoppedError as error:
            cause = _cause(error)
            denied = "denied" if isinstance(error, DeniedError) else ""
            await self.emit(
                RunSuspended(cause=cause, reason=str(error))
                if cause
                else RunEnded(status="failed", reason=str(error), cause=denied)
            )
        except ModelError as error:
            await self.emit(RunSuspended(cause="unavailable", reason=str(error)))
        except asyncio.CancelledError:
            await asyncio.shield(
                self.emit(RunSuspended(cause="interrupted", reason=f"interrupted; `handloom resume {self.id}` goes on"))
            )
            raise
        else:
            success = answer.status == "success"
            await self.emit(
                RunEnded(
                    status="success" if success else "failed",
                    answer=answer.text,
                    reason="" if success else "the agent says it failed",
                )
            )

    async def _in_time(self, work: Callable[["Run"], Awaitable[Answer]]) -> Answer:
        if self.limits.seconds is None:
            return await work(self)
        used, allowed = self.limits.spent(self.state)["seconds"]
        watch = asyncio.timeout(max(0.0, allowed - used))
        try:
            async with watch:
                return await work(self)
        except TimeoutError:
            if not watch.expired():
                raise
            raise LimitReachedError(self._spent_all("seconds", allowed)) from None

    async def aclose(self) -> None:
        """Close what the run kept open, newest first, and let go of the journal."""
        try:
            await self._core.resources.aclose()
        finally:
            await self._core.recorder.journal.aclose()


def _cause(error: RunStoppedError) -> Cause | None:
    match error:
        case SuspendedError():
            return "question"
        case LimitReachedError():
            return "limit"
        case CancelledRunError():
            return "interrupted"
        case _:
            return None
