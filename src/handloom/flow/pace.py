"""Pace: how many requests a model gets at once and in a minute, and what one step may use of it."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from handloom.errors import StepLimitError
from handloom.llm.model import Emit, Model, Reply, Request
from handloom.llm.profiles import Profile
from handloom.plans import ModelPace, StepLimits
from handloom.steps import StepState

MINUTE = 60.0


@dataclass
class Gate:
    """The requests to one model, of all steps together. Tokens are estimated before a request and put right after it."""

    pace: ModelPace
    clock: Callable[[], float] = time.monotonic
    _slots: asyncio.Semaphore | None = None
    _spent: deque[list[float]] = field(default_factory=deque[list[float]])  # [when, tokens] of the last minute
    _entering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextlib.asynccontextmanager
    async def passing(self, tokens: int) -> AsyncGenerator[Callable[[int], None]]:
        """Wait for a turn; what is yielded takes the tokens that the request really cost."""
        if self._slots is None and self.pace.max_parallel:
            self._slots = asyncio.Semaphore(self.pace.max_parallel)
        async with self._slots or contextlib.nullcontext():
            async with self._entering:
                while (delay := self.delay(tokens)) > 0:  # noqa: ASYNC110 - it waits for time to pass, not for an event
                    await asyncio.sleep(delay)
                entry = [self.clock(), float(tokens)]
                self._spent.append(entry)

            def settle(real: int) -> None:
                entry[1] = float(real)

            yield settle

    def delay(self, tokens: int) -> float:
        """Seconds until a request of so many tokens may go; one that is larger than a minute's share goes when nothing else does."""
        now = self.clock()
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._spent.popleft()
        waits = [0.0]
        if self.pace.requests_per_minute and len(self._spent) >= self.pace.requests_per_minute:
            waits.append(self._spent[len(self._spent) - self.pace.requests_per_minute][0] + MINUTE - now)
        if self.pace.tokens_per_minute and self._spent:
            over = sum(entry[1] for entry in self._spent) + tokens - self.pace.tokens_per_minute
            for when, spent in self._spent:
                if over <= 0:
                    break
                waits.append(when + MINUTE - now)
                over -= spent
        return max(waits)


@dataclass
class Gates:
    """The gates of a run by the name of the model."""

    paces: dict[str, ModelPace]
    _gates: dict[str, Gate] = field(default_factory=dict[str, Gate])

    def of(self, name: str) -> Gate:
        if name not in self._gates:
            self._gates[name] = Gate(self.paces.get(name) or self.paces.get("*") or ModelPace())
        return self._gates[name]


class PacedModel:
    """A model as one step sees it: it waits at the gate, and it refuses when the step has used up its share."""

    def __init__(self, model: Model, gate: Gate, limits: StepLimits, spent: Callable[[], StepState]) -> None:
        self._model, self._gate, self._limits, self._spent = model, gate, limits, spent

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def profile(self) -> Profile:
        return self._model.profile

    async def complete(self, request: Request, emit: Emit) -> Reply:
        """Ask once. Raises: StepLimitError, and what the model raises."""
        self._check()
        async with self._gate.passing(self._model.estimate(request)) as settle:
            reply = await self._model.complete(request, emit)
            settle(reply.usage.total_tokens)
            return reply

    def estimate(self, request: Request) -> int:
        return self._model.estimate(request)

    async def aclose(self) -> None:
        """The model belongs to whoever opened it."""

    def _check(self) -> None:
        step, limits = self._spent(), self._limits
        for used, most, what in (
            (step.requests, limits.max_turns, "turns"),
            (step.usage.total_tokens, limits.max_tokens, "tokens"),
            (step.usage.cost, limits.max_cost_usd, "USD"),
        ):
            if most is not None and used >= most:
                raise StepLimitError(
                    f"the step used up its limit of {most:g} {what}; raise `limits` of the step, or ask less of it"
                )
