"""How many tokens a request will cost, without a tokenizer.

Words, digits, CJK and punctuation are counted apart, and the count is scaled by what the model's own replies have reported so far.
The loop anchors on the last reply's `usage` and asks only for what was added since, so errors do not add up.
"""

import json
import re
from functools import lru_cache

from handloom.messages import Message, ToolSpec

_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
IMAGE = 1_000  # tokens of a 1280x720 picture, roughly, in the services that publish a rule
PER_MESSAGE = 4  # role and separators in the common chat templates
ENOUGH = 4  # reports to learn from
COLD = 1.1  # margin before anything was learned


@lru_cache(maxsize=512)
def count(text: str) -> float:
    """Tokens of a text, by the pieces it is made of: words, digits, CJK, line breaks, marks."""
    words = _WORD.findall(text)
    letters = sum(map(len, words))
    digits = sum(map(text.count, "0123456789"))
    blanks, breaks = text.count(" "), text.count("\n")
    cjk = 0 if text.isascii() else len(_CJK.findall(text))
    rest = len(text) - letters - digits - blanks - breaks - cjk
    return len(words) + max(0, letters - 5 * len(words)) / 5 + 0.7 * digits + 0.75 * cjk + breaks + 0.7 * rest


class Meter:
    """Estimates that learn one ratio from a model's reports."""

    def __init__(self) -> None:
        self.ratio = COLD
        self._reports = 0

    def request(self, system: str, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> int:
        """Tokens of a whole request."""
        return int(_raw(system, messages, tools) * self.ratio) + PER_MESSAGE

    def learn(self, system: str, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...], reported: int) -> None:
        """Take in what a service counted for a request. After a few reports the ratio stands, and no more time is spent on it."""
        if self._reports >= ENOUGH or reported <= 0:
            return
        raw = _raw(system, messages, tools)
        if raw < 50:
            return
        seen = min(2.0, max(0.5, reported / raw))
        self._reports += 1
        self.ratio += (seen - self.ratio) / self._reports


def _raw(system: str, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> float:
    return count(system) + sum(_message(message) for message in messages) + sum(_tool(tool) for tool in tools)


def _message(message: Message) -> float:
    calls = sum(count(call.name) + count(call.arguments_json) + 8 for call in message.tool_calls)
    return count(message.text) + calls + IMAGE * len(message.images) + PER_MESSAGE


def _tool(tool: ToolSpec) -> float:
    return count(tool.name) + count(tool.description) + count(json.dumps(tool.parameters, ensure_ascii=False)) + 10
