import collections
import json
import signal
import subprocess
import sys
import time

import httpx2
import msgspec
import openai
import pytest
from openai import OpenAI

from handloom.testing.server import ScriptedServer, body, call, cut, error, hang, load, reply
from handloom.testing.steps import Script

QUESTION = [{"role": "user", "content": "hi"}]


def client(server, **options):
    return OpenAI(base_url=server.base_url, api_key="none", **{"max_retries": 0, **options})


def ask(server, **options):
    with client(server) as connection:
        return connection.chat.completions.create(model="m", messages=QUESTION, **options)


def stream(server, **options):
    with client(server) as connection:
        return list(connection.chat.completions.create(model="m", messages=QUESTION, stream=True, **options))


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_text_comes_back_plain_and_streamed():
    with ScriptedServer([reply("hello there"), reply("hello there", chunks=4)]) as server:
        answer = ask(server)
        chunks = stream(server)
    assert answer.choices[0].message.content == text_of(chunks) == "hello there"
    assert answer.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "stop"
    assert len([chunk for chunk in chunks if chunk.choices[0].delta.content]) == 4


def test_calls_come_back_with_unique_ids_plain_and_streamed():
    calls = [("bash", {"command": "ls"}), call("edit", "{broken", id="mine")]
    with ScriptedServer([reply(calls=calls), reply("and text", calls=calls)]) as server:
        plain = ask(server).choices[0]
        chunks = stream(server)
    made = {}
    for delta in (delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or ()):
        entry = made.setdefault(delta.index, ["", "", ""])
        for place, piece in enumerate((delta.id, delta.function.name, delta.function.arguments)):
            entry[place] += piece or ""
    assert [(item.id, item.function.name, item.function.arguments) for item in plain.message.tool_calls] == [
        ("call_1_0", "bash", '{"command": "ls"}'),
        ("mine", "edit", "{broken"),
    ]
    assert list(made.values()) == [["call_2_0", "bash", '{"command": "ls"}'], ["mine", "edit", "{broken"]]
    assert plain.finish_reason == chunks[-1].choices[0].finish_reason == "tool_calls"


def test_ids_and_the_index_of_deltas_can_be_left_out():
    with ScriptedServer([reply(calls=[call("bash", {}, id="")], index=False)]) as server:
        (delta,) = (delta for chunk in stream(server) for delta in chunk.choices[0].delta.tool_calls or ())
    assert (delta.id, delta.index, delta.function.arguments) == (None, None, "{}")


def test_reasoning_usage_finish_and_vendor_fields_are_sent():
    step = reply("4", reasoning="2+2", finish="length", cached_tokens=7, extra={"timings": {"cache_n": 7}})
    with ScriptedServer([step, step]) as server:
        plain = ask(server)
        chunks = stream(server, stream_options={"include_usage": True})
    assert plain.choices[0].message.reasoning_content == chunks[1].choices[0].delta.reasoning_content == "2+2"
    assert plain.choices[0].finish_reason == "length"
    assert plain.usage.prompt_tokens_details.cached_tokens == chunks[-1].usage.prompt_tokens_details.cached_tokens == 7
    assert plain.usage.prompt_tokens == server.requests[0].size // 4
    assert plain.timings == chunks[-1].timings == {"cache_n": 7}


def test_usage_can_be_given_and_is_streamed_only_when_asked_for():
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    with ScriptedServer([reply("a", usage=usage), reply("a", usage=usage)]) as server:
        assert ask(server).usage.total_tokens == 11
        assert all(chunk.usage is None for chunk in stream(server))


def test_an_empty_reply_is_a_reply():
    with ScriptedServer([reply(), reply()]) as server:
        assert ask(server).choices[0].message.content is None
        assert text_of(stream(server)) == ""


def test_an_error_carries_its_code_and_headers():
    with ScriptedServer(
        [error(400, "context_length_exceeded", "too long"), error(429, headers={"x-seen": "1"}, retry_after=0.01)]
    ) as server:
        with pytest.raises(openai.BadRequestError, match="too long") as refused:
            ask(server)
        with pytest.raises(openai.RateLimitError) as limited:
            stream(server)
    assert refused.value.code == "context_length_exceeded"
    assert limited.value.response.headers["retry-after"] == "0.01"
    assert limited.value.response.headers["x-seen"] == "1"


def test_a_client_that_retries_reaches_the_next_step():
    with (
        ScriptedServer([error(429, retry_after=0.01), error(503, retry_after=0.01), reply("late")]) as server,
        client(server, max_retries=2) as connection,
    ):
        answer = connection.chat.completions.create(model="m", messages=QUESTION)
    assert answer.choices[0].message.content == "late"
    assert len(server.requests) == 3


def test_a_cut_stream_gives_its_first_chunks_and_then_a_connection_error():
    with (
        ScriptedServer([cut(reply("abcdef", chunks=3), after_chunks=3), cut()]) as server,
        client(server) as connection,
    ):
        seen = collections.deque()
        with pytest.raises(openai.APIConnectionError):
            seen.extend(connection.chat.completions.create(model="m", messages=QUESTION, stream=True))
        with pytest.raises(openai.APIConnectionError):
            connection.chat.completions.create(model="m", messages=QUESTION)
    assert text_of(seen) == "abcd"


def test_a_hanging_stream_runs_into_the_clients_timeout():
    with (
        ScriptedServer([hang(60, "two words", after_chunks=2), hang(60)]) as server,
        client(server, timeout=0.2) as connection,
    ):
        seen = collections.deque()
        with pytest.raises((openai.APITimeoutError, httpx2.ReadTimeout)):
            seen.extend(connection.chat.completions.create(model="m", messages=QUESTION, stream=True))
        with pytest.raises(openai.APITimeoutError):
            connection.chat.completions.create(model="m", messages=QUESTION)
    assert text_of(seen) == "two w"


def test_a_delay_is_waited_for_before_each_chunk():
    with ScriptedServer([reply("ab", chunks=2, delay=0.02)]) as server:
        begun = time.monotonic()
        assert text_of(stream(server)) == "ab"
    assert time.monotonic() - begun >= 0.08


def test_a_body_is_sent_as_it_is():
    page, fault = body("<html>gateway</html>"), body(b'{"error": {"message": "no"}}', content_type="application/json")
    with ScriptedServer([page, fault]) as server:
        assert ask(server) == "<html>gateway</html>"
        assert ask(server).choices is None


def test_the_end_of_the_script_is_a_fault():
    with (
        ScriptedServer([]) as server,
        pytest.raises(openai.InternalServerError, match="the script ended before request 1"),
    ):
        ask(server)
    assert server.faults == ["the script ended before request 1"]


def test_a_function_answers_by_the_request_and_its_fault_is_kept():
    with ScriptedServer(lambda request: reply(request["messages"][-1]["content"] + request["extra"])) as server:
        assert ask(server, extra_body={"extra": "!"}).choices[0].message.content == "hi!"
        with pytest.raises(openai.InternalServerError, match="KeyError"):
            ask(server)
    assert server.faults == ["the script failed at request 2: KeyError('extra')"]


def test_requests_are_recorded_and_a_connection_is_kept():
    ports = set()
    with ScriptedServer(Script(steps=(reply("a"),), repeat=True)) as server, httpx2.Client() as connection:
        for number in range(3):
            with connection.stream(
                "POST", f"{server.base_url}/chat/completions", json={"n": number}, headers={"X-Key": "k"}
            ) as response:
                ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
                response.read()
    assert [request.body["n"] for request in server.requests] == [0, 1, 2]
    assert server.requests[0].headers["x-key"] == "k"
    assert server.requests[0].path == "/v1/chat/completions"
    assert len(ports) == 1


def test_models_are_listed_and_other_paths_are_not_found():
    with ScriptedServer([], models=("one", "two")) as server, client(server) as connection:
        assert [model.id for model in connection.models.list()] == ["one", "two"]
        with pytest.raises(openai.NotFoundError):
            connection.embeddings.create(model="one", input="x")
    assert server.requests == []


def test_a_request_that_is_no_json_is_refused_and_uses_no_step():
    with ScriptedServer([reply("a")]) as server:
        refused = httpx2.post(f"{server.base_url}/chat/completions", content=b"[1")
        assert refused.status_code == 400
        assert ask(server).choices[0].message.content == "a"
    assert server.faults == ["the request's body is no JSON object"]


def test_many_requests_are_served_at_once():
    with (
        ScriptedServer(Script(steps=(reply("abc", chunks=3, delay=0.01),), repeat=True)) as server,
        client(server) as connection,
    ):
        streams = [connection.chat.completions.create(model="m", messages=QUESTION, stream=True) for _ in range(8)]
        assert [text_of(chunks) for chunks in streams] == ["abc"] * 8


def test_a_taken_port_is_said():
    with (
        ScriptedServer([]) as server,
        pytest.raises(OSError, match=f"port {server.port}"),
        ScriptedServer([], port=server.port),
    ):
        pass


def test_it_serves_a_file_in_a_process_of_its_own(tmp_path):
    script = tmp_path / "script.json"
    steps = [{"kind": "reply", "calls": [{"name": "bash", "arguments": "{}"}]}, {"kind": "error", "status": 429}]
    script.write_text(json.dumps({"steps": steps, "repeat": True}))
    command = [sys.executable, "-m", "handloom.testing.server", "--script", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        statuses = [httpx2.post(f"{url}/chat/completions", json={"model": "m"}).status_code for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10) == ("", "")
    assert statuses == [200, 429, 200]
    assert process.returncode == 0


def test_a_script_of_an_unknown_kind_is_refused():
    with pytest.raises(msgspec.ValidationError, match="sing"):
        load('[{"kind": "sing"}]')
