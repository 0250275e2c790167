"""The model layer against a service that behaves as the real ones do on bad days."""

import time
from dataclasses import replace

import pytest

from handloom.errors import ContextOverflowError, ModelRefusedError, ModelUnavailableError
from handloom.events import Event, ModelDelta, ModelRetried, WarningRaised
from handloom.llm.fallback import FallbackModel
from handloom.llm.model import Reply, Request
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Price, Profile, profile_for
from handloom.messages import ImagePart, Message, ToolSpec
from handloom.redaction import Secret
from handloom.testing.server import ScriptedServer, Step, body, call, cut, error, hang, reply
from handloom.testing.steps import Reply as Scripted

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
HELLO = Request(system="Be brief.", messages=(Message.user("hello"),))
WITH_TOOL = replace(HELLO, tools=(ADD,))


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
