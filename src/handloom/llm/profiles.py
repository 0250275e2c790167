"""What each family of models can do, as data.

A profile is chosen by the model's name, the first pattern that matches wins; config may override any field.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

ToolMode = Literal["auto", "native", "structured", "text", "code"]
Dialect = Literal["calls", "qwen"]
Cache = Literal["prefix", "explicit", "boundary", "none"]


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a model can do.

    `max_context` and `max_output` are tokens; `dialect` is the form of structured mode; `temperature` is None where the service refuses the field;
    `max_tokens_name` is the field's name in the request; `challenges` is how often the model is asked to try again when it ends right after a failed call,
    which small models do at once; `tools` are those of a preset that it is offered, None for all of them: small models solve more
    with Python alone than with a choice of tools; `sends_reasoning_back` is for services that want `reasoning_content` returned.
    """

    tool_mode: ToolMode = "auto"
    dialect: Dialect = "calls"
    vision: bool = False
    json_schema: bool = True
    cache: Cache = "prefix"
    max_context: int = 32_768
    max_output: int = 4_096
    max_tokens_name: str = "max_tokens"
    temperature: float | None = 0.0
    challenges: int = 0
    tools: frozenset[str] | None = None
    sends_reasoning_back: bool = False
    price: Price | None = None


_OPENAI = Profile(
    tool_mode="native", vision=True, max_context=128_000, max_output=16_000, max_tokens_name="max_completion_tokens"
)
_REASONING = replace(_OPENAI, temperature=None, max_context=200_000, max_output=32_000)
_SMALL = Profile(tool_mode="structured", dialect="qwen", max_output=1_024, challenges=3)
_SMALL_CODER = replace(_SMALL, tool_mode="code", tools=frozenset({"python_execute"}))

# (pattern on the lower-case name, profile). Prices are the public list prices of November 2026 where known; config can extend them.
_TABLE: tuple[tuple[str, Profile], ...] = (
    (r"qwen.*coder.*[-:_](0\.5|1\.5|3)b(?!\w)", _SMALL_CODER),
    (r"qwen.*[-:_](0\.5|0\.6|1\.5|1\.7|3|4)b(?!\w)", _SMALL),
    (r"(^|/)(o[134](-|$)|gpt-5|gpt-6)", _REASONING),
    (r"gpt-4o-mini", replace(_OPENAI, price=Price(prompt=0.15, completion=0.60, cached=0.075))),
    (r"gpt-4o", replace(_OPENAI, price=Price(prompt=2.50, completion=10.0, cached=1.25))),
    (r"gpt-4\.1-mini", replace(_OPENAI, max_context=1_000_000, price=Price(prompt=0.40, completion=1.60, cached=0.10))),
    (r"gpt-4\.1", replace(_OPENAI, max_context=1_000_000, price=Price(prompt=2.00, completion=8.00, cached=0.50))),
    (
        r"deepseek",
        Profile(tool_mode="native", json_schema=False, cache="boundary", max_context=128_000, max_output=8_000),
    ),
    (r"claude", Profile(tool_mode="native", vision=True, cache="explicit", max_context=200_000, max_output=16_000)),
    (r"gemini", Profile(tool_mode="native", vision=True, max_context=1_000_000, max_output=16_000)),
    (r"(-vl|vision|llava|pixtral)", Profile(vision=True)),
)


def profile_for(name: str) -> Profile:
    """The profile of a model by its name, or the cautious default."""
    lowered = name.lower()
    return next((profile for pattern, profile in _TABLE if re.search(pattern, lowered)), Profile())
