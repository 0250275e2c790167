"""The pace of a model: requests and tokens of a minute, whoever asks."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.flow.pace import MINUTE, Gate
from handloom.plans import ModelPace


@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 300)), max_size=20), st.integers(1, 5), st.integers(100, 500)
)
def test_no_minute_has_more_than_its_share(asked: list[tuple[float, int]], requests: int, tokens: int) -> None:
    now = 0.0
    gate = Gate(ModelPace(requests_per_minute=requests, tokens_per_minute=tokens), clock=lambda: now)
    passed: list[tuple[float, int]] = []

    async def ask(size: int) -> None:
        async with gate.passing(size) as settle:
            settle(size)

    for pause, size in asked:
        now += pause
        while (delay := gate.delay(size)) > 0:
            now += delay + 1e-6
        asyncio.run(ask(size))
        passed.append((now, size))
    for when, _ in passed:
        minute = [size for at, size in passed if when - MINUTE < at <= when]
        assert len(minute) <= requests
        assert sum(minute) <= tokens or len(minute) == 1


def test_what_a_request_really_cost_counts() -> None:
    now = 0.0
    gate = Gate(ModelPace(tokens_per_minute=100), clock=lambda: now)

    async def ask() -> None:
        async with gate.passing(90) as settle:
            settle(10)

    asyncio.run(ask())
    assert gate.delay(90) == 0
    assert gate.delay(91) == pytest.approx(MINUTE)
