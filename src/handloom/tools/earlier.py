"""Earlier calls of a tool, for tools whose state follows from what was called before."""

from collections.abc import Iterable

from handloom.messages import Json, Message


def successful(messages: Iterable[Message], name: str) -> list[Json]:
    """The arguments of the calls of a tool that have succeeded, in the order of their results."""
    asked: dict[str, Json] = {}
    found: list[Json] = []
    for message in messages:
        asked |= {call.id: call.arguments for call in message.tool_calls}
        if message.role == "tool" and message.name == name and message.ok and message.call_id in asked:
            found.append(asked[message.call_id])
    return found
