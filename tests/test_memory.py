"""What the window always holds, whatever the conversation."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.events import ContextCompacted, MessageAdded, ModelReplied, RunStarted, ToolReturned
from handloom.llm.tokens import Meter
from handloom.memory import Answer, Memory
from handloom.messages import ImagePart, Message, ToolCall, ToolResult, Usage

METER = Meter()
PICTURE = ImagePart(data="QUJD")


def measure(messages: Sequence[Message]) -> int:
    return METER.request("system prompt", tuple(messages), ())


def turn(
    memory: Memory, results: list[str], *, step: str = "next", images: tuple[ImagePart, ...] = (), text: str = ""
) -> None:
    """One whole turn, as the loop would record it."""
    memory.apply(MessageAdded(message=Message.user(step, origin="next_step", images=images)))
    calls = tuple(
        ToolCall(id=f"call{memory.calls_made + n:05d}", name="tool", arguments={"n": n})
        for n in range(1, len(results) + 1)
    )
    memory.apply(
        ModelReplied(
            message=Message.assistant(text, calls),
            usage=Usage(prompt_tokens=measure(memory.window()), completion_tokens=10),
        )
    )
    for call, result in zip(calls, results, strict=True):
        memory.apply(ToolReturned(call=call, result=ToolResult(text=result)))


def started(task: str = "the task") -> Memory:
    memory = Memory()
    memory.apply(RunStarted(task=task))
    return memory


def compact(memory: Memory, budget: int, max_messages: int = 100) -> None:
    """What the agent does before each request, with a summary of fixed length."""
    for _ in range(4):
        cut = memory.compaction(measure, budget, max_messages)
        if cut is None:
            return
        summary = "what was dropped " * 20 if cut.drop_to > memory.drop_to else ""
        memory.apply(ContextCompacted(shrink_to=cut.shrink_to, drop_to=cut.drop_to, keep=cut.keep, summary=summary))


def is_whole(window: list[Message]) -> bool:
    """Each result follows its call in the same turn, each call has its result."""
    open_calls: list[str] = []
    for message in window:
        if message.role == "tool":
            if message.call_id not in open_calls:
                return False
            open_calls.remove(message.call_id)
        else:
            if open_calls:
                return False
            open_calls = [call.id for call in message.tool_calls]
    return not open_calls


texts = st.one_of(
    st.text(max_size=60),
    st.integers(1, 9_000).map(lambda n: "word " * (n // 5)),
    st.integers(1, 3_000).map(lambda n: "汉" * n),
)


@given(st.lists(st.lists(texts, max_size=3), min_size=1, max_size=25), st.integers(1_500, 12_000), st.integers(6, 40))
@settings(max_examples=150, deadline=None)
def test_a_window_is_whole_holds_the_task_and_fits(turns: list[list[str]], budget: int, max_messages: int) -> None:
    memory = started()
    for results in turns:
        turn(memory, results, text="" if results else "plain words")
        compact(memory, budget, max_messages)
        window = memory.window()
        assert is_whole(window)
        assert any(message.origin == "task" for message in window)
        assert measure(window) <= budget
        assert sum(message.origin != "next_step" for message in window) <= max(max_messages, 2 + 4) + 2


@given(st.lists(st.lists(st.integers(0, 4_000), min_size=1, max_size=2), min_size=2, max_size=20))
@settings(max_examples=60, deadline=None)
def test_between_compactions_each_window_extends_the_one_before(turns: list[list[int]]) -> None:
    memory = started()
    before: list[Message] = []
    for results in turns:
        turn(memory, ["x" * size for size in results])
        marks = (memory.shrink_to, memory.drop_to, memory.keep)
        stable = [message for message in memory.window() if message.origin != "next_step"]
        assert stable[: len(before)] == before
        compact(memory, 6_000)
        moved = marks != (memory.shrink_to, memory.drop_to, memory.keep)
        before = [] if moved else stable


def test_the_memory_of_two_turns_is_in_the_order_of_the_mission() -> None:
    memory = started()
    turn(memory, ["one"])
    turn(memory, ["two"])
    assert [(message.role, message.origin) for message in memory.messages] == [
        ("user", "task"),
        ("user", "next_step"),
        ("assistant", ""),
        ("tool", ""),
        ("user", "next_step"),
        ("assistant", ""),
        ("tool", ""),
    ]


def test_the_window_shows_the_newest_next_step_alone_unless_all_are_asked_for() -> None:
    memory = started()
    for step in ("first", "second", "third"):
        turn(memory, ["r"], step=step)
    assert [message.text for message in memory.window() if message.origin == "next_step"] == ["third"]
    assert [message.text for message in memory.window(all_next_steps=True) if message.origin == "next_step"] == [
        "first",
        "second",
        "third",
    ]


def test_the_window_shows_the_newest_screenshot_and_the_pictures_of_the_task() -> None:
    memory = Memory()
    memory.apply(RunStarted(task="what is on it?", images=(PICTURE,)))
    for _ in range(3):
        turn(memory, ["r"], images=(PICTURE,))
    assert [
        bool(message.images) for message in memory.window(all_next_steps=True) if message.origin == "next_step"
    ] == [False, False, True]
    assert memory.window()[0].images == (PICTURE,)


def test_a_shortened_result_shows_head_tail_and_its_handle() -> None:
    memory = started()
    turn(memory, ["HEAD " + "x" * 20_000 + " TAIL"])
    turn(memory, ["small"])
    turn(memory, ["small"])
    compact(memory, 8_000)
    short = next(message for message in memory.window() if message.role == "tool")
    assert short.text.startswith("HEAD")
    assert short.text.endswith("TAIL")
    assert 'read_result("call00001")' in short.text
    assert len(short.text) < 500
    assert memory.result("call00001").text == "HEAD " + "x" * 20_000 + " TAIL"  # type: ignore[union-attr]
    assert memory.has_short_results()


def test_a_result_larger_than_the_context_is_shortened_until_it_fits() -> None:
    memory = started()
    turn(memory, ["y" * 32_000])
    compact(memory, 2_000)
    assert measure(memory.window()) <= 2_000
    assert is_whole(memory.window())


def test_dropped_turns_leave_a_summary_behind_the_task() -> None:
    memory = started()
    for n in range(30):
        turn(memory, [f"result {n} " + "word " * 300])
        compact(memory, 4_000)
    window = memory.window()
    assert [message.origin for message in window[:2]] == ["task", "summary"]
    assert "what was dropped" in window[1].text


def test_the_digest_says_what_was_called_and_what_came_of_it() -> None:
    memory = started()
    turn(memory, ["1024"], text="I count")
    turn(memory, ["again"])
    digest = memory.digest(4)
    assert "called tool" in digest
    assert "-> 1024" in digest
    assert len(memory.digest(len(memory.messages), limit=60)) < 80


def test_a_plain_reply_is_an_answer_and_a_reply_that_was_cut_is_none() -> None:
    memory = started()
    memory.apply(ModelReplied(message=Message.assistant("half a sent"), finish="length"))
    assert memory.answer() is None
    assert memory.said_nothing()
    memory.apply(ModelReplied(message=Message.assistant("all of it"), finish="stop"))
    assert memory.answer() == Answer("all of it")


def test_terminate_ends_only_when_it_and_all_calls_beside_it_have_returned() -> None:
    memory = started()
    work, end = (
        ToolCall(id="1", name="work"),
        ToolCall(id="2", name="terminate", arguments={"status": "failure", "answer": "no"}),
    )
    memory.apply(ModelReplied(message=Message.assistant("", (end, work))))
    memory.apply(ToolReturned(call=end, result=ToolResult(text="no")))
    assert memory.answer() is None
    assert memory.pending_calls() == (work,)
    memory.apply(ToolReturned(call=work, result=ToolResult(text="done")))
    assert memory.answer() == Answer("no", "failure")


def test_a_refused_terminate_is_no_answer() -> None:
    memory = started()
    end = ToolCall(id="1", name="terminate")
    memory.apply(ModelReplied(message=Message.assistant("", (end,))))
    memory.apply(ToolReturned(call=end, result=ToolResult(text="wrong arguments", ok=False)))
    assert memory.answer() is None
