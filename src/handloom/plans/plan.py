"""Plan: a graph of steps as frozen values. A flow file, a program and a planner all make these, so all are checked alike.

The models refuse what they do not know on every level. What one value says about another (names, cycles, references) is checked in `flow.check`.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from handloom.plans.duration import Duration

Json = dict[str, Any]
ACTIONS = ("prompt", "run", "tool", "flow", "plan")
OnError = Literal["fail", "skip", "continue", "replan"]
# A span is a path of names; these signs and words have a meaning in it.
_SIGNS, _WORDS = "/#?\n\r\t\x00", ("turn-", "call-", "try-")


def step_name(name: str) -> str:
    """A name that can stand in a span: words of any language. Raises: ValueError."""
    if not name or name != name.strip() or len(name) > 100:
        raise ValueError(
            f"{name[:30]!r} is no name for a step: 1 to 100 characters, none of them a space at either end"
        )
    if any(sign in name for sign in _SIGNS) or name.startswith(_WORDS):
        raise ValueError(f"{name!r} is no name for a step: without / # ?, and not beginning with {', '.join(_WORDS)}")
    return name


Name = Annotated[str, AfterValidator(step_name)]


class Part(BaseModel):
    """A part of a plan: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Retry(Part):
    """How often a step that failed is tried again, and how long after; the wait doubles each time, up to ten minutes."""

    max: Annotated[int, Field(ge=0, le=100)] = 2
    backoff: Duration = 1.0

    def delay(self, failures: int) -> float:
        """Seconds before the attempt that follows so many failures."""
        return min(600.0, self.backoff * 2 ** (failures - 1))


class Repeat(Part):
    """A loop with a bound: the step is done again until the expression holds, at most `max` times."""

    until: str
    max: Annotated[int, Field(ge=1, le=1_000)]


class Approval(Part):
    """A person must agree before the step starts. The time counts from the question."""

    message: str
    timeout: Duration | None = None
    on_timeout: Literal["fail", "skip", "approve"] = "fail"


class CacheRule(Part):
    """What an earlier run did is taken when nothing it depended on has changed; `files` are patterns of files that it reads."""

    files: list[str] = []


class StepLimits(Part):
    """What one step may use; one that reaches a limit has failed."""

    max_turns: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, strict=False)] | None = None

    def over(self, other: "StepLimits") -> "StepLimits":
        """These limits, with those of another where these say none."""
        return self.model_copy(
            update={name: getattr(other, name) for name in type(self).model_fields if getattr(self, name) is None}
        )


class ModelPace(Part):
    """How fast a model may be asked."""

    max_parallel: Annotated[int, Field(ge=1)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None


class PlanLimits(Part):
    """What a whole run of the plan may use. `models` are paces by the name of a model; `*` is for all others."""

    max_parallel: Annotated[int, Field(ge=1, le=1_000)] = 4
    max_steps: Annotated[int, Field(ge=1, le=100_000)] = 500
    max_items: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, strict=False)] | None = None
    timeout: Duration | None = None
    context_tokens: Annotated[int, Field(ge=100)] | None = None
    models: dict[str, ModelPace] = {}


class Defaults(Part):
    """What holds for steps that do not say otherwise."""

    agent: str = ""
    model: str = ""
    system: str = ""
    retry: Retry | None = None
    timeout: Duration | None = None
    on_error: OnError = "fail"
    limits: StepLimits = StepLimits()


class Input(Part):
    """A value that the plan is given; the keys are those of JSON Schema, with `required` and `default` for the value itself."""

    type: Literal["string", "number", "integer", "boolean", "array", "object"]
    required: bool = False
    default: Any = None
    description: str = ""
    enum: list[Any] | None = None
    items: Json | None = None
    properties: Json | None = None

    def schema_of(self) -> Json:
        """The JSON Schema that a value must fit."""
        keys = ("enum", "items", "properties")
        return {"type": self.type} | {key: value for key in keys if (value := getattr(self, key)) is not None}


class Step(Part):
    """One thing to do: exactly one of `prompt`, `run`, `tool`, `flow`, `plan`, and when and how."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [action]} for action in ACTIONS]})

    prompt: str | None = None
    run: str | None = None
    tool: str | None = None
    flow: str | None = None
    plan: str | None = None
    with_: Annotated[Json, Field(alias="with")] = {}
    agent: str = ""
    tools: list[str] | None = None
    model: str = ""
    system: str = ""
    output: Json | None = None

    needs: list[str] = []
    if_: Annotated[str, Field(alias="if")] = ""
    for_each: str | list[Any] | None = None
    repeat: Repeat | None = None
    approval: Approval | None = None
    retry: Retry | None = None
    timeout: Duration | None = None
    cache: bool | CacheRule = False
    on_error: OnError | None = None
    artifacts: list[str] = []
    limits: StepLimits | None = None

    @model_validator(mode="after")
    def _one_action(self) -> "Step":
        actions = [action for action in ACTIONS if getattr(self, action) is not None]
        if len(actions) != 1:
            has = f"has {' and '.join(actions)}" if actions else "has none"
            raise ValueError(f"a step does one thing, one of {', '.join(ACTIONS)}; this one {has}")
        _check_company(self, actions[0])
        return self

    @property
    def action(self) -> str:
        return next(action for action in ACTIONS if getattr(self, action) is not None)


_ONLY = {  # which actions an option makes sense with
    "with_": ("tool", "run", "flow", "plan"),
    "agent": ("prompt",),
    "tools": ("prompt",),
    "model": ("prompt", "plan"),
    "system": ("prompt",),
    "output": ("prompt", "run", "tool"),
    "cache": ("prompt", "run", "tool"),
    "limits": ("prompt",),
}


def _check_company(step: Step, action: str) -> None:
    for option, actions in _ONLY.items():
        if action not in actions and option in step.model_fields_set:
            raise ValueError(
                f"{option.rstrip('_')!r} belongs to a step with {' or '.join(actions)}, and this one has {action!r}"
            )


class Plan(Part):
    """A whole plan."""

    version: Literal[1] = 1
    name: str = "flow"
    description: str = ""
    inputs: dict[str, Input] = {}
    defaults: Defaults = Defaults()
    limits: PlanLimits = PlanLimits()
    steps: Annotated[dict[Name, Step], Field(min_length=1)]
    outputs: dict[str, Any] = {}

    def as_json(self) -> Json:
        """The plan as a flow file holds it, without what has its default."""
        whole = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return whole | {"version": 1, "steps": {name: without_nulls(step) for name, step in whole["steps"].items()}}


def without_nulls(step: Json) -> Json:
    """A step as a flow file holds it, without its keys that are null: they say the same as none."""
    return {key: value for key, value in step.items() if value is not None}
