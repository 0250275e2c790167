"""From neutral messages to Chat Completions, and nothing back: the form of a request in native tool mode."""

import json
import re
from collections.abc import Container, Iterable, Sequence

from handloom.llm.profiles import Profile
from handloom.messages import ImagePart, Json, Message, ToolCall, ToolSpec

NAME_CHARS = 64
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


def format_messages(
    system: str, messages: Sequence[Message], tools: Iterable[ToolSpec], profile: Profile
) -> list[Json]:
    """Provider dicts in order, the system prompt first. Images become `image_url` parts only for models that take them.

    A tool's image follows its group of results as a user message, since the format allows text alone in a result.
    """
    out: list[Json] = [{"role": "system", "content": system}] if system else []
    known = {tool.name for tool in tools}
    pictures: list[ImagePart] = []
    for message in messages:
        if pictures and message.role != "tool":
            out.append({"role": "user", "content": content("(image of the result above)", pictures, profile)})
            pictures = []
        match message.role:
            case "user":
                out.append({"role": "user", "content": content(message.text, message.images, profile)})
            case "assistant":
                out.append(_assistant(message, known, profile))
            case "tool":
                out.append({"role": "tool", "tool_call_id": message.call_id, "content": message.text})
                pictures += message.images if profile.vision else ()
    if pictures:
        out.append({"role": "user", "content": content("(image of the result above)", pictures, profile)})
    return out


def content(text: str, images: Iterable[ImagePart], profile: Profile) -> str | list[Json]:
    """A plain string, or parts where there are images to show."""
    shown = list(images) if profile.vision else []
    if not shown:
        return text
    return [
        {"type": "text", "text": text},
        *({"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.data}"}} for image in shown),
    ]


def format_tools(tools: Iterable[ToolSpec]) -> list[Json]:
    """Tools in the order given, which the caller keeps stable for the sake of prefix caches."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def tool_line(tool: ToolSpec) -> str:
    """A tool as one line of JSON, for prompts that list tools."""
    return json.dumps(format_tools([tool])[0], ensure_ascii=False)


def merged(out: list[Json], new: str | list[Json]) -> None:
    """Add to the last message when it is the user's too: strict chat templates want roles to alternate."""
    if out[-1]["role"] != "user":
        out.append({"role": "user", "content": new})
        return
    before = out[-1]["content"]
    if isinstance(before, str) and isinstance(new, str):
        out[-1]["content"] = f"{before}\n\n{new}"
    else:
        out[-1]["content"] = [*_parts(before), *_parts(new)]


def _parts(value: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def sent_name(name: str, known: Container[str]) -> str:
    """The name of a call, made one that services take where no tool has it: they refuse a conversation that holds any other, even the model's own."""
    return name if name in known else _REFUSED.sub("_", name)[:NAME_CHARS] or "unnamed"


def sent_arguments(call: ToolCall) -> str:
    """The arguments as valid JSON: services refuse a conversation that holds a broken call, even the model's own."""
    if call.error:
        return json.dumps({"unreadable": call.raw[:200]}, ensure_ascii=False)
    return call.arguments_json


def _assistant(message: Message, known: Container[str], profile: Profile) -> Json:
    out: Json = {"role": "assistant", "content": message.text or None}
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": sent_name(call.name, known), "arguments": sent_arguments(call)},
            }
            for call in message.tool_calls
        ]
    elif not message.text:
        out["content"] = "(empty)"  # some services refuse an assistant message with nothing in it
    if profile.sends_reasoning_back and message.thinking:
        out["reasoning_content"] = message.thinking
    return out
