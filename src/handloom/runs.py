"""Run: one durable execution. The only thing that changes, and it changes by one verb, `emit`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import msgspec

from handloom.errors import CancelledRunError, LimitReachedError, ModelError, RunStoppedError, SuspendedError
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
from handloom.journal import Journal, Store, new_run_id
from handloom.memory import Answer, Memory
from handloom.messages import ImagePart, Json, Message, ToolResult, Usage
from handloom.state import Question, State

log = logging.getLogger(__name__)

LEFT = "not done: another task was given"
Reader = Callable[[Event], None]
Asker = Callable[[Question], Awaitable[str | None]]
T = TypeVar("T")


class Closeable(Protocol):
    async def aclose(self) -> None: ...


CloseableT = TypeVar("CloseableT", bound=Closeable)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a run must stop; None is no limit. `tokens` are prompt and completion together, `cost` is USD, `seconds` is time spent running."""

    turns: int | None = 50
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def spent(self, state: State) -> dict[str, tuple[float, float]]:
        """(used, allowed) of each limit that is set."""
        used = {
            name: now - before for (name, now), before in zip(state.spent().items(), state.spent_before, strict=True)
        }
        return {name: (used[name], allowed) for name in used if (allowed := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run stands when it stops. `status` is `success`, `failed` or `suspended`; `cause` says why a suspended run waits."""

    run: str
    status: str
    answer: str = ""
    reason: str = ""
    cause: str = ""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    seconds: float = 0.0
    artifacts: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    value: Any = None


@dataclass
class _Core:
    """What all spans of a run share."""

    journal: Journal
    state: State
    workspace: Path
    limits: Limits
    clock: Callable[[], float]
    asker: Asker | None
    fresh: bool  # nothing was done since the newest task was given
    readers: list[Reader] = field(default_factory=list[Reader])
    resources: dict[type, Closeable] = field(default_factory=dict[type, Closeable])
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)


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
        clock: Callable[[], float] = time.time,
        version: str = "",
    ) -> "Run":
        """A new run with its task in memory. `asker` answers questions while the run waits; without one it suspends."""
        journal = store.create(new_run_id())
        core = _Core(journal, State(), workspace, limits or Limits(), clock, asker, fresh=True, readers=list(readers))
        run = cls(core)
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
        return cls(
            _Core(
                journal,
                state,
                Path(state.workspace),
                limits or Limits(),
                clock,
                asker,
                fresh=False,
                readers=list(readers),
            )
        )

    async def follow_up(self, task: str, images: tuple[ImagePart, ...] = ()) -> None:
        """Give a run that has ended, or waits, its next task; its memory goes on, its limits count from here.

        Questions and calls that were left are closed: nobody waits for them any more.
        """
        await self.emit(RunResumed())
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
        return self._core.journal.run

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def memory(self) -> Memory:
        return self._core.state.memory(self.span)

    @property
    def workspace(self) -> Path:
        return self._core.workspace

    @property
    def folder(self) -> Path:
        return self._core.journal.folder

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
        state = self.state
        return RunResult(
            run=self.id,
            status=state.status,
            answer=state.answer,
            reason=state.reason,
            cause=state.cause,
            usage=state.usage,
            turns=state.turns,
            seconds=state.seconds,
            artifacts=tuple(state.artifacts),
            questions=tuple(state.open_questions()),
        )

    # The one verb

    async def emit(self, *events: Event) -> None:
        """Save the events together, fold them, show them to the readers; in this order, one call at a time."""
        core = self._core
        if not any(event.durable for event in events):
            for event in events:
                self._publish(self._stamped(event, core.state.seq))
            return
        async with core.writing:
            stamped = [self._stamped(event, core.state.seq + place) for place, event in enumerate(events)]
            await core.journal.append(*stamped)
            for event in stamped:
                core.state.apply(event)
                self._publish(event)

    async def add(self, message: Message) -> None:
        """Put a user message into this agent's memory."""
        await self.emit(MessageAdded(message=message))

    async def warn(self, topic: str, text: str) -> None:
        await self.emit(WarningRaised(topic=topic, text=text))

    def watch(self, reader: Reader) -> None:
        """Show every later event to `reader`, deltas included."""
        self._core.readers.append(reader)

    def _stamped(self, event: Event, seq: int) -> Event:
        return msgspec.structs.replace(event, run=self.id, span=self.span, seq=seq, at=self._core.clock())

    def _publish(self, event: Event) -> None:
        for reader in self._core.readers:
            try:
                reader(event)
            except Exception:
                log.exception("a reader of run %s failed on %s", self.id, type(event).__name__)

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
                await self.warn(f"limit:{name}", f"{_amount(name, used)} used of {_amount(name, allowed)}")

    def _spent_all(self, name: str, used: float) -> str:
        return f"the limit is reached, {_amount(name, used)}; `handloom resume {self.id}` with a higher limit goes on"

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
        core = self._core
        async with core.making:
            if kind not in core.resources:
                core.resources[kind] = made = await make()
                core.closing.push_async_callback(made.aclose)
        return cast("CloseableT", core.resources[kind])

    # The life of a run

    async def complete(self, work: Callable[["Run"], Awaitable[Answer]]) -> RunResult:
        """Do the work of the run to its end, and record how it ended; a run that has ended gives its result again.

        Everything that stops a run becomes its status: what can be resumed suspends it. A bug travels and leaves the run resumable.
        """
        try:
            if self.state.status in ("success", "failed"):
                return self.result()
            if not self._core.fresh:
                await self.emit(RunResumed())
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
            await self.emit(
                RunSuspended(cause=cause, reason=str(error)) if cause else RunEnded(status="failed", reason=str(error))
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
            await self._core.closing.aclose()
            self._core.resources.clear()
        finally:
            await self._core.journal.aclose()


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


def _amount(name: str, value: float) -> str:
    match name:
        case "cost":
            return f"{value:.4f} USD"
        case "seconds":
            return f"{value:.0f} s"
        case _:
            return f"{value:,.0f} {name}"
