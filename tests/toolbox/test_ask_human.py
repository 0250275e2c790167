import pytest

from handloom.errors import SuspendedError, ToolError
from handloom.testing.tools import FakeContext
from handloom.toolbox.ask_human import ask_human

pytestmark = pytest.mark.anyio


async def test_the_answer_is_the_result(tmp_path):
    context = FakeContext(tmp_path, answers=["blue"])
    result = await ask_human.run({"question": "Which colour?"}, context)
    assert result.ok
    assert result.text == "blue"
    assert context.questions == ["Which colour?"]


async def test_with_nobody_there_the_run_is_suspended_and_may_ask_again(tmp_path):
    with pytest.raises(SuspendedError):
        await ask_human.run({"question": "Which colour?"}, FakeContext(tmp_path))
    assert ask_human.repeatable


async def test_a_question_is_needed(tmp_path):
    with pytest.raises(ToolError, match="question: is missing"):
        await ask_human.run({}, FakeContext(tmp_path))
