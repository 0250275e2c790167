"""Course: how far the work on a run is, and the one function through which it changes: decide, save in one transaction, start what follows."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from handloom.errors import CancelledRunError, HandloomError
from handloom.events import Event
from handloom.flow.advance import advance
from handloom.flow.progress import Progress
from handloom.flow.tasks import Tasks
from handloom.memory import Answer
from handloom.runs import Run


@dataclass
class Course:
    """What all that work on a run share. `follow` is told what has happened, and starts what that asks for; `lock` is held by whoever looks and then changes.

    `stopped` is why nothing more is started, `answer` what came of the whole plan.
    """

    run: Run
    follow: Callable[[list[Event]], None]
    progress: Progress = field(default_factory=lambda: Progress(0))
    tasks: Tasks = field(default_factory=Tasks)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    stopped: HandloomError | None = None
    answer: Answer | None = None

    async def take(self, events: Iterable[Event]) -> None:
        """Apply events and what follows; those that are decided as they are taken are decided under the lock."""
        async with self.lock:
            await self.apply(events)

    async def apply(self, events: Iterable[Event], *, with_it: Iterable[Event] = ()) -> None:
        """The same for who holds the lock; `with_it` are others to be saved with them, which the progress knows already."""
        if self.run.cancelled:
            self.stop(CancelledRunError(f"stopped as asked; `handloom resume {self.run.id}` goes on"))
        happened = advance(self.progress, events)
        if saved := [*with_it, *[event for event in happened if event.durable]]:
            await self.run.emit(*saved)
        if shown := [event for event in happened if not event.durable]:
            await self.run.emit(*shown)
        self.follow(happened)

    def stop(self, error: HandloomError) -> None:
        """Start nothing more; the first reason is the one that is told."""
        self.stopped = self.stopped or error
        self.progress.slots = 0
        self.tasks.cancel(self.progress.retrying.__contains__)
