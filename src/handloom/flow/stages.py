"""Stages: what a unit of a flow goes through: its condition, its attempts, the plan below it, its waits, and its end. Each ends in `Course.take` or `Course.apply`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from handloom.errors import CancelledRunError, FlowError, RunStoppedError, StepsFailedError, SuspendedError
from handloom.events import Event, StepEnded
from handloom.flow import check, spans, templates, verdict
from handloom.flow.admission import admitted
from handloom.flow.advance import admit, fill
from handloom.flow.approval import deadline
from handloom.flow.below import PlanMaker
from handloom.flow.course import Course
from handloom.flow.ending import outcome_of
from handloom.flow.guard import guarded
from handloom.flow.order import Done, Failed, Order, Outcome
from handloom.flow.orders import Orders
from handloom.flow.revision import revised
from handloom.flow.work import Work
from handloom.memory import Answer


@dataclass(frozen=True)
class Stages:
    """The stages of all units of one run; they are the tasks of its course."""

    course: Course
    orders: Orders
    work: Work
    around: check.Surroundings
    clock: Callable[[], float]

    def go_on(self, unit: str) -> None:
        """Take up a unit that was under way or waited; it waits for no slot, for it had one."""
        progress, tasks = self.course.progress, self.course.tasks
        tasks.drop_timer(unit)
        step = self.orders.state.step(unit)
        if not step.under_way:
            progress.status[unit] = "pending"
            progress.queued.add(unit)
            tasks.start(unit, self.prepare(unit))
            return
        progress.status[unit] = "running"
        if progress.takes_slot(unit):
            progress.running.add(unit)
        tasks.start(unit, self.carry(unit, step.attempt, again=True))

    async def prepare(self, unit: str) -> None:
        """A step whose needs are over: look at its condition, ask for its approval, find its items."""
        order = self.orders.of(unit, 1)
        outcome = await self._guarded(order, self._admit(order), seconds=None)
        if isinstance(outcome, Failed):
            # Another attempt would begin behind the condition and the approval, which have not been seen through.
            await self._settle(order, msgspec.structs.replace(outcome, final=True))

    async def carry(self, unit: str, attempt: int, *, again: bool = False) -> None:
        """One attempt at a unit."""
        order = self.orders.of(unit, attempt, again=again)
        below = order.step.flow is not None or order.step.plan is not None
        work = self._open(order) if below else self.work.do(order)
        outcome = await self._guarded(order, work, seconds=None if below else order.timeout)
        if outcome is not None:
            await self._settle(order, outcome)

    async def later(self, unit: str, delay: float) -> None:
        """Try a unit again after a while, in seconds."""
        try:
            await self.course.run.unless_cancelled(asyncio.sleep(max(0.0, delay)))
        except CancelledRunError as error:
            self.course.stop(error)
            return
        await self.course.take(admit(self.course.progress, unit))

    async def close(self, scope: str) -> None:
        """A plan of which every step is over: tell the run, or the step whose sub-flow it is. Raises: StepsFailedError when it is the run's own and has failed."""
        course = self.course
        async with course.lock:
            plan = course.progress.scopes.get(scope)
            if plan is None or plan.open:
                return  # a revision came in between
            del course.progress.scopes[scope]
            course.tasks.drop_timer(scope)
        outcome = outcome_of(self.orders.state, scope)
        if scope:
            unit = spans.owner(scope)
            await self._settle(self.orders.of(unit, course.progress.attempts[unit]), outcome)
        elif isinstance(outcome, Failed):
            raise StepsFailedError(outcome.reason)
        else:
            course.answer = Answer(templates.as_text(outcome.output))

    # How an attempt begins and comes out

    async def _admit(self, order: Order) -> None:
        course = self.course
        await course.take(await admitted(order, course.progress, course.run, self.clock))

    async def _open(self, order: Order) -> None:
        """Begin the plan below a step, unless it has begun. It takes no slot, and it is settled when that plan ends."""
        course = self.course
        if order.span not in course.progress.scopes:
            await course.take([await self._plans(order).plan(order, course.progress.scopes)])
        if order.timeout is not None:
            course.tasks.start_timer(order.span, self._expire(order, order.timeout))

    async def _guarded(self, order: Order, work: Awaitable[Outcome | None], *, seconds: float | None) -> Outcome | None:
        """How a stage came out; nothing when it is settled, or waits, or the run must stop."""
        match await guarded(work, seconds):
            case SuspendedError():
                await self._park(order)
            case RunStoppedError() as error:
                self.course.stop(error)
            case outcome:
                return outcome
        return None

    async def _settle(self, order: Order, outcome: Outcome) -> None:
        """Record how an attempt came out, and what that means for the step."""
        if isinstance(outcome, Done):
            event: Event | None = verdict.of_success(order, outcome)
        else:
            event = verdict.retried(order, outcome)
            if event is None and outcome.unavailable is not None:
                self.course.stop(outcome.unavailable)
                return
            if (
                event is None
                and order.on_error == "replan"
                and not outcome.final
                and await self._replan(order, outcome)
            ):
                return
            event = event or verdict.of_failure(order, outcome.reason)
        await self.course.take([*outcome.events, event])

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
            async with self.course.lock:
                taken = (revision.steps.keys() - before) & order.known.plan.steps.keys()
                if taken & seen:
                    return False  # it was shown that they are taken, and insists
                if taken:
                    continue
                try:
                    event = revised(self.orders.state, revision, self.around)
                except FlowError:
                    return False
                await self.course.apply([*failed.events, event])
                return True

    def _plans(self, order: Order) -> PlanMaker:
        return PlanMaker(self.course.run, self.around, self.work.workers.planner, self.work.ask(order))

    # What waits, and what takes too long

    async def _park(self, order: Order) -> None:
        """A unit that waits for a person: others have its slot meanwhile, and an approval has an end."""
        course, state, unit = self.course, self.orders.state, order.unit
        async with course.lock:
            course.progress.park(unit)
            if not any(spans.is_below(question.id.rpartition("?")[0], unit) for question in state.open_questions()):
                self.go_on(unit)  # answered between the question and here
                return
            await course.apply(fill(course.progress))
            until = deadline(order, state)
            if until is not None:
                course.tasks.start_timer(unit, self._overdue(unit, until - self.clock()))

    async def _overdue(self, unit: str, delay: float) -> None:
        """Take up a step whose approval is not given in time."""
        await asyncio.sleep(max(0.0, delay))
        async with self.course.lock:
            if self.course.progress.status.get(unit) == "waiting":
                self.go_on(unit)

    async def _expire(self, order: Order, delay: float) -> None:
        """End a sub-flow that takes too long, with all that is under way in it."""
        await asyncio.sleep(delay)
        failed = Failed(reason=f"it took longer than {delay:g} s")
        course = self.course
        async with course.lock:
            if order.span not in course.progress.scopes or course.progress.status.get(order.unit) != "running":
                return  # it has ended, or was done again, while this waited for the lock
            course.tasks.cancel(lambda key: key.startswith(f"{order.span}/"))
            gone = course.progress.abandon(order.span)
            skipped = [
                StepEnded(span=unit, status="skipped", reason="its flow took too long", cause=order.name)
                for unit in gone
            ]
            event = verdict.retried(order, failed) or verdict.of_failure(order, failed.reason)
            await course.apply([event], with_it=skipped)
