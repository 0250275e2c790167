"""Engine: carries out the plans of a run. It takes up what is due, starts what follows from what has happened, and can be asked from outside meanwhile.

The engine keeps no truth of its own. What has ended, what waits and what was under way is in the record; a crash at any moment is a resume.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from handloom.errors import CancelledRunError, FlowError
from handloom.events import (
    Event,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    RunSuspended,
    StepQueued,
    StepRetried,
    StepStarted,
)
from handloom.flow import check, inputs, spans
from handloom.flow.advance import admit, finish, sweep
from handloom.flow.cache import StepCache
from handloom.flow.course import Course
from handloom.flow.due import Due
from handloom.flow.ending import standstill
from handloom.flow.orders import Orders
from handloom.flow.pace import Gates
from handloom.flow.progress import Progress
from handloom.flow.revision import Revision, revised
from handloom.flow.stages import Stages
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
        orders = Orders(run.state, limits or StepLimits(), {"": dict(plan.steps)} if plan else {})
        self._course = Course(run, self._follow)
        self._stages = Stages(self._course, orders, Work(run, workers, Gates({}), cache), around, clock)

    # What others may ask of it

    async def carry_out(self, _: Run) -> Answer:
        """Work until every step is over, or nothing can go on. Raises: RunStoppedError, ModelError."""
        course, limits = self._course, PlanLimits.model_validate(self._state.plans[""].plan.get("limits", {}))
        before = self._stages.work
        work = Work(self.run, before.workers, Gates(dict(limits.models)), before.cache, limits.context_tokens)
        self._stages = replace(self._stages, work=work)
        course.progress = Progress.of(self._state, limits.max_parallel)
        course.answer, course.stopped = None, None
        await course.tasks.run(self._take_up)
        return self._ending()

    async def answer(self, question: str, text: str) -> None:
        """Answer a question of the run, also while it is carried out. Raises: FlowError when there is none of this id, or it has an answer: the first one counts."""
        course = self._course
        async with course.lock:
            known = self._state.questions.get(question)
            if known is None:
                raise FlowError(f"run {self.run.id} has no question {question!r}")
            if known.answer is not None:
                raise FlowError(f"{question!r} was answered before, with {known.answer!r}; the first answer counts")
            await course.apply([QuestionAnswered(id=question, answer=text)])
            unit = self._waiting(question.rpartition("?")[0])
            if unit and course.tasks.are_open:
                self._stages.go_on(unit)

    async def revise(self, revision: Revision) -> None:
        """Change the plan of a run, also while it is carried out. Raises: FlowError when the plan would be wrong, or a step that has started would change."""
        course = self._course
        async with course.lock:
            event = revised(self._state, revision, self._stages.around)
            if not course.tasks.are_open:
                course.progress = Progress.of(self._state, 0)
            if event.span not in course.progress.scopes:
                raise FlowError("this plan has ended; resume the run from one of its steps")
            for name in {*event.again, *event.steps}:
                course.tasks.cancel_below(spans.inside(event.span, name))
            ended = self._state.status in ("success", "failed")
            await course.apply([event, _reopened(self.run.id)] if ended else [event])

    def pause(self) -> None:
        """Start no more steps; those under way go on to their end, and the run can be resumed."""
        self._course.stop(CancelledRunError(f"paused; `handloom resume {self.run.id}` goes on"))

    # Beginning and end

    async def _take_up(self) -> None:
        """Go on from what is recorded: first what was under way, then what is due."""
        course, stages, progress = self._course, self._stages, self._course.progress
        due = Due.of(self._state, progress)
        for unit in due.under_way:
            stages.go_on(unit)
        for unit in due.later:
            course.tasks.start(unit, stages.later(unit, self._state.step(unit).due - stages.clock()))
        await course.take(event for scope in list(progress.scopes) for event in sweep(progress, scope))
        await course.take(event for unit in due.start for event in admit(progress, unit))
        await course.take(event for unit in due.finish for event in finish(progress, unit))

    def _ending(self) -> Answer:
        course = self._course
        if course.answer is not None:
            return course.answer
        if course.stopped is not None:
            raise course.stopped
        raise standstill(self.run.id, self._state, course.progress)

    # What follows from what has happened

    def _follow(self, happened: Iterable[Event]) -> None:
        """Forget what a revision changed, and start the work that events ask for."""
        for event in happened:
            if isinstance(event, PlanRevised):
                self._stages.orders.forget(event.span)
        if not self._course.tasks.are_open:
            return
        for event in happened:
            self._start(event)
        progress, tasks = self._course.progress, self._course.tasks
        while progress.closed:
            scope = progress.closed.pop()
            tasks.start(f"{scope}/", self._stages.close(scope))

    def _start(self, event: Event) -> None:
        stages, tasks = self._stages, self._course.tasks
        match event:
            case StepStarted(span=unit, items=None):
                tasks.start(unit, stages.carry(unit, event.attempt))
            case StepQueued(span=unit, cleared=False):
                tasks.start(unit, stages.prepare(unit))
            case StepRetried(span=unit) if self._course.stopped is None:
                tasks.start(unit, stages.later(unit, event.delay))
            case _:
                pass

    # What it knows

    def _waiting(self, span: str) -> str:
        """The unit in which a question of this span waits for its answer; empty when none does."""
        status = self._course.progress.status
        while span and status.get(span) != "waiting":
            span = span.rpartition("/")[0]
        return span

    @property
    def _state(self) -> State:
        return self.run.state


def begun(plan: Plan, given: Mapping[str, Any], *, folder: Path | None = None) -> PlanMade:
    """The event with which a flow begins. Raises: FlowError for inputs that are missing or wrong."""
    return PlanMade(plan=plan.as_json(), inputs=inputs.complete(plan.inputs, given), folder=str(folder or ""))


def _reopened(run: str) -> RunSuspended:
    """A run that had ended has work again."""
    return RunSuspended(cause="interrupted", reason=f"its plan was changed; `handloom resume {run}` goes on")
