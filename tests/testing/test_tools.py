import pytest

from handloom.errors import SuspendedError, ToolError
from handloom.testing.tools import FakeContext

pytestmark = pytest.mark.anyio


class Lamp:
    made = 0

    def __init__(self) -> None:
        self.lit = True

    @classmethod
    async def light(cls) -> "Lamp":
        cls.made += 1
        return cls()

    async def aclose(self) -> None:
        self.lit = False


async def test_a_resource_is_made_once_and_closed_at_the_end(tmp_path):
    made = Lamp.made
    async with FakeContext(tmp_path) as context:
        lamp = await context.resource(Lamp, Lamp.light)
        assert await context.resource(Lamp, Lamp.light) is lamp
        assert lamp.lit
    assert not lamp.lit
    assert Lamp.made == made + 1


async def test_answers_come_in_order_and_end_in_a_suspension(tmp_path):
    context = FakeContext(tmp_path, answers=["yes", "no"])
    assert [await context.ask("first?"), await context.ask("second?")] == ["yes", "no"]
    with pytest.raises(SuspendedError):
        await context.ask("third?")
    assert context.questions == ["first?", "second?", "third?"]


async def test_earlier_results_are_recalled_by_their_handle(tmp_path):
    context = FakeContext(tmp_path, results={"r1": "all of it"})
    assert context.recall("r1") == "all of it"
    with pytest.raises(ToolError, match="r2"):
        context.recall("r2")
