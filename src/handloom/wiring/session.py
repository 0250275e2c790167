"""Session: a run together with what works on it, an agent or a flow; and what every run is given, a store and who answers its questions."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from handloom.agents import Output
from handloom.config import Loaded
from handloom.journal import Store
from handloom.memory import Answer
from handloom.policy import run_hooks
from handloom.runs import Asker, Run, RunResult
from handloom.state import Question
from handloom.wiring.wishes import Given


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


def open_store(loaded: Loaded) -> Store:
    """The store of runs in the data folder."""
    from handloom.journal.sqlite import SqliteStore

    return SqliteStore(loaded.folders.data, durability=loaded.settings.journal.durability)


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


def one_at_a_time(asker: Asker | None) -> Asker | None:
    """Steps that run side by side ask a person one after the other."""
    if asker is None:
        return None
    turn = asyncio.Lock()

    async def ask(question: Question) -> str | None:
        async with turn:
            return await asker(question)

    return ask
