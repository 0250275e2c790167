import json

import pytest

from handloom.errors import ConfigError, ToolError
from handloom.testing.tools import FakeContext
from handloom.toolbox.ask_human import ask_human
from handloom.toolbox.editor import str_replace_editor
from handloom.toolbox.python import python_execute
from handloom.toolbox.terminate import terminate, terminate_tool

pytestmark = pytest.mark.anyio

ORDER = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["items"],
    "$defs": {"Item": {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}},
}


@pytest.fixture
def context(tmp_path) -> FakeContext:
    return FakeContext(tmp_path)


@pytest.mark.parametrize("status", ["success", "failure"])
async def test_the_answer_is_the_result(context: FakeContext, status: str):
    result = await terminate_tool().run({"status": status, "answer": "42 Äpfel"}, context)
    assert result.ok
    assert result.text == "42 Äpfel"


@pytest.mark.parametrize("arguments", [{}, {"status": "done", "answer": "x"}, {"status": "success"}, {"answer": "x"}])
@pytest.mark.parametrize("schema", [None, ORDER])
async def test_wrong_arguments_are_refused(context: FakeContext, arguments: dict, schema: dict | None):
    with pytest.raises(ToolError, match=r"status|answer"):
        await terminate_tool(schema).run(arguments, context)


@pytest.mark.parametrize(
    "answer", [{"items": [{"price": 1.5}]}, '{"items": [{"price": 1.5}]}', '\n{"items":[{"price":1.5}]} ']
)
async def test_an_answer_that_fits_the_schema_is_json_also_when_it_comes_as_text(context: FakeContext, answer: object):
    result = await terminate_tool(ORDER).run({"status": "success", "answer": answer}, context)
    assert json.loads(result.text) == {"items": [{"price": 1.5}]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"items": [{"price": "a"}]}, r'answer\.items\.0\.price: "a" is not of type "number"'),
        ('{"items": [{}]}', r'answer\.items\.0: "price" is a required property'),
        ("three apples", r'answer: "three apples" is not of type "object"'),
        ({"items": ["x"] * 50}, r"answer\.items\.4: .*; and more$"),
        ({"items": "x" * 10_000}, r"^.{1,400}$"),
    ],
)
async def test_an_answer_that_does_not_fit_names_the_place_and_the_reason(
    context: FakeContext, answer: object, reason: str
):
    with pytest.raises(ToolError, match=reason):
        await terminate_tool(ORDER).run({"status": "success", "answer": answer}, context)


async def test_a_failure_may_be_told_in_words(context: FakeContext):
    assert (await terminate_tool(ORDER).run({"status": "failure", "answer": "no prices"}, context)).text == "no prices"


@pytest.mark.parametrize(
    ("schema", "answer", "text"),
    [({"type": "integer"}, "5", "5"), ({"type": "string"}, "5", "5"), ({"type": "array"}, [1, "ä"], '[1, "ä"]')],
)
async def test_schemas_of_other_types_work(context: FakeContext, schema: dict, answer: object, text: str):
    assert (await terminate_tool(schema).run({"status": "success", "answer": answer}, context)).text == text


def test_the_model_reads_the_schema_with_references_that_lead_somewhere():
    parameters = terminate_tool(ORDER).parameters
    assert parameters["properties"]["answer"]["properties"] == ORDER["properties"]
    assert parameters["$defs"] == ORDER["$defs"]
    assert parameters["required"] == ["status", "answer"]


@pytest.mark.parametrize(
    "schema", [{"type": "nope"}, {"$ref": "https://example.com/x.json"}, {"$ref": "#/$defs/missing"}]
)
def test_a_schema_that_is_none_or_would_be_fetched_is_refused(schema: dict):
    with pytest.raises(ConfigError, match="output schema"):
        terminate_tool(schema)


def test_the_four_tools_cost_few_tokens():
    """A rule of thumb: four characters of JSON are a token."""
    tools = (python_execute, str_replace_editor, ask_human, terminate)
    said = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    assert len(json.dumps(said, separators=(",", ":"))) / 4 <= 420
