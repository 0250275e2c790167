"""What the loop tells a model that is about to go wrong, and when it gives up: pure decisions on memory."""

from collections.abc import Sequence

import msgspec

from handloom.errors import StuckError
from handloom.memory import TERMINATE, Memory, Round
from handloom.messages import Message, ToolCall

NOTED, FORCED = 3, 4  # rounds with the same calls and results
SETTLED = 2  # rounds that succeed with the same results after which a small model is asked for its answer
SILENT = 2  # empty or cut replies in a row that are forgiven
REJECTED = 2  # answers of the wrong form that are sent back
SHOWN = 300  # characters of an error that are said again

_FORM = """\
To change a file, reply with its whole new text:
```python
%%writefile NAME.py
...
```"""
_NOTHING_DONE = "Nothing has changed yet: no code was run and no file was written. Do the task now."
_MISSING = "Not yet: the task names files that are not there:"
_FAILED = "Not yet: your last call failed, and the task can still be done. Read its error, correct the call and make it again:"


def note(memory: Memory, *, settles: bool = False) -> str:
    """A word to the model before its next reply, or nothing. Raises: StuckError when words have not helped."""
    if memory.said_nothing():
        if silences(memory) > SILENT:
            raise StuckError(f"the model gave {SILENT + 1} replies in a row without an answer or a call")
        if memory.was_cut():
            return "Your reply was cut off at the length limit and nothing of it was used. Reply shorter: do a smaller step."
        return "Your reply was empty. Call a tool, or answer."
    if settles and settled(memory):
        return "You have done this, and you have seen its result. End with the answer."
    count = repeats(memory.rounds())
    if count >= NOTED:
        return f"You have done the same {count} times with the same result. It will not change: use what you know, do something else, or terminate."
    return ""


def withheld(memory: Memory, *, settles: bool = False) -> set[str]:
    """Tools that are not offered for one turn, because the model calls them again and again against advice, or does not see that it is done."""
    rounds = memory.rounds()
    if repeats(rounds) < FORCED and not (settles and settled(memory)):
        return set()
    return {name for name, *_ in rounds[-1]} - {TERMINATE}


def check_calls(memory: Memory, calls: Sequence[ToolCall]) -> None:
    """Raises: StuckError when a reply makes the very calls again that were withheld from it."""
    rounds = memory.rounds()
    if not withheld(memory) or [(call.name, call.arguments_json) for call in calls] != [
        made[:2] for made in rounds[-1]
    ]:
        return
    said = "; ".join(f"{name} {arguments} gave {result}" for name, arguments, result, _ in rounds[-1])[:300]
    raise StuckError(f"the agent made the same call {repeats(rounds) + 1} times and did not change its way: {said}")


def temperature(memory: Memory, usual: float) -> float | None:
    """Chance for a model that goes in circles: the more often it repeated itself or failed in a row, the more; None while it does well."""
    rounds = memory.rounds()
    failures = 0
    for made in reversed(rounds):
        if all(ok for *_, ok in made):
            break
        failures += 1
    doubted = 0
    for message in reversed(memory.since_task()):
        if message.role == "tool" and message.name != TERMINATE:
            break
        doubted += message.origin == "challenged"
    circles = max(repeats(rounds) - 1, failures - 1, doubted)
    return max(usual, min(1.0, 0.2 + 0.3 * circles)) if circles > 0 else None


def repeats(rounds: Sequence[Round]) -> int:
    """How often the latest round, or the latest pair or triple of rounds, has come in a row."""
    best = 1 if rounds else 0
    for period in (1, 2, 3):
        count = 1
        block = list(rounds[-period:])
        while (
            len(rounds) >= period * (count + 1)
            and list(rounds[-period * (count + 1) : len(rounds) - period * count]) == block
        ):
            count += 1
        best = max(best, count)
    return best


def settled(memory: Memory) -> bool:
    """Whether the latest calls, whatever they were, succeeded with the very results of those before: there is nothing new to see.

    A large model may be waiting for something; a small one writes the same file again and again instead of ending.
    """
    rounds = memory.rounds()[-SETTLED:]
    results = [[(result, ok) for _, _, result, ok in made] for made in rounds]
    last = next((message for message in reversed(memory.messages) if message.role == "tool"), None)
    return (
        len(rounds) == SETTLED
        and all(ok for _, ok in results[0])
        and results.count(results[0]) == SETTLED
        and last is not None
        and not last.silent
    )


def ended(memory: Memory, reply: Message) -> Message:
    """The reply, without calls that were withheld since all is done: its words are the answer then."""
    calls = {call.name for call in reply.tool_calls}
    if reply.text.strip() and settled(memory) and calls <= withheld(memory, settles=True):
        return msgspec.structs.replace(reply, tool_calls=())
    return reply


def silences(memory: Memory) -> int:
    """Replies at the end of memory that held nothing."""
    count = 0
    for message in reversed(memory.messages):
        if message.role == "tool" or message.tool_calls or message.origin in ("task", "rejected"):
            break
        count += message.role == "assistant"
    return count


def challenge(memory: Memory, most: int) -> str:
    """A word to a model that wants to end without having looked, right after a call that failed, or before it has seen anything; else nothing.

    It is said at most `most` times a task.
    """
    since = memory.since_task()
    asked = sum(message.origin == "challenged" for message in since)
    last = next((message for message in reversed(since) if message.role == "tool" and message.name != TERMINATE), None)
    if asked >= most:
        return ""
    match last:
        case None if not asked:
            return f"{_NOTHING_DONE} {_FORM}"
        case Message(ok=False, text=text):
            return f"{_FAILED}\n{_tail(text)}\n{_FORM}"
        case Message(silent=True, text=text):
            return f"Not yet: your last call showed nothing. {text}\nLook at the result first: print the file, or run the test."
        case _:
            return ""


def missing(memory: Memory, names: Sequence[str], most: int) -> str:
    """A word to a model that wants to end while files that the task names are not there, said once a task; else nothing."""
    asked = [message for message in memory.since_task() if message.origin == "challenged"]
    if not names or len(asked) >= most or any(message.text.startswith(_MISSING) for message in asked):
        return ""
    return f"{_MISSING} {', '.join(names)}. What the task wants written, write now. {_FORM}"


def _tail(text: str) -> str:
    """The end of a text, from the start of a line where it can be."""
    tail = text[-SHOWN:]
    return tail if len(text) <= SHOWN else tail.split("\n", 1)[-1]


def must_act(memory: Memory) -> bool:
    """Whether the model was just asked to look again: its next reply is to be a call."""
    newest = next((message for message in reversed(memory.messages) if message.origin != "next_step"), None)
    return newest is not None and newest.origin == "challenged"


def check_rejections(memory: Memory, problem: str) -> None:
    """Raises: StuckError when the answer has been sent back often enough."""
    count = sum(
        message.origin == "rejected" or (message.name == TERMINATE and not message.ok)
        for message in memory.since_task()
    )
    if count >= REJECTED:
        raise StuckError(f"the answer did not have the form asked for, {count + 1} times: {problem}")
