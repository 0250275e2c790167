"""Memory: what an agent has said and seen, folded from events, and the window of it that a model is shown.

Three marks decide the window, and only a `context.compacted` event moves them, so between two compactions every request extends the one before it
(a model's prefix cache keeps working) and a resumed run sees what the first one saw.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from handloom.events import ContextCompacted, Event, MessageAdded, ModelReplied, RunStarted, ToolReturned
from handloom.messages import Message, TextPart, ToolCall, ToolResult

TERMINATE = "terminate"
SHORT = 300  # characters of an old tool result that stay visible
FULL, TARGET, FRESH = (
    0.8,
    0.5,
    0.15,
)  # of the token budget: when to compact, down to what, and how much may be tool results in full

Round = tuple[tuple[str, str, str, bool], ...]  # (tool, arguments, result, ok) of each call of a reply
Measure = Callable[[Sequence[Message]], int]


@dataclass(frozen=True)
class Answer:
    """How an agent ended: its own verdict and its final words."""

    text: str
    status: Literal["success", "failure"] = "success"


@dataclass(frozen=True)
class Compaction:
    """A proposed move of the window's marks; `summarise` says that a model should write down what is dropped."""

    shrink_to: int
    drop_to: int
    keep: int = SHORT
    summarise: bool = False


class Memory:
    """The messages of one agent. Changed by `apply` alone."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.shrink_to = 0
        self.drop_to = 0
        self.keep = SHORT
        self.summary = ""
        self.calls_made = 0
        self._finish = ""
        self._task = -1
        self._rounds: deque[Round] = deque(maxlen=12)
        self._returned: dict[str, ToolResult] = {}  # results of the round that is under way
        self._anchor: tuple[int, int] | None = None  # (messages, tokens) of the last request and its reply together

    def apply(self, event: Event) -> None:
        """Take in what an event says of the conversation; other events change nothing."""
        match event:
            case RunStarted(task=task, images=images):
                self._add(Message.user(task, origin="task", images=images))
            case MessageAdded(message=message):
                self._add(message)
            case ModelReplied(message=message, usage=usage, finish=finish):
                self.messages.append(message)
                self.calls_made += len(message.tool_calls)
                self._finish = finish
                self._anchor = (len(self.messages), usage.total_tokens) if usage.prompt_tokens else None
            case ToolReturned(call=call, result=result):
                self.messages.append(Message.tool(call, result))
                self._count_round(call, result)
            case ContextCompacted():
                self.shrink_to, self.drop_to, self.keep = event.shrink_to, event.drop_to, event.keep
                self.summary = event.summary or self.summary
                self._anchor = None
            case _:
                pass

    def _add(self, message: Message) -> None:
        if message.origin == "task":
            self._task = len(self.messages)
            self._rounds.clear()
        self.messages.append(message)

    def _count_round(self, call: ToolCall, result: ToolResult) -> None:
        """Keep the calls and results of a reply, in the order of its calls, once all have returned; an end that was not taken is no work."""
        self._returned[call.id] = result
        asked = next((message.tool_calls for message in reversed(self.messages) if message.role == "assistant"), ())
        if all(made.id in self._returned for made in asked) and any(made.name != TERMINATE for made in asked):
            returned = [(made, self._returned[made.id]) for made in asked]
            self._rounds.append(
                tuple((made.name, made.arguments_json, result.text, result.ok) for made, result in returned)
            )
            self._returned.clear()

    # What the loop asks

    def pending_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no result yet, in order."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role == "tool":
                answered.add(message.call_id)
            elif message.role == "assistant":
                return tuple(call for call in message.tool_calls if call.id not in answered)
        return ()

    def answer(self) -> Answer | None:
        """The end, if it has come: `terminate` has returned, or the last reply is plain text that was not cut off."""
        if not self.messages:
            return None
        last = self.messages[-1]
        if last.role == "assistant":
            return Answer(last.text) if last.text.strip() and not last.tool_calls and self._finish != "length" else None
        if last.role == "tool" and not self.pending_calls():
            return self._terminated()
        return None

    def said_nothing(self) -> bool:
        """Whether the last reply holds neither a call nor a complete answer."""
        return (
            bool(self.messages)
            and self.messages[-1].role == "assistant"
            and not self.messages[-1].tool_calls
            and self.answer() is None
        )

    def was_cut(self) -> bool:
        """Whether the last reply ended at the output limit."""
        return self._finish == "length"

    def rounds(self) -> list[Round]:
        """The latest rounds of calls since the task, newest last, each with its results and so comparable; at most 12."""
        return list(self._rounds)

    def result(self, handle: str) -> Message | None:
        """The complete tool message of a call."""
        return next((message for message in reversed(self.messages) if message.call_id == handle), None)

    @property
    def task(self) -> Message | None:
        """The newest task: the one message that no window loses."""
        return self.messages[self._task] if self._task >= 0 else None

    def since_task(self) -> list[Message]:
        """The messages after the newest task."""
        return self.messages[self._task + 1 :]

    # What the model is shown

    def window(self, *, all_next_steps: bool = False) -> list[Message]:
        """The messages of the next request: the task, a summary of what was dropped, then whole turns.

        Only the newest next-step prompt is shown (unless `all_next_steps`), and only the newest image that is not part of a task.
        """
        return self._window(self.shrink_to, self.drop_to, self.keep, self.summary, all_next_steps=all_next_steps)

    def has_short_results(self) -> bool:
        """Whether the window shows a result that could be read again in full."""
        return (
            any(m.role == "tool" and len(m.text) > self.keep for m in self.messages[self.drop_to : self.shrink_to])
            or self.drop_to > 0
        )

    def size(self, measure: Measure) -> int:
        """Tokens of the next request: what the last one cost, plus an estimate of what came after it."""
        if self._anchor is None:
            return measure(self.window())
        count, tokens = self._anchor
        added = self.messages[count:]
        return tokens + (measure(added) - measure(()) if added else 0)

    def compaction(self, measure: Measure, budget: int, max_messages: int) -> Compaction | None:
        """How to move the marks so that the next request fits, or None when it does and saves enough already.

        First old tool results are shortened, then old turns are dropped, each down to a target well below the budget, so that it happens
        seldom; what cannot be dropped is shortened until it fits. `measure(messages)` gives the tokens of a whole request with these messages.
        """
        turns = [at for at in self._turns() if at > self.drop_to]
        if self._shown(self.drop_to) > max_messages and turns:
            start = next((at for at in turns if self._shown(at) <= max_messages // 2), turns[-1])
            return Compaction(self.shrink_to, start, self.keep)
        size = self.size(measure)
        if size <= FULL * budget:
            return self._thrift(turns, budget)
        return self._fit(turns, measure, budget)

    def digest(self, drop_to: int, limit: int = 2_000) -> str:
        """A mechanical account of the messages between the old mark and `drop_to`: each call, its outcome and its first words."""
        lines = [line for message in self.messages[self.drop_to : drop_to] for line in _account(message)]
        text = "\n".join(filter(None, [self.summary, *lines]))
        return text if len(text) <= limit else f"{text[: limit // 4]}\n[...]\n{text[-(limit - limit // 4) :]}"

    def _terminated(self) -> Answer | None:
        for message in reversed(self.messages):
            if message.role == "tool" and message.name == TERMINATE and message.ok:
                call = next(
                    (call for m in reversed(self.messages) for call in m.tool_calls if call.id == message.call_id), None
                )
                status = call.arguments.get("status") if call else None
                return Answer(message.text, "failure" if status == "failure" else "success")
            if message.role == "assistant":
                break
        return None

    def _shown(self, start: int) -> int:
        """How many messages from `start` on count for the window; next-step prompts come and go and do not."""
        return sum(1 for message in self.messages[start:] if message.origin != "next_step")

    def _turns(self) -> list[int]:
        """Where each turn starts: at the message after the results of the last one."""
        starts: list[int] = []
        for at, message in enumerate(self.messages[self.drop_to :], self.drop_to):
            before = self.messages[at - 1] if at else None
            if (
                before is not None
                and message.role != "tool"
                and (before.role == "tool" or (before.role == "assistant" and not before.tool_calls))
            ):
                starts.append(at)
        return starts

    def _thrift(self, turns: list[int], budget: int) -> Compaction | None:
        """Shorten tool results once those in full are more than a share of the budget: most of them are never needed again."""
        lengths = [
            (at, len(m.text))
            for at, m in enumerate(self.messages[self.shrink_to :], self.shrink_to)
            if m.role == "tool"
        ]
        room = int(FRESH * budget * 3)  # about three characters a token
        if sum(length for _, length in lengths) <= room or not turns:
            return None
        kept, start = 0, turns[-1]
        for at, length in reversed(lengths):
            kept += length
            if kept > room // 2:
                break
            start = min(start, at)
        start = max((turn for turn in turns if turn <= start), default=turns[-1])
        worth = start > self.shrink_to and any(length > 2 * SHORT for at, length in lengths if at < start)
        return Compaction(start, self.drop_to) if worth else None

    def _fit(self, turns: list[int], measure: Measure, budget: int) -> Compaction | None:
        target = int(TARGET * budget)
        newest = turns[-1] if turns else len(self.messages)
        keep = SHORT
        shrink = max(self.shrink_to, turns[-2] if len(turns) > 1 else newest)
        if shrink > self.shrink_to and self._measured(measure, shrink, self.drop_to, keep) <= target:
            return Compaction(shrink, self.drop_to)
        reserve = 700  # tokens a summary may take
        for drop in [at for at in turns if at > self.drop_to]:
            if self._measured(measure, shrink, drop, keep) + reserve <= target:
                return Compaction(max(shrink, drop), drop, summarise=True)
        drop = max(newest if turns else 0, self.drop_to)
        if drop > self.drop_to and self._measured(measure, shrink, drop, keep) + reserve <= FULL * budget:
            return Compaction(max(shrink, drop), drop, summarise=True)
        keep = 4 * budget
        while keep > 100 and self._measured(measure, len(self.messages), drop, keep) + reserve > FULL * budget:
            keep //= 2
        if (len(self.messages), drop, keep) == (self.shrink_to, self.drop_to, self.keep):
            return None
        return Compaction(len(self.messages), drop, keep, summarise=drop > self.drop_to)

    def _measured(self, measure: Measure, shrink: int, drop: int, keep: int) -> int:
        return measure(self._window(shrink, drop, keep, self.summary if drop == self.drop_to else ""))

    def _window(
        self, shrink: int, drop: int, keep: int, summary: str, *, all_next_steps: bool = False
    ) -> list[Message]:
        shown: list[Message] = []
        if 0 <= self._task < drop:
            shown.append(self.messages[self._task])
        if drop and summary:
            shown.append(Message.user(f"Earlier turns, in short:\n{summary}", origin="summary"))
        recent = self.messages[drop:]
        next_step = next((at for at in range(len(recent) - 1, -1, -1) if recent[at].origin == "next_step"), -1)
        picture = next(
            (at for at in range(len(recent) - 1, -1, -1) if recent[at].images and recent[at].origin != "task"), -1
        )
        for at, message in enumerate(recent):
            if message.origin == "next_step" and at != next_step and not all_next_steps:
                continue
            if message.role == "tool" and drop + at < shrink:
                message = _short(message, keep)  # noqa: PLW2901 - the same message, shown short
            if message.images and message.origin != "task" and at != picture:
                message = _blind(message)  # noqa: PLW2901 - the same message, without its old picture
            shown.append(message)
        return shown


def _short(message: Message, keep: int) -> Message:
    text = message.text
    if len(text) <= keep:
        return message
    head = keep * 2 // 3
    note = f'\n[... {len(text) - keep:,} characters left out; read_result("{message.call_id}") shows them ...]\n'
    return msgspec.structs.replace(
        message, parts=(TextPart(text=text[:head] + note + text[len(text) - (keep - head) :]), *message.images)
    )


def _blind(message: Message) -> Message:
    return msgspec.structs.replace(message, parts=(TextPart(text=message.text or "[an earlier image]"),))


def _account(message: Message) -> list[str]:
    match message.role:
        case "assistant":
            said = [f"said: {_first(message.text)}"] if message.text.strip() else []
            return said + [f"called {call.name} {_first(call.arguments_json)}" for call in message.tool_calls]
        case "tool":
            return [f"-> {'' if message.ok else 'failed: '}{_first(message.text)}"]
        case _:
            return [f"asked: {_first(message.text)}"] if message.origin == "task" else []


def _first(text: str, length: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."
