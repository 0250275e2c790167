"""A run's life: limits, questions, cancelling, what stops it and what it says then."""

import asyncio
from pathlib import Path

import pytest

from handloom.agents import Agent
from handloom.errors import ModelUnavailableError, RunLockedError
from handloom.events import Event, QuestionAnswered, RunResumed, RunSuspended, WarningRaised
from handloom.journal import MemoryStore
from handloom.journal.sqlite import SqliteStore
from handloom.llm.model import Reply
from handloom.memory import Answer
from handloom.messages import Message, Usage
from handloom.prompts import toolcall
from handloom.runs import Limits, Run, RunResult
from handloom.state import Question
from handloom.testing.models import Script, ScriptedModel, calls, finish
from handloom.toolbox.ask_human import ask_human
from handloom.toolbox.terminate import terminate_tool
from handloom.tools import ToolContext, tool

pytestmark = pytest.mark.anyio


@tool(effects={"read"}, repeatable=True)
def tick(n: int = 0) -> str:
    """Tick."""
    return f"tock {n}"


def agent(*replies: Script) -> Agent:
    return Agent(
        name="t", prompt=toolcall.PROMPT, model=ScriptedModel(replies), tools=(tick, ask_human, terminate_tool())
    )


def ticks(count: int) -> list[Message]:
    return [calls(("tick", {"n": n})) for n in range(count)]


async def start(store: MemoryStore, **options: object) -> Run:
    return await Run.start("task", store=store, workspace=Path("/"), **options)  # type: ignore[arg-type]


def warnings(events: list[Event]) -> list[str]:
    return [event.topic for event in events if isinstance(event, WarningRaised)]


async def test_a_limit_of_turns_warns_at_four_fifths_and_suspends() -> None:
    store = MemoryStore()
    result = await (await start(store, limits=Limits(turns=5))).complete(agent(*ticks(9)).run)
    assert (result.status, result.cause, result.turns) == ("suspended", "limit", 5)
    assert "5 turns" in result.reason
    assert f"handloom resume {result.run}" in result.reason
    assert warnings(store.read(result.run)) == ["limit:turns"]


async def test_a_run_at_its_limit_goes_on_with_a_higher_one() -> None:
    store = MemoryStore()
    first = await (await start(store, limits=Limits(turns=2))).complete(agent(*ticks(9)).run)
    run = await Run.reopen(first.run, store=store, limits=Limits(turns=9))
    result = await run.complete(agent(finish("there")).run)
    assert (result.status, result.answer, result.turns) == ("success", "there", 3)
    assert any(isinstance(event, RunResumed) for event in store.read(result.run))


async def test_tokens_and_cost_are_limited() -> None:
    spent = Reply(message=ticks(1)[0], usage=Usage(prompt_tokens=900, completion_tokens=100, cost=0.4, calls=1))
    store = MemoryStore()
    result = await (await start(store, limits=Limits(tokens=2_500))).complete(agent(spent, spent, spent, spent).run)
    assert result.cause == "limit"
    assert result.usage.total_tokens == 3_000
    result = await (await start(store, limits=Limits(cost=0.5))).complete(agent(spent, spent, spent).run)
    assert (result.cause, result.usage.cost) == ("limit", 0.8)
    assert warnings(store.read(result.run)) == ["limit:cost"]


async def test_time_is_limited_also_in_the_middle_of_a_turn() -> None:
    @tool(effects={"read"})
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "never"

    slow = Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel([calls(("wait", {}))]), tools=(wait,))
    result = await (await start(MemoryStore(), limits=Limits(seconds=0.2))).complete(slow.run)
    assert (result.status, result.cause) == ("suspended", "limit")


async def test_time_that_is_up_while_an_event_is_saved_suspends_all_the_same(tmp_path: Path) -> None:
    async def talk(run: Run) -> Answer:
        while True:
            await run.warn("x", "y")

    store = SqliteStore(tmp_path, durability="full")
    for _ in range(5):
        run = await Run.start("task", store=store, workspace=tmp_path, limits=Limits(seconds=0.1))
        result = await run.complete(talk)
        assert (result.status, result.cause) == ("suspended", "limit")
        assert [event.seq for event in store.read(run.id)] == list(range(run.state.seq))
    store.close()


async def test_a_question_without_anybody_suspends_and_the_answer_is_asked_for_once() -> None:
    store = MemoryStore()
    asking = calls(("ask_human", {"question": "哪一个？"}))
    first = await (await start(store)).complete(agent(asking).run)
    assert (first.status, first.cause) == ("suspended", "question")
    assert [question.question for question in first.questions] == ["哪一个？"]
    run = await Run.reopen(first.run, store=store)
    await run.emit(QuestionAnswered(id=first.questions[0].id, answer="这个"))
    model = ScriptedModel([finish("done")])
    result = await run.complete(
        Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(ask_human, terminate_tool())).run
    )
    assert result.answer == "done"
    assert model.requests[0].messages[-2].text == "这个"


async def test_a_question_is_answered_at_once_where_somebody_is_there() -> None:
    async def person(question: Question) -> str:
        return question.question + " yes"

    result = await (await start(MemoryStore(), asker=person)).complete(
        agent(calls(("ask_human", {"question": "Go?"})), "fine").run
    )
    assert (result.status, result.answer) == ("success", "fine")


async def test_cancelling_stops_a_reply_at_once_and_the_run_can_go_on() -> None:
    store = MemoryStore()

    class Slow(ScriptedModel):
        async def complete(self, request: object, emit: object) -> Reply:  # type: ignore[override]
            await asyncio.sleep(30)
            raise AssertionError

    run = await start(store)
    slow = Agent(name="t", prompt=toolcall.PROMPT, model=Slow([]), tools=(tick,))
    asyncio.get_running_loop().call_later(0.1, run.cancel)
    first = await run.complete(slow.run)
    assert (first.status, first.cause) == ("suspended", "interrupted")
    result = await (await Run.reopen(first.run, store=store)).complete(agent("here").run)
    assert result.answer == "here"


async def test_cancelling_waits_for_a_tool_that_runs() -> None:
    store = MemoryStore()
    run = await start(store)

    @tool(effects={"execute"})
    async def work() -> str:
        """Work."""
        run.cancel()
        await asyncio.sleep(0.05)
        return "worked"

    first = await run.complete(
        Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel([calls(("work", {}))]), tools=(work,)).run
    )
    assert first.cause == "interrupted"
    assert run.memory.messages[-1].text == "worked"


async def test_an_interrupted_task_records_that_it_was_interrupted() -> None:
    store = MemoryStore()
    run = await start(store)

    async def forever(_run: Run) -> Answer:
        await asyncio.sleep(30)
        raise AssertionError

    task = asyncio.create_task(run.complete(forever))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = store.read(run.id)[-1]
    assert isinstance(last, RunSuspended)
    assert last.cause == "interrupted"


async def test_a_model_out_of_reach_leaves_the_run_resumable() -> None:
    store = MemoryStore()
    first = await (await start(store)).complete(agent(ModelUnavailableError("nobody there")).run)
    assert (first.status, first.cause, first.reason) == ("suspended", "unavailable", "nobody there")
    assert (await (await Run.reopen(first.run, store=store)).complete(agent("back").run)).answer == "back"


async def test_a_bug_travels_and_leaves_the_run_resumable() -> None:
    store = MemoryStore()

    async def broken(_run: Run) -> Answer:
        raise ZeroDivisionError

    run = await start(store)
    with pytest.raises(ZeroDivisionError):
        await run.complete(broken)
    assert (await (await Run.reopen(run.id, store=store)).complete(agent("fine").run)).status == "success"


async def test_a_run_that_has_ended_gives_its_result_again_without_work() -> None:
    store = MemoryStore()
    first = await (await start(store)).complete(agent("42").run)
    again: RunResult = await (await Run.reopen(first.run, store=store)).complete(agent().run)
    assert (again.status, again.answer) == ("success", "42")
    assert len(store.read(first.run)) == len(store.read(again.run))


async def test_a_follow_up_goes_on_in_the_conversation_with_fresh_limits() -> None:
    store = MemoryStore()
    first = await (await start(store, limits=Limits(turns=2))).complete(agent(*ticks(1), "one").run)
    run = await Run.reopen(first.run, store=store, limits=Limits(turns=2))
    await run.follow_up("and then?")
    model = ScriptedModel([*ticks(1), "two"])
    result = await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(tick,)).run)
    assert (result.status, result.answer, result.turns) == ("success", "two", 4)
    assert [message.text for message in model.requests[0].messages if message.origin == "task"] == ["task", "and then?"]


async def test_a_follow_up_answers_the_calls_that_were_left() -> None:
    store = MemoryStore()
    first = await (await start(store)).complete(agent(calls(("ask_human", {"question": "?"}))).run)
    run = await Run.reopen(first.run, store=store)
    await run.follow_up("never mind")
    model = ScriptedModel(["ok"])
    await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(ask_human,)).run)
    roles = [message.role for message in model.requests[0].messages]
    assert roles == ["user", "assistant", "tool", "user", "user"]


async def test_a_follow_up_closes_what_the_task_before_left_open() -> None:
    store = MemoryStore()
    first = await (await start(store)).complete(agent(calls(("ask_human", {"question": "?"}))).run)
    run = await Run.reopen(first.run, store=store)
    await run.follow_up("never mind")
    assert run.state.open_questions() == []
    assert run.state.open_calls == set()
    assert run.state.open_turns == set()
    result = await run.complete(agent("ok").run)
    assert (result.turns, result.questions) == (2, ())
    assert sum(isinstance(event, RunResumed) for event in store.read(run.id)) == 1


async def test_a_tool_that_asked_runs_again_after_the_answer_though_it_is_not_repeatable() -> None:
    @tool(effects={"external"})
    async def book(context: ToolContext) -> str:
        """Book."""
        return "booked: " + await context.ask("Really?")

    def booking(*replies: Script) -> Agent:
        return Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel(replies), tools=(book,))

    store = MemoryStore()
    first = await (await start(store)).complete(booking(calls(("book", {}))).run)
    run = await Run.reopen(first.run, store=store)
    await run.emit(QuestionAnswered(id=first.questions[0].id, answer="yes"))
    await run.complete(booking("done").run)
    assert "booked: yes" in [message.text for message in run.memory.messages]


async def test_a_run_is_held_by_one_at_a_time() -> None:
    store = MemoryStore()
    run = await start(store)
    with pytest.raises(RunLockedError):
        await Run.reopen(run.id, store=store)
    await run.aclose()
    await (await Run.reopen(run.id, store=store)).aclose()


async def test_resources_are_made_once_and_closed_newest_first() -> None:
    log: list[str] = []

    class A:
        async def aclose(self) -> None:
            log.append("a closed")

    class B:
        async def aclose(self) -> None:
            log.append("b closed")

    async def make_a() -> A:
        log.append("a made")
        return A()

    async def make_b() -> B:
        return B()

    run = await start(MemoryStore())

    async def work(run: Run) -> Answer:
        one, two = await asyncio.gather(run.resource(A, make_a), run.resource(A, make_a))
        assert one is two
        await run.resource(B, make_b)
        return Answer("x")

    await run.complete(work)
    assert log == ["a made", "b closed", "a closed"]


async def test_a_resource_may_be_made_of_another_which_is_closed_after_it() -> None:
    log: list[str] = []

    class Engine:
        async def aclose(self) -> None:
            log.append("engine closed")

    class Car:
        async def aclose(self) -> None:
            log.append("car closed")

    async def make_engine() -> Engine:
        await asyncio.sleep(0.01)
        log.append("engine made")
        return Engine()

    async def work(run: Run) -> Answer:
        async def make_car() -> Car:
            await run.resource(Engine, make_engine)
            log.append("car made")
            return Car()

        async with asyncio.timeout(5):
            await asyncio.gather(*(run.resource(Car, make_car) for _ in range(3)), run.resource(Engine, make_engine))
        return Answer("x")

    await (await start(MemoryStore())).complete(work)
    assert log == ["engine made", "car made", "car closed", "engine closed"]


async def test_a_reader_that_fails_does_not_stop_the_run() -> None:
    def broken(_event: Event) -> None:
        raise ValueError

    assert (await (await start(MemoryStore(), readers=(broken,))).complete(agent("fine").run)).status == "success"
