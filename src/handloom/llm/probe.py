"""Finding out what a model can do by asking it a handful of questions."""

from collections.abc import Callable
from dataclasses import dataclass

from handloom.errors import ModelError
from handloom.events import Event
from handloom.llm.model import Request
from handloom.llm.openai import OpenAIModel
from handloom.llm.profiles import ToolMode
from handloom.messages import ImagePart, Json, Message, ToolSpec

_TOOL = ToolSpec(
    name="report_number",
    description="Report a number to the user.",
    parameters={
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
        "additionalProperties": False,
    },
)
_SCHEMA: Json = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
# A red picture of one pixel: a model that takes images accepts it, one that does not refuses the request.
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`tool_mode` is the best way to offer tools; `speed` is tokens a second of a plain reply."""

    tool_mode: ToolMode
    json_schema: bool
    vision: bool
    speed: float
    notes: tuple[str, ...] = ()

    def remembered(self) -> Json:
        """The part of a profile that was found out."""
        return {"tool_mode": self.tool_mode, "json_schema": self.json_schema, "vision": self.vision}


async def probe(make: Callable[[ToolMode], OpenAIModel]) -> Findings:
    """Ask the models that `make` builds for each mode. Raises: ModelRefusedError, ModelUnavailableError when not even a plain reply comes."""
    plain = make("native")
    reply = await plain.complete(
        Request(messages=(Message.user("Count from 1 to 30, with commas."),), max_tokens=120), _ignore
    )
    speed = reply.usage.completion_tokens / reply.seconds if reply.seconds else 0.0
    native, note = await _calls_natively(make("native"))
    schema = await _obeys_schema(make("structured"))
    mode: ToolMode = "native" if native else "structured" if schema else "text"
    return Findings(
        tool_mode=mode,
        json_schema=schema,
        vision=await _sees(make("native")),
        speed=speed,
        notes=(note,) if note else (),
    )


async def _calls_natively(model: OpenAIModel) -> tuple[bool, str]:
    request = Request(messages=(Message.user("Report the number 7 with the tool."),), tools=(_TOOL,), max_tokens=200)
    try:
        reply = await model.complete(request, _ignore)
    except ModelError as error:
        return False, f"tools are refused: {error}"
    right = any(call.name == _TOOL.name and call.arguments == {"number": 7} for call in reply.message.tool_calls)
    if right and not model.calls_as_text:
        return True, ""
    return False, "calls come as text" if model.calls_as_text else "no call came for a request that needs one"


async def _obeys_schema(model: OpenAIModel) -> bool:
    from handloom.llm.repair import UnreadableError, read_object

    request = Request(
        messages=(Message.user("Is grass red or green? Answer in plain words."),), schema=_SCHEMA, max_tokens=60
    )
    try:
        reply = await model.complete(request, _ignore)
        return read_object(reply.message.text).keys() == {"colour"}
    except (ModelError, UnreadableError):
        return False


async def _sees(model: OpenAIModel) -> bool:
    picture = Message.user("Which colour is this? One word.", images=(ImagePart(data=_PIXEL),))
    try:
        reply = await model.complete(Request(messages=(picture,), max_tokens=10), _ignore)
    except ModelError:
        return False
    return bool(reply.message.text.strip())


async def _ignore(_event: Event) -> None:
    pass
