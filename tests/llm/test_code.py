"""The `code` form: Python in a fence is a call, words without a fence are an answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from handloom.agents import Agent
from handloom.journal import MemoryStore
from handloom.llm import code
from handloom.llm.model import Request
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Profile
from handloom.messages import Message, ToolCall, ToolResult, ToolSpec
from handloom.prompts import toolcall
from handloom.runs import Run
from handloom.testing.server import ScriptedServer, reply
from handloom.tools import tool

PYTHON = ToolSpec(
    name="python_execute",
    description="Run.",
    parameters={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)
LOOK = ToolSpec(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
END = ToolSpec(
    name="terminate",
    description="End.",
    parameters={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
)
TOOLS = (PYTHON, LOOK, END)


@pytest.mark.parametrize(
    ("text", "words", "program"),
    [
        ("```python\nprint(1)\n```", "", "print(1)"),
        ("I count.\n```python\nprint('你好 🎉')", "I count.", "print('你好 🎉')"),
        ("```py\na = 1\n```\nand then\n```python\nprint(a)\n```", "", "a = 1\nprint(a)"),
        ("```\nprint(1)\n```", "", "print(1)"),
        ("Run it:\n```\nprint(1)\n```\nIt prints:\n```\nall tests pass\n```", "Run it:", "print(1)"),
        ("```Python\nif 1:\n    print('\\n')\n```\nIt prints a line break.", "", "if 1:\n    print('\\n')"),
    ],
)
def test_a_block_is_run(text: str, words: str, program: str) -> None:
    said, calls = code.read_reply(text, TOOLS)
    assert (said, [(call.name, call.arguments) for call in calls]) == (words, [("python_execute", {"code": program})])


@pytest.mark.parametrize(
    "text",
    [
        "```python\n%%writefile data.txt\nline 0\nlin",
        "I write it.\n```py\nprint(1)\n``",
        "```\nprint(1)\n",
        "```python\na = 1\n```\nand then\n```python\nprint(a",
    ],
)
def test_the_beginning_of_a_program_is_not_run(text: str) -> None:
    assert code.read_reply(text, TOOLS, cut=True) == (text, [])


def test_a_whole_program_is_run_though_the_words_behind_it_were_cut() -> None:
    _, calls = code.read_reply("```python\nprint(1)\n```\nIt pri", TOOLS, cut=True)
    assert [call.arguments for call in calls] == [{"code": "print(1)"}]


@pytest.mark.parametrize(
    "text",
    [
        "The sum is 42.",
        "```python\n```",
        "`print(1)` prints 1",
        "It should print:\n```\nall tests pass\n```",
        "The sum:\n```\n42\n```",
        '```json\n{"a": 1}\n```',
    ],
)
def test_words_are_an_answer(text: str) -> None:
    assert code.read_reply(text, TOOLS) == (text, [])


def test_other_tools_are_called_with_json() -> None:
    said, calls = code.read_reply('Let me look.\n```json\n{"name": "look", "arguments": {"at": "门"}}\n```', TOOLS)
    assert said == "Let me look."
    assert [(call.name, call.arguments) for call in calls] == [("look", {"at": "门"})]


def test_the_conversation_reads_as_it_was_written() -> None:
    call = ToolCall(id="call00001", name="python_execute", arguments={"code": "print(1)"})
    messages = (
        Message.user("do"),
        Message.assistant("I print.", (call,)),
        Message.tool(call, ToolResult(text="1")),
        Message.user("go on"),
    )
    sent = code.format_messages("You act.", messages, TOOLS, Profile())
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == "I print.\n```python\nprint(1)\n```"
    assert sent[3]["content"] == "Output:\n1\n\ngo on"
    assert '"name": "look"' in sent[0]["content"]
    assert "terminate" not in sent[0]["content"], "a plain answer ends the run"


@pytest.mark.anyio
async def test_a_request_stops_at_the_end_of_the_block() -> None:
    async def ignore(_event: object) -> None: ...

    with ScriptedServer([reply("Counting.\n```python\nprint(2)")]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode="code"))
        got = await model.complete(Request(system="s", messages=(Message.user("x"),), tools=TOOLS), ignore)
        await model.aclose()
    assert server.requests[0].body["stop"] == ["\n```\n\n"]
    assert "tools" not in server.requests[0].body
    assert (got.mode, got.message.text, got.message.tool_calls[0].arguments) == (
        "code",
        "Counting.",
        {"code": "print(2)"},
    )


@pytest.mark.anyio
async def test_a_program_cut_at_the_length_limit_is_asked_for_again(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effects={"execute"})
    def python_execute(code: str) -> str:
        """Run."""
        ran.append(code)
        return "done"

    beginning = "```python\n%%writefile data.txt\nline 0\nlin"
    with ScriptedServer([reply(beginning, finish="length"), reply("It is too long.")]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode="code"))
        agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(python_execute,))
        run = await Run.start("Write it.", store=MemoryStore(), workspace=tmp_path)
        result = await run.complete(agent.run)
        await model.aclose()
    assert (result.answer, ran) == ("It is too long.", [])
    assert "cut off at the length limit" in server.requests[1].body["messages"][-1]["content"]


@pytest.mark.anyio
async def test_a_reply_that_must_act_is_begun_where_the_service_goes_on_from_it() -> None:
    async def ignore(_event: object) -> None: ...

    request = Request(system="s", messages=(Message.user("x"),), tools=TOOLS, act=True)
    with ScriptedServer([reply("print(2)\n"), reply("```python\nprint(3)")]) as server:
        for prefill in (True, False):
            endpoint = Endpoint(base_url=server.base_url, prefill=prefill)
            model = OpenAIModel("m", endpoint, profile=Profile(tool_mode="code"))
            got = await model.complete(request, ignore)
            assert got.message.tool_calls[0].arguments == {"code": "print(2)" if prefill else "print(3)"}
            await model.aclose()
    begun, plain = (sent.body["messages"][-1] for sent in server.requests)
    assert begun == {"role": "assistant", "content": "```python\n"}
    assert plain["role"] == "user"


def test_a_native_request_that_must_act_requires_a_tool() -> None:
    model = OpenAIModel("m", profile=Profile(tool_mode="native"))
    request = Request(messages=(Message.user("x"),), tools=TOOLS)
    assert "tool_choice" not in model.body(request)
    assert model.body(replace(request, act=True))["tool_choice"] == "required"


@pytest.mark.anyio
async def test_tools_with_actions_are_called_by_schema_and_code_in_a_fence() -> None:
    async def ignore(_event: object) -> None: ...

    action = ToolSpec(name="browse", description="Browse.", parameters=LOOK.parameters, variants=(LOOK.parameters,))
    said = [reply('{"name": "browse", "arguments": {"at": "门"}}'), reply("```python\nprint(1)\n```")]
    with ScriptedServer(said) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode="code", dialect="qwen"))
        messages = (Message.user("Look at the door."),)
        bound = await model.complete(Request(system="s", messages=messages, tools=(PYTHON, action, END)), ignore)
        fenced = await model.complete(Request(system="s", messages=messages, tools=TOOLS), ignore)
        await model.aclose()
    assert [(reply.mode, reply.message.tool_calls[0].name) for reply in (bound, fenced)] == [
        ("structured", "browse"),
        ("code", "python_execute"),
    ]
    assert "response_format" in server.requests[0].body
    assert "response_format" not in server.requests[1].body
