"""The model layer against a service that behaves as the real ones do on bad days."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from pydantic import BaseModel, create_model

from handloom.agents import Agent
from handloom.errors import ContextOverflowError, ModelRefusedError, ModelUnavailableError
from handloom.events import Event, ModelDelta, ModelRetried, WarningRaised
from handloom.journal import MemoryStore
from handloom.llm.fallback import FallbackModel
from handloom.llm.model import Reply, Request
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Price, Profile, profile_for
from handloom.messages import ImagePart, Json, Message, ToolCall, ToolResult, ToolSpec
from handloom.prompts import toolcall
from handloom.redaction import Redactor, Secret
from handloom.runs import Run, Safety
from handloom.testing.server import ScriptedServer, Step, body, call, cut, error, hang, reply
from handloom.testing.steps import Reply as Scripted
from handloom.toolbox.terminate import terminate_tool
from handloom.tools import Tool, tool

pytestmark = pytest.mark.anyio

ADD = ToolSpec(
    name="add",
    description="Add.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


class Item(BaseModel):
    name: str
    parts: "list[Item]" = []


Painted = create_model("Item", colour=(str, ...))


@tool(effects={"read"})
def book(items: list[Item], by_name: dict[str, Item]) -> str:
    """Book."""
    return f"{items}{by_name}"


@tool(effects={"read"})
def paint(item: Painted) -> str:
    """Paint."""
    return str(item)


@tool(effects={"read"}, actions={"put": "item", "clear": ""})
def shelf(action: str, item: Item | None = None) -> str:
    """A shelf."""
    return f"{action}{item}"


HELLO = Request(system="Be brief.", messages=(Message.user("hello"),))
WITH_TOOL = replace(HELLO, tools=(ADD,))


def streamed(*chunks: Json, done: bool = True) -> Step:
    """A stream of these chunks as they are."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    events = "".join(f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks)
    return body(events + ("data: [DONE]\n\n" if done else ""), content_type="text/event-stream")


def chunk(delta: Json, finish: str | None = None, **fields: object) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


class Watcher:
    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


async def ask(
    steps: list[Step], request: Request = HELLO, profile: Profile | None = None, *, idle: float = 5.0
) -> tuple[Reply, Watcher, ScriptedServer]:
    watcher = Watcher()
    with ScriptedServer(steps) as server:
        model = OpenAIModel(
            "test-model", Endpoint(base_url=server.base_url, idle=idle), profile=profile or Profile(tool_mode="native")
        )
        try:
            return await model.complete(request, watcher), watcher, server
        finally:
            await model.aclose()


async def refusal(steps: list[Step], request: Request = HELLO, **options: object) -> tuple[Exception, int]:
    watcher = Watcher()
    with ScriptedServer(steps) as server:
        model = OpenAIModel(
            "test-model", Endpoint(base_url=server.base_url, idle=5.0), profile=Profile(tool_mode="native")
        )
        with pytest.raises((ModelRefusedError, ModelUnavailableError, ContextOverflowError)) as caught:
            await model.complete(request, watcher)
        await model.aclose()
        return caught.value, len(server.requests)


async def test_a_reply_streams_in_and_counts_what_it_used() -> None:
    got, watcher, server = await ask(
        [
            reply(
                "你好 👋 there",
                usage={"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}},
            )
        ]
    )
    assert got.message.text == "你好 👋 there"
    assert "".join(event.text for event in watcher.of(ModelDelta)) == "你好 👋 there"
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.cached_tokens, got.usage.calls) == (
        100,
        7,
        60,
        1,
    )
    assert server.requests[0].body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]
    assert server.requests[0].body["stream"] is True


async def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    priced = Profile(price=Price(prompt=2.0, completion=10.0, cached=0.5))
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "prompt_cache_hit_tokens": 400_000}
    got, _, _ = await ask([reply("x", usage=usage)], profile=priced)
    assert got.usage.cost == pytest.approx(0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 10.0)


async def test_reasoning_is_kept_apart_and_sent_back_only_where_wanted() -> None:
    got, _, _ = await ask([reply("4", reasoning="two and two")])
    assert (got.message.thinking, got.message.text) == ("two and two", "4")
    again = replace(HELLO, messages=(*HELLO.messages, got.message, Message.user("sure?")))
    _, _, server = await ask([reply("yes")], again)
    assert "reasoning_content" not in server.requests[0].body["messages"][2]
    _, _, server = await ask([reply("yes")], again, Profile(sends_reasoning_back=True))
    assert server.requests[0].body["messages"][2]["reasoning_content"] == "two and two"


async def test_images_go_only_to_models_that_take_them() -> None:
    seen = Request(messages=(Message.user("what is it?", images=(ImagePart(data="QUJD", mime="image/jpeg"),)),))
    _, _, server = await ask([reply("a cat")], seen, Profile(vision=True))
    assert server.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}},
    ]
    _, _, server = await ask([reply("?")], seen, Profile(vision=False))
    assert server.requests[0].body["messages"][0]["content"] == "what is it?"


async def test_a_wrong_key_fails_at_once_with_advice() -> None:
    problem, requests = await refusal([error(401, "invalid_api_key", "Incorrect API key")])
    assert isinstance(problem, ModelRefusedError)
    assert "api_key_env" in str(problem)
    assert requests == 1


async def test_a_bad_request_fails_at_once() -> None:
    problem, requests = await refusal([error(400, "invalid_request", "temperature must be 1")])
    assert isinstance(problem, ModelRefusedError)
    assert "temperature must be 1" in str(problem)
    assert requests == 1


async def test_an_empty_account_is_not_asked_again() -> None:
    problem, requests = await refusal([error(429, "insufficient_quota", "You exceeded your current quota")])
    assert isinstance(problem, ModelRefusedError)
    assert requests == 1


async def test_l8_overload_is_retried_after_the_time_the_service_names() -> None:
    got, watcher, server = await ask([error(429, retry_after=0.01), error(503, retry_after=0.02), reply("at last")])
    assert got.message.text == "at last"
    assert [event.delay for event in watcher.of(ModelRetried)] == [0.01, 0.02]
    assert len(server.requests) == 3


async def test_a_service_that_wants_more_than_two_minutes_is_not_waited_for() -> None:
    problem, requests = await refusal([error(429, retry_after=121)])
    assert isinstance(problem, ModelUnavailableError)
    assert requests == 1


async def test_l8_a_cut_stream_is_asked_again_and_its_partial_call_never_returned() -> None:
    partial = Scripted(calls=(call("add", '{"a": 1, "b": 2}'),), chunks=4)
    got, watcher, _ = await ask([cut(partial, after_chunks=2), reply(calls=[("add", {"a": 3, "b": 4})])], WITH_TOOL)
    assert [made.arguments for made in got.message.tool_calls] == [{"a": 3, "b": 4}]
    assert len(watcher.of(ModelRetried)) == 1


async def test_silence_is_an_error_however_long_the_whole_reply_may_take() -> None:
    started = time.monotonic()
    got, watcher, _ = await ask([hang(30, "half of it", after_chunks=1), reply("whole")], idle=0.3)
    assert got.message.text == "whole"
    assert len(watcher.of(ModelRetried)) == 1
    assert time.monotonic() - started < 30


USED: Json = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}


async def test_a_stream_that_breaks_is_no_reply_though_each_chunk_counts_what_it_used() -> None:
    half = streamed(chunk({"content": "The first half of the ans"}, usage=USED), done=False)
    got, watcher, _ = await ask([half, reply("The whole answer.")])
    assert got.message.text == "The whole answer."
    assert "in the middle" in watcher.of(ModelRetried)[0].reason


async def test_usage_alone_at_the_end_of_a_stream_says_that_the_reply_is_whole() -> None:
    got, watcher, _ = await ask([streamed(chunk({"content": "The answer."}), {"choices": [], "usage": USED})])
    assert (got.message.text, got.usage.total_tokens) == ("The answer.", 10)
    assert watcher.of(ModelRetried) == []


@pytest.mark.parametrize(
    "page",
    [
        body("<html>Log in</html>"),
        body('{"error": {"message": "boom"}}', content_type="application/json"),
        body("", content_type="text/plain"),
    ],
)
async def test_a_200_that_is_no_completion_is_retried_and_then_said(page: Step) -> None:
    got, watcher, _ = await ask([page, reply("ok")])
    assert got.message.text == "ok"
    assert "no completion" in watcher.of(ModelRetried)[0].reason


async def test_l8_context_overflow_is_told_apart() -> None:
    problem, requests = await refusal([error(400, "context_length_exceeded", "maximum context length is 8192 tokens")])
    assert isinstance(problem, ContextOverflowError)
    assert requests == 1
    problem, _ = await refusal(
        [error(400, "exceed_context_size_error", "the request exceeds the available context size")]
    )
    assert isinstance(problem, ContextOverflowError)


async def test_nobody_there_is_unavailable_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handloom.llm.retry.ATTEMPTS", 2)
    model = OpenAIModel("m", Endpoint(base_url="http://127.0.0.1:9/v1"), profile=Profile())
    with pytest.raises(ModelUnavailableError, match="failed 2 times"):
        await model.complete(HELLO, Watcher())
    await model.aclose()


async def test_calls_may_come_without_index_or_id() -> None:
    got, _, _ = await ask(
        [reply(calls=[call("add", {"a": 1, "b": 2}, id=""), call("add", {"a": 3, "b": 4}, id="")], index=False)],
        WITH_TOOL,
    )
    assert [made.arguments for made in got.message.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


async def test_a_new_id_with_a_name_begins_a_call_though_the_index_is_the_same() -> None:
    def piece(arguments: str, **fields: str) -> Json:
        name = {"name": "add"} if fields else {}
        return {"tool_calls": [{"index": 0, **fields, "function": {**name, "arguments": arguments}}]}

    gemini = streamed(
        chunk(piece('{"a": 1, "b": 2}', id="f1", type="function")),
        chunk(piece('{"a": 3,', id="f2", type="function")),
        chunk(piece(' "b": 4}'), "tool_calls"),
    )
    got, _, _ = await ask([gemini], WITH_TOOL)
    assert [(made.name, made.arguments) for made in got.message.tool_calls] == [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 3, "b": 4}),
    ]


async def test_a_name_behind_a_whole_call_begins_one_where_all_have_the_index_zero_and_no_id() -> None:
    def piece(arguments: str, name: str = "") -> Json:
        return {"tool_calls": [{"index": 0, "id": "", "function": {"name": name, "arguments": arguments}}]}

    nameless = streamed(
        chunk(piece('{"a": 1, "b": 2}', "add")),
        chunk(piece('{"a": 3,', "add")),
        chunk(piece(' "b": 4}'), "tool_calls"),
    )
    got, _, _ = await ask([nameless], WITH_TOOL)
    assert [made.arguments for made in got.message.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


async def test_arguments_that_go_ever_deeper_are_the_models_fault() -> None:
    def piece(arguments: str) -> Json:
        return chunk({"tool_calls": [{"index": 0, "function": {"name": "add", "arguments": arguments}}]})

    got, _, _ = await ask([streamed(piece("[" * 3_000), piece("}"), chunk({}, "tool_calls"))], WITH_TOOL)
    assert got.message.tool_calls[0].error


async def test_calls_of_tools_that_there_are_not_go_back_with_names_that_services_take() -> None:
    search = msgspec.structs.replace(ADD, name="repo.search")
    names = ["multi_tool_use.parallel", "my tool\n" + "x" * 300, "", "加", "add", "repo.search"]
    made = tuple(ToolCall(id=f"call0000{place}", name=name) for place, name in enumerate(names))
    results = tuple(Message.tool(call, ToolResult(text="?")) for call in made)
    said = replace(HELLO, messages=(*HELLO.messages, Message.assistant("", made), *results), tools=(ADD, search))
    _, _, server = await ask([reply("ok")], said)
    sent = [call["function"]["name"] for call in server.requests[0].body["messages"][2]["tool_calls"]]
    assert sent == ["multi_tool_use_parallel", "my_tool_" + "x" * 56, "unnamed", "_", "add", "repo.search"]


async def test_half_a_character_in_a_call_is_the_models_fault() -> None:
    got, _, _ = await ask([reply('add("\\ud800", 1)')], WITH_TOOL)
    assert "surrogate" in got.message.tool_calls[0].error
    nameless = chunk({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "\ud800"}}]}, "tool_calls")
    got, _, _ = await ask([streamed(nameless)], WITH_TOOL)
    assert got.message.tool_calls[0].name == "?"


async def test_half_a_character_in_a_stream_stops_no_run(tmp_path: Path) -> None:
    split = streamed(chunk({"content": "a \ud83d"}), chunk({"content": "\ude00 b"}, "stop"))
    with ScriptedServer([split]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile())
        agent = Agent(name="t", prompt=toolcall.PROMPT, model=model)
        safety = Safety(redactor=Redactor.of("sk-a-long-secret-of-mine"))
        run = await Run.start("task", store=MemoryStore(), workspace=tmp_path, safety=safety)
        result = await run.complete(agent.run)
        await model.aclose()
    assert result.answer == "a ?? b"


@pytest.mark.parametrize(
    "text", ["```json\n{}" + "\n" * 200_000, "<tool_call>{" + " " * 200_000 + "x", "{} " * 100_000]
)
async def test_long_space_in_a_reply_is_read_in_no_time(text: str) -> None:
    started = time.monotonic()
    await ask([reply(text)], WITH_TOOL)
    assert time.monotonic() - started < 5


async def test_a_service_without_tools_gets_them_in_structured_form() -> None:
    refused = error(400, "invalid_request", "this model does not support tools")
    written = reply('{"thought": "sum", "calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}')
    got, watcher, server = await ask([refused, written], WITH_TOOL, Profile(tool_mode="auto"))
    assert got.message.tool_calls[0].arguments == {"a": 1, "b": 2}
    assert (got.message.text, got.mode) == ("sum", "structured")
    assert "tools" not in server.requests[1].body
    assert server.requests[1].body["response_format"]["type"] == "json_schema"
    assert "structured mode" in watcher.of(WarningRaised)[0].text


async def test_a_service_without_schemas_gets_the_form_in_words() -> None:
    refused = error(400, "invalid_request", "response_format json_schema is not supported")
    written = reply('```json\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n```')
    got, _, server = await ask([refused, written], WITH_TOOL, Profile(tool_mode="structured"))
    assert got.message.tool_calls[0].arguments == {"a": 1, "b": 2}
    assert "response_format" not in server.requests[1].body
    assert '"name": "add"' in server.requests[1].body["messages"][0]["content"]


async def test_auto_mode_stops_offering_tools_natively_after_two_calls_written_as_text() -> None:
    written = reply('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>')
    structured = reply('{"thought": "", "calls": [{"name": "add", "arguments": {"a": 5, "b": 6}}]}')
    watcher = Watcher()
    with ScriptedServer([written, written, structured]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode="auto"))
        replies = [await model.complete(WITH_TOOL, watcher) for _ in range(3)]
        await model.aclose()
    assert [got.mode for got in replies] == ["native", "native", "structured"]
    assert [got.message.tool_calls[0].arguments["a"] for got in replies] == [1, 1, 5]
    assert ["tools" in request.body for request in server.requests] == [True, True, False]
    assert [event.topic for event in watcher.of(WarningRaised)] == ["model"]


async def test_a_schema_of_calls_holds_what_the_schemas_of_the_tools_refer_to() -> None:
    valid = await bound(book, paint)
    assert valid("book", items=[{"name": "a", "parts": [{"name": "b"}]}], by_name={"c": {"name": "c"}})
    assert not valid("book", items=[{"colour": "red"}], by_name={})
    assert not valid("book", items=[], by_name={"c": {"colour": "red"}})
    assert valid("paint", item={"colour": "red"})
    assert not valid("paint", item={"name": "a"}), "each tool has its own definitions, though they share a name"


async def test_a_schema_of_calls_holds_what_the_actions_of_a_tool_refer_to() -> None:
    valid = await bound(shelf)
    assert valid("shelf", action="put", item={"name": "a"})
    assert valid("shelf", action="clear")
    assert not valid("shelf", action="put", item={"colour": "red"})
    assert not valid("shelf", action="clear", item={"name": "a"})


async def test_a_schema_of_calls_holds_what_the_answer_refers_to() -> None:
    end = terminate_tool({"$ref": "#/definitions/Sum", "definitions": {"Sum": {"type": "integer"}}})
    valid = await bound(end)
    assert valid("terminate", status="success", answer=3)
    assert not valid("terminate", status="success", answer="three")


async def bound(*tools: Tool) -> Callable[..., bool]:
    """Whether a call fits the schema that a service without native tools is given, as a function."""
    said = reply(json.dumps({"thought": "", "calls": [{"name": "x", "arguments": {}}]}))
    request = replace(HELLO, tools=tuple(tool.spec for tool in tools))
    _, _, server = await ask([said], request, Profile(tool_mode="structured"))
    schema = jsonschema_rs.validator_for(server.requests[0].body["response_format"]["json_schema"]["schema"])
    return lambda name, **arguments: schema.is_valid({"thought": "", "calls": [{"name": name, "arguments": arguments}]})


async def test_a_typed_answer_is_asked_for_by_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    _, _, server = await ask([reply('{"n": 1}')], replace(HELLO, schema=schema))
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == schema


async def test_the_next_model_takes_over_and_stays() -> None:
    watcher = Watcher()
    with ScriptedServer([error(401)]) as broken, ScriptedServer([reply("one"), reply("two")]) as good:
        first, second = (
            OpenAIModel(name, Endpoint(base_url=url)) for name, url in (("a", broken.base_url), ("b", good.base_url))
        )
        model = FallbackModel([first, second])
        assert [(await model.complete(HELLO, watcher)).message.text for _ in range(2)] == ["one", "two"]
        await model.aclose()
    assert len(broken.requests) == 1
    assert "going on with b" in watcher.of(WarningRaised)[0].text


async def test_requests_that_fail_together_give_up_one_model() -> None:
    with (
        ScriptedServer([error(401)] * 3) as broken,
        ScriptedServer([reply("here")] * 3) as good,
        ScriptedServer([]) as unused,
    ):
        model = FallbackModel(
            [
                OpenAIModel(name, Endpoint(base_url=at.base_url))
                for name, at in (("a", broken), ("b", good), ("c", unused))
            ]
        )
        watcher = Watcher()
        replies = await asyncio.gather(*(model.complete(HELLO, watcher) for _ in range(3)))
        await model.aclose()
    assert [got.message.text for got in replies] == ["here"] * 3
    assert (len(broken.requests), [left.name for left in model.models]) == (3, ["b", "c"])
    assert len(watcher.of(WarningRaised)) == 1


async def test_azure_is_addressed_by_deployment() -> None:
    with ScriptedServer([reply("hi")]) as server:
        endpoint = Endpoint(
            base_url=server.base_url.removesuffix("/v1"), api_key=Secret("k"), azure_version="2025-01-01"
        )
        model = OpenAIModel("my-deployment", endpoint, profile=Profile())
        assert (await model.complete(HELLO, Watcher())).message.text == "hi"
        await model.aclose()
    assert server.requests[0].path == "/openai/deployments/my-deployment/chat/completions"
    assert server.requests[0].headers["api-key"] == "k"


async def test_estimates_learn_from_what_the_service_counts() -> None:
    long = Request(messages=(Message.user("some words of a text, 这是中文, 12345 and so on. " * 50),))
    with ScriptedServer([reply("x", usage={"prompt_tokens": 1_500, "completion_tokens": 1})]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile())
        before = model.estimate(long)
        await model.complete(long, Watcher())
        after = model.estimate(long)
        await model.aclose()
    assert abs(after - 1_500) < 50 < abs(before - 1_500)


def test_a_key_is_in_no_repr() -> None:
    assert "sk-secret" not in repr(Endpoint(api_key=Secret("sk-secret"), headers={"x": "sk-secret"}))


def test_profiles_are_chosen_by_name() -> None:
    assert profile_for("Qwen2.5-Coder-1.5B-Instruct").tool_mode == "code"
    assert profile_for("gpt-4o-mini").price is not None
    assert profile_for("o3-mini").temperature is None
    assert profile_for("never heard of it") == Profile()
