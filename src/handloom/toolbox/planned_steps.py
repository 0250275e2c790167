"""The steps of an agent's own plan, read from a list or from a text: what they say, and which earlier ones they need."""

import json
import re
from collections.abc import Iterable

from handloom.errors import ToolError
from handloom.messages import is_list
from handloom.plans import Step

MOST_STEPS, WORDS = 50, 500
_BULLET = re.compile(r"^\s*(?:[-*+•]\s+|(?:step\s*)?\d+\s*[.):、]\s*)?(?:\[[ x>!]\]\s*)?", re.IGNORECASE)
_NEEDS = re.compile(
    r"\s*[(\uff08](?:needs?|after|需要)[:\uff1a]?\s*((?:steps?\s*)?\d+(?:\s*(?:,|、|and)\s*\d+)*)\s*[)\uff09]\s*$",
    re.IGNORECASE,
)


def read_steps(given: list[str] | str) -> dict[str, Step]:
    """Steps by number, from `1` on. Raises: ToolError."""
    lines = _lines(given) if isinstance(given, str) else [" ".join(line.split()) for line in given]
    words = [line for line in (_BULLET.sub("", line, count=1).strip() for line in lines) if line]
    if not words:
        raise ToolError("the steps are empty; write at least one, each on a line of its own")
    if len(words) > MOST_STEPS:
        raise ToolError(f"{len(words)} steps are too many, at most {MOST_STEPS}; put small ones together")
    return {str(number): _step(number, line) for number, line in enumerate(words, 1)}


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _lines(text: str) -> list[str]:
    """The lines of a text; also of a list that was written as text."""
    if text.strip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            pass
        else:
            if is_list(found) and all(isinstance(line, str) for line in found):
                return [" ".join(line.split()) for line in found]
    return text.splitlines()


def _step(number: int, line: str) -> Step:
    match = _NEEDS.search(line)
    needs = re.findall(r"\d+", match[1]) if match else []
    wrong = [need for need in needs if not 1 <= int(need) < number]
    if wrong:
        raise ToolError(f"step {number} can need only earlier steps, and not {', '.join(wrong)}")
    return Step(prompt=(_NEEDS.sub("", line) if match else line)[:WORDS], needs=list(dict.fromkeys(needs)))
