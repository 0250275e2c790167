"""Keeping the workspace's state before a turn changes it, and once more at the end."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Self

from handloom.checkpoints import Checkpoints
from handloom.errors import ConfigError
from handloom.events import CheckpointMade
from handloom.messages import ToolCall
from handloom.runs import Run
from handloom.tools import Tool

CHANGES = frozenset({"write_workspace", "execute", "external"})


class Keeper:
    """The run's hand on its checkpoints; it gives up, once and aloud, where the workspace cannot be kept."""

    def __init__(self, checkpoints: Checkpoints | None) -> None:
        self._checkpoints = checkpoints
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def open(cls, run: Run) -> Self:
        checkpoints = run.safety.checkpoints
        problem = await asyncio.to_thread(checkpoints.problem) if checkpoints else ""
        if problem:
            await run.warn("checkpoints", problem)
        return cls(None if problem else checkpoints)

    async def keep(self, run: Run, turn: int) -> None:
        if self._checkpoints is None:
            return
        async with self._one_at_a_time:
            try:
                state = await self._checkpoints.take(f"{run.id}/{run.state.seq}")
            except ConfigError as error:
                self._checkpoints = None
                await run.warn("checkpoints", str(error))
                return
        await run.emit(CheckpointMade(turn=turn, state=state))

    async def aclose(self) -> None:
        """Nothing is open between two states."""


async def keep_before(turn: Run, calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> None:
    """Keep the state before these calls, where one of them may change it and it was not kept in this turn already."""
    number = turn.state.turn.get(turn.span.rpartition("/turn-")[0] if "/turn-" in turn.span else "", 0)
    if turn.safety.checkpoints is None or any(kept.span == turn.span for kept in turn.state.checkpoints):
        return
    if any(call.name in tools and tools[call.name].effects & CHANGES for call in calls):
        keeper = await turn.resource(Keeper, lambda: Keeper.open(turn))
        await keeper.keep(turn, number)


async def keep_after(run: Run, turn: int) -> None:
    """Keep the state that the last turn has left, where there is one to compare it with."""
    keeper = run.opened(Keeper)
    if keeper is not None:
        await keeper.keep(run, turn + 1)
