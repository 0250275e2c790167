"""Tasks: the asyncio tasks of a flow, by what they work on. It starts what it is told to and decides nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from handloom.flow.spans import is_below

Work = Coroutine[Any, Any, None]


class Tasks:
    """Owns the tasks while `run` lasts. Timers alone keep nothing alive: what waits for a person alone is to be suspended."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._working: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}

    @property
    def are_open(self) -> bool:
        """Whether tasks can be started now."""
        return self._group is not None

    async def run(self, begin: Callable[[], Awaitable[None]]) -> None:
        """Begin, and wait until every task has ended. An exception of one ends all, and travels."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await begin()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._group = None

    def start(self, key: str, work: Work) -> None:
        self._start(self._working, key, work)

    def start_timer(self, key: str, work: Work) -> None:
        """A task that is dropped when nothing but timers is left; it takes the place of the timer that has this key."""
        self.drop_timer(key)
        self._start(self._timers, key, work)

    def drop_timer(self, key: str) -> None:
        """Cancel a timer, where there is one, but not the one that asks for it."""
        timer = self._timers.get(key)
        if timer is not None and timer is not asyncio.current_task():
            self._timers.pop(key).cancel()

    def cancel(self, keys: Callable[[str], bool]) -> None:
        """Cancel the tasks with these keys, but not the one that asks for it."""
        for tasks in (self._working, self._timers):
            for key in [key for key in tasks if keys(key) and tasks[key] is not asyncio.current_task()]:
                tasks.pop(key).cancel()

    def cancel_below(self, span: str) -> None:
        """Cancel what works on a unit or on anything below it."""
        self.cancel(lambda key: is_below(key, span))

    def _start(self, tasks: dict[str, "asyncio.Task[None]"], key: str, work: Work) -> None:
        assert self._group is not None  # noqa: S101 - only while `run` lasts
        task = tasks[key] = self._group.create_task(work)

        def ended(_: object) -> None:
            if tasks.get(key) is task:
                del tasks[key]
            if not self._working:
                for timer in self._timers.values():
                    timer.cancel()

        task.add_done_callback(ended)
