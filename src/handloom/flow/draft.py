"""Draft: the small form in which a model writes a plan, closed so that a bound model can hardly write a wrong one, and read with patience from others.

A draft has steps with a name, a prompt, needs and tools, and nothing else; `drafted` makes real steps of them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from handloom.errors import FlowError
from handloom.flow.problems import Path, Problem
from handloom.llm.repair import UnreadableError, read_object
from handloom.messages import Json, is_list, is_object

NAME_CHARS, PROMPT_CHARS = 40, 1_200  # what a bound reply may hold
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_KEY = re.compile(r"step[_ ]?\d+", re.IGNORECASE)
_ALSO = {  # what models write for the keys of a step
    "name": ("name", "id", "step", "title"),
    "prompt": ("prompt", "task", "instruction", "instructions", "description"),
    "needs": ("needs", "depends_on", "dependencies", "dependsOn"),
    "tools": ("tools", "tool"),
    "agent": ("agent",),
}


@dataclass(frozen=True, kw_only=True)
class DraftStep:
    """A step as a model wrote it. `key` is how the form calls it (`step2`), `needs` name keys or names."""

    key: str
    name: str
    prompt: str
    needs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    agent: str = ""


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a plan may be made of. `earlier` are steps that are done already and may be needed.

    `ordered` is for models whose replies are bound by a grammar: the steps are `step1`, `step2` and so on, in this order, and each can need only those before it. The
    other form is a list, which services with strict schemas take.
    """

    tools: Sequence[str] = ()
    agents: Sequence[str] = ()
    earlier: Sequence[str] = ()
    most: int = 12
    ordered: bool = False
    optional: bool = False  # whether no steps at all are an answer

    def schema(self) -> Json:
        """The JSON Schema of a reply."""
        if not self.ordered:
            steps: Json = {"type": "array", "items": self._step(None), "maxItems": self.most}
            return _object({"steps": steps if self.optional else {**steps, "minItems": 1}})
        keys = [f"step{number}" for number in range(1, self.most + 1)]
        steps = {key: self._step([*self.earlier, *keys[:at]]) for at, key in enumerate(keys)}
        return {**_object(steps), "required": [] if self.optional else keys[:1]}

    def example(self) -> str:
        """The form in words, for the prompt."""
        agent = ', "agent": one of the agents or ""' if self.agents else ""
        step = (
            f'"name": a short name, "prompt": what to do, "needs": [names of steps], "tools": [names of tools]{agent}'
        )
        if self.ordered:
            return '{"step1": {"name": ..., "prompt": ..., "needs": [], "tools": []}, "step2": {... "needs": ["step1"] ...}, ...}'
        return '{"steps": [{' + step + "}, ...]}"

    def _step(self, before: list[str] | None) -> Json:
        names: Json = {"type": "string"} if before is None else {"type": "string", "enum": before}
        needs: Json = {"type": "array", "items": names, "maxItems": self.most}
        if before == []:
            needs = {"type": "array", "items": {"type": "string"}, "maxItems": 0}
        tool: Json = {"type": "string", "enum": list(self.tools)} if self.tools else {"type": "string"}
        tools: Json = {"type": "array", "items": tool, "maxItems": len(self.tools)}
        fields: Json = {
            "name": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
            "prompt": {"type": "string", "minLength": 1, "maxLength": PROMPT_CHARS},
            "needs": needs,
            "tools": tools,
        }
        return _object(fields | ({"agent": {"type": "string", "enum": ["", *self.agents]}} if self.agents else {}))


def read(text: str, most: int) -> list[DraftStep]:
    """The steps of a reply, also from a text around them, or under other keys that models use. Raises: FlowError with every mistake."""
    rows = _rows(_value(text))
    if len(rows) > most:
        raise FlowError(Problem(("steps",), f"{len(rows)} steps are too many, at most {most}; put small ones together"))
    problems: list[Problem] = []
    steps = [_step(key, row, at, problems) for at, (key, row) in enumerate(rows)]
    if problems:
        raise FlowError(*problems)
    return [step for step in steps if step is not None]


def _value(text: str) -> Json:
    """The JSON object of a reply, wherever in it it stands."""
    candidates = [text, *(match[1] for match in _FENCE.finditer(text))]
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            candidates.append(text[start : end + 1])
    reason = ""
    for candidate in candidates:
        stripped = candidate.strip()
        whole = f'{{"steps": {stripped}}}' if stripped.startswith("[") else stripped
        if not whole.startswith("{"):
            continue
        try:
            return read_object(whole)
        except UnreadableError as error:
            reason = reason or str(error)
    why = reason or "there is no JSON object in it"
    raise FlowError(
        Problem((), f"the reply is no plan: {why}; reply with one JSON object, short enough to be complete")
    )


def _rows(value: Json) -> list[tuple[str, Any]]:
    """The steps by key; a reply may hold them as a list, by name, or inside of `plan`."""
    for outer in ("plan", "flow"):
        inner = value.get(outer)
        if is_object(inner) and "steps" not in value:
            value = inner
        elif is_list(inner) and "steps" not in value:
            value = {"steps": inner}
    steps: Any = value.get("steps", value)
    if is_list(steps):
        return [(f"step{number}", row) for number, row in enumerate(steps, 1)]
    if is_object(steps):
        if "prompt" in steps and "name" in steps:
            return [("step1", steps)]
        return list(steps.items())
    raise FlowError(Problem(("steps",), f"must be a list of steps, and is {_kind(steps)}"))


def _step(key: str, row: Any, at: int, problems: list[Problem]) -> DraftStep | None:
    path: Path = ("steps", at)
    if isinstance(row, str):
        row = {"prompt": row}
    if not is_object(row):
        problems.append(
            Problem(path, f"a step is an object with name, prompt, needs and tools, and this is {_kind(row)}")
        )
        return None
    known = {also for words in _ALSO.values() for also in words}
    problems += [
        Problem((*path, name), "there is no such key; a step has name, prompt, needs and tools")
        for name in row
        if name not in known
    ]
    name, prompt = _text(row, "name", path, problems), _text(row, "prompt", path, problems)
    if not any(letter.isalnum() for letter in prompt):
        problems.append(Problem((*path, "prompt"), "this says nothing to do, so the step leads nowhere"))
    return DraftStep(
        key=key,
        name=name or ("" if _KEY.fullmatch(key) else key),
        prompt=prompt,
        needs=tuple(_texts(row, "needs", path, problems)),
        tools=tuple(_texts(row, "tools", path, problems)),
        agent=_text(row, "agent", path, problems),
    )


def _given(row: Json, field: str) -> Any:
    return next((row[key] for key in _ALSO[field] if row.get(key) is not None), None)


def _text(row: Json, field: str, path: Path, problems: list[Problem]) -> str:
    value = _given(row, field)
    if isinstance(value, int) and field == "name":
        value = f"step{value}"
    if value is None or isinstance(value, str):
        return (value or "").strip()
    problems.append(Problem((*path, field), f"must be text, and is {_kind(value)}"))
    return ""


def _texts(row: Json, field: str, path: Path, problems: list[Problem]) -> Iterable[str]:
    value = _given(row, field)
    if value is None or value == "":
        return []
    values = value if is_list(value) else [value]
    found: list[str] = []
    for each in values:
        if isinstance(each, str):
            found.append(each.strip())
        elif isinstance(each, int) and not isinstance(each, bool) and field == "needs":
            found.append(f"step{each}")
        else:
            problems.append(Problem((*path, field), f"must be a list of names, and holds {_kind(each)}"))
    return dict.fromkeys(found)


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _kind(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."
