"""Engine: carries out the plans of a run. Every change goes through one function, `_apply`: decide, save in one transaction, start what follows.

The engine keeps no truth of its own. What has ended, what waits and what was under way is in the record; a crash at any moment is a resume.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from handloom.errors import (
    CancelledRunError,
    FlowError,
    HandloomError,
    RunStoppedError,
    StepsFailedError,
    SuspendedError,
)
from handloom.events import (
    Event,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    RunSuspended,
    StepEnded,
    StepQueued,
    StepRetried,
    StepStarted,
)
from handloom.flow import check, inputs, spans, templates, verdict
from handloom.flow.admission import admitted
from handloom.flow.advance import admit, advance, fill, finish, sweep
from handloom.flow.approval import deadline
from handloom.flow.below import PlanMaker
from handloom.flow.cache import StepCache
from handloom.flow.due import Due
from handloom.flow.ending import outcome_of, standstill
from handloom.flow.guard import guarded
from handloom.flow.order import Done, Failed, Order, Outcome
from handloom.flow.orders import Orders
from handloom.flow.pace import Gates
from handloom.flow.progress import Progress
from handloom.flow.revision import Revision, revised
from handloom.flow.tasks import Tasks
from handloom.flow.work import Work
from handloom.flow.workers import Workers
from handloom.memory import Answer
from handloom.plans import Plan, PlanLimits, StepLimits
from handloom.runs import Run
from handloom.state import State


class Engine:
    """One run of a flow: `await run.complete(engine.carry_out)`."""

    def __init__(
        self,
        run: Run,
        workers: Workers,
        *,
        around: check.Surroundings = check.ANYTHING,
        cache: StepCache | None = None,
        limits: StepLimits | None = None,
        plan: Plan | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`limits` are those of steps for which neither they nor the plan say any; `plan`, the plan of a new run, spares reading it again."""
        self.run = run
        self._workers = workers
        self._around = around
        self._cache = cache
        self._orders = Orders(run.state, limits or StepLimits(), {"": dict(plan.steps)} if plan else {})
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tasks = Tasks()
        self._progress = Progress(0)
        self._work = Work(run, workers, Gates({}))
        self._stopped: HandloomError | None = None
        self._answer: Answer | None = None

    # What others may ask of it

    async def carry_out(self, _: Run) -> Answer:
        """Work until every step is over, or nothing can go on. Raises: RunStoppedError, ModelError."""
        limits = PlanLimits.model_validate(self._state.plans[""].plan.get("limits", {}))
        self._work = Work(self.run, self._workers, Gates(dict(limits.models)), self._cache, limits.context_tokens)
        self._progress = Progress.of(self._state, limits.max_parallel)
        self._answer, self._stopped = None, None
        await self._tasks.run(self._take_up)
        return self._ending()

    async def answer(self, question: str, text: str) -> None:
        """Answer a question of the run, also while it is carried out. Raises: FlowError when there is none of this id, or it has an answer: the first one counts."""
        async with self._lock:
            known = self._state.questions.get(question)
            if known is None:
                raise FlowError(f"run {self.run.id} has no question {question!r}")
            if known.answer is not None:
                raise FlowError(f"{question!r} was answered before, with {known.answer!r}; the first answer counts")
            await self._apply([QuestionAnswered(id=question, answer=text)])
            unit = self._waiting(question.rpartition("?")[0])
            if unit and self._tasks.are_open:
                self._go_on(unit)

    async def revise(self, revision: Revision) -> None:
        """Change the plan of a run, also while it is carried out. Raises: FlowError when the plan would be wrong, or a step that has started would change."""
        async with self._lock:
            event = revised(self._state, revision, self._around)
            if not self._tasks.are_open:
                self._progress = Progress.of(self._state, 0)
            if event.span not in self._progress.scopes:
                raise FlowError("this plan has ended; resume the run from one of its steps")
            for name in {*event.again, *event.steps}:
                self._tasks.cancel_below(spans.inside(event.span, name))
            ended = self._state.status in ("success", "failed")
            await self._apply([event, _reopened(self.run.id)] if ended else [event])

    def pause(self) -> None:
        """Start no more steps; those under way go on to their end, and the run can be resumed."""
        self._stop(CancelledRunError(f"paused; `handloom resume {self.run.id}` goes on"))

    # The one function through which everything changes

    async def _take(self, events: Iterable[Event]) -> None:
        async with self._lock:
            await self._apply(events)

    async def _apply(self, events: Iterable[Event], *, with_it: Iterable[Event] = ()) -> None:
        """Apply events and what follows; `with_it` are others to be saved with them, which the progress knows already."""
        if self.run.cancelled:
            self._stop(CancelledRunError(f"stopped as asked; `handloom resume {self.run.id}` goes on"))
        happened = advance(self._progress, events)
        if saved := [*with_it, *(event for event in happened if event.durable)]:
            await self.run.emit(*saved)
        if shown := [event for event in happened if not event.durable]:
            await self.run.emit(*shown)
        for event in happened:
            if isinstance(event, PlanRevised):
                self._orders.forget(event.span)
        if self._tasks.are_open:
            self._dispatch(happened)

    def _dispatch(self, happened: Iterable[Event]) -> None:
        """Start the work that events ask for."""
        for event in happened:
            match event:
                case StepStarted(span=unit, items=None):
                    self._tasks.start(unit, self._carry(unit, event.attempt))
                case StepQueued(span=unit, cleared=False):
                    self._tasks.start(unit, self._prepare(unit))
                case StepRetried(span=unit) if self._stopped is None:
                    self._tasks.start(unit, self._later(unit, event.delay))
                case _:
                    pass
        while self._progress.closed:
            scope = self._progress.closed.pop()
            self._tasks.start(f"{scope}/", self._close(scope))

    def _stop(self, error: HandloomError) -> None:
        """Start nothing more; the first reason is the one that is told."""
        self._stopped = self._stopped or error
        self._progress.slots = 0
        self._tasks.cancel(self._progress.retrying.__contains__)

    # Beginning and end

    async def _take_up(self) -> None:
        """Go on from what is recorded: first what was under way, then what is due."""
        progress = self._progress
        due = Due.of(self._state, progress)
        for unit in due.under_way:
            self._go_on(unit)
        for unit in due.later:
            self._tasks.start(unit, self._later(unit, self._state.step(unit).due - self._clock()))
        await self._take(event for scope in list(progress.scopes) for event in sweep(progress, scope))
        await self._take(event for unit in due.start for event in admit(progress, unit))
        await self._take(event for unit in due.finish for event in finish(progress, unit))

    def _go_on(self, unit: str) -> None:
        """Take up a unit that was under way or waited; it waits for no slot, for it had one."""
        self._tasks.drop_timer(unit)
        step = self._state.step(unit)
        if not step.under_way:
            self._progress.status[unit] = "pending"
            self._progress.queued.add(unit)
            self._tasks.start(unit, self._prepare(unit))
            return
        self._progress.status[unit] = "running"
        if self._progress.takes_slot(unit):
            self._progress.running.add(unit)
        self._tasks.start(unit, self._carry(unit, step.attempt, again=True))

    def _ending(self) -> Answer:
        if self._answer is not None:
            return self._answer
        if self._stopped is not None:
            raise self._stopped
        raise standstill(self.run.id, self._state, self._progress)

    async def _close(self, scope: str) -> None:
        """A plan of which every step is over: tell the run, or the step whose sub-flow it is."""
        async with self._lock:
            plan = self._progress.scopes.get(scope)
            if plan is None or plan.open:
                return  # a revision came in between
            del self._progress.scopes[scope]
            self._tasks.drop_timer(scope)
        outcome = outcome_of(self._state, scope)
        if scope:
            unit = spans.owner(scope)
            await self._settle(self._orders.of(unit, self._progress.attempts[unit]), outcome)
        elif isinstance(outcome, Failed):
            raise StepsFailedError(outcome.reason)
        else:
            self._answer = Answer(templates.as_text(outcome.output))

    # The stages of a unit

    async def _prepare(self, unit: str) -> None:
        """A step whose needs are over: look at its condition, ask for its approval, find its items."""
        order = self._orders.of(unit, 1)
        outcome = await self._guarded(order, self._admit(order), seconds=None)
        if isinstance(outcome, Failed):
            # Another attempt would begin behind the condition and the approval, which have not been seen through.
            await self._settle(order, replace(outcome, final=True))

    async def _admit(self, order: Order) -> None:
        await self._take(await admitted(order, self._progress, self.run, self._clock))

    async def _carry(self, unit: str, attempt: int, *, again: bool = False) -> None:
        """One attempt at a unit."""
        order = self._orders.of(unit, attempt, again=again)
        below = order.step.action in ("flow", "plan")
        work = self._open(order) if below else self._work.do(order)
        outcome = await self._guarded(order, work, seconds=None if below else order.timeout)
        if outcome is not None:
            await self._settle(order, outcome)

    async def _guarded(self, order: Order, work: Awaitable[Outcome | None], *, seconds: float | None) -> Outcome | None:
        """How a stage came out; nothing when it is settled, or waits, or the run must stop."""
        match await guarded(work, seconds):
            case SuspendedError():
                await self._park(order)
            case RunStoppedError() as error:
                self._stop(error)
            case outcome:
                return outcome
        return None

    async def _open(self, order: Order) -> None:
        """Begin the plan below a step, unless it has begun. It takes no slot, and it is settled when that plan ends."""
        if order.span not in self._progress.scopes:
            await self._take([await self._plans(order).plan(order, self._progress.scopes)])
        if order.timeout is not None:
            self._tasks.start_timer(order.span, self._expire(order, order.timeout))

    async def _settle(self, order: Order, outcome: Outcome) -> None:
        """Record how an attempt came out, and what that means for the step."""
        if isinstance(outcome, Done):
            event: Event | None = verdict.of_success(order, outcome)
        else:
            event = verdict.retried(order, outcome)
            if event is None and outcome.unavailable is not None:
                self._stop(outcome.unavailable)
                return
            if (
                event is None
                and order.on_error == "replan"
                and not outcome.final
                and await self._replan(order, outcome)
            ):
                return
            event = event or verdict.of_failure(order, outcome.reason)
        await self._take([*outcome.events, event])

    async def _replan(self, order: Order, failed: Failed) -> bool:
        """Change the plan as the planner wants it in the place of a step that failed; false when there is no way.

        Another replan may have come first, with a new step of the same name: then the planner is asked once more, with the plan of now.
        """
        before = set(order.known.plan.steps)
        while True:
            seen = set(order.known.plan.steps)
            revision = await self._plans(order).replan(order, failed.reason)
            if revision is None:
                return False
            async with self._lock:
                taken = (revision.steps.keys() - before) & order.known.plan.steps.keys()
                if taken & seen:
                    return False  # it was shown that they are taken, and insists
                if taken:
                    continue
                try:
                    event = revised(self._state, revision, self._around)
                except FlowError:
                    return False
                await self._apply([*failed.events, event])
                return True

    async def _later(self, unit: str, delay: float) -> None:
        """Try a unit again after a while."""
        try:
            await self.run.unless_cancelled(asyncio.sleep(max(0.0, delay)))
        except CancelledRunError as error:
            self._stop(error)
            return
        await self._take(admit(self._progress, unit))

    async def _park(self, order: Order) -> None:
        """A unit that waits for a person: others have its slot meanwhile, and an approval has an end."""
        unit = order.unit
        async with self._lock:
            self._progress.park(unit)
            if not any(
                spans.is_below(question.id.rpartition("?")[0], unit) for question in self._state.open_questions()
            ):
                self._go_on(unit)  # answered between the question and here
                return
            await self._apply(fill(self._progress))
            until = deadline(order, self._state)
            if until is not None:
                self._tasks.start_timer(unit, self._overdue(unit, until - self._clock()))

    async def _overdue(self, unit: str, delay: float) -> None:
        """Take up a step whose approval is not given in time."""
        await asyncio.sleep(max(0.0, delay))
        async with self._lock:
            if self._progress.status.get(unit) == "waiting":
                self._go_on(unit)

    async def _expire(self, order: Order, delay: float) -> None:
        """End a sub-flow that takes too long, with all that is under way in it."""
        await asyncio.sleep(delay)
        failed = Failed(reason=f"it took longer than {delay:g} s")
        async with self._lock:
            if order.span not in self._progress.scopes or self._progress.status.get(order.unit) != "running":
                return  # it has ended, or was done again, while this waited for the lock
            self._tasks.cancel(lambda key: key.startswith(f"{order.span}/"))
            gone = self._progress.abandon(order.span)
            skipped = [
                StepEnded(span=unit, status="skipped", reason="its flow took too long", cause=order.name)
                for unit in gone
            ]
            event = verdict.retried(order, failed) or verdict.of_failure(order, failed.reason)
            await self._apply([event], with_it=skipped)

    # What it knows

    def _waiting(self, span: str) -> str:
        """The unit in which a question of this span waits for its answer; empty when none does."""
        while span and self._progress.status.get(span) != "waiting":
            span = span.rpartition("/")[0]
        return span

    def _plans(self, order: Order) -> PlanMaker:
        return PlanMaker(self.run, self._around, self._workers.planner, self._work.ask(order))

    @property
    def _state(self) -> State:
        return self.run.state


def begun(plan: Plan, given: Mapping[str, Any], *, folder: Path | None = None) -> PlanMade:
    """The event with which a flow begins. Raises: FlowError for inputs that are missing or wrong."""
    return PlanMade(plan=plan.as_json(), inputs=inputs.complete(plan.inputs, given), folder=str(folder or ""))


def _reopened(run: str) -> RunSuspended:
    """A run that had ended has work again."""
    return RunSuspended(cause="interrupted", reason=f"its plan was changed; `handloom resume {run}` goes on")
