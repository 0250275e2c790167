"""The short form of `bench/soak.py`: after many mixed calls nothing has grown."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.anyio

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("soak", BENCH / "soak.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.soak
    sys.modules.pop("table", None)


async def test_a_hundred_mixed_calls_leave_nothing_behind(soak):
    first, *_, last, closed = await soak(calls=100, rounds=2)
    assert last["calls"] >= 100
    assert last["descriptors"] <= first["descriptors"]
    assert last["processes"] <= first["processes"]
    assert last["threads"] <= first["threads"] + 2
    assert last["rss MB"] < first["rss MB"] + 20
    assert closed["processes"] == 0
    assert closed["descriptors"] < first["descriptors"]
