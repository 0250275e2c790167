"""What a caller asks of a run, and what a caller brings along."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from handloom import config
from handloom.agents import Agent, Output
from handloom.config import Loaded
from handloom.journal import Store
from handloom.llm.model import Model
from handloom.messages import ImagePart, Json
from handloom.runs import Asker, Limits, Reader
from handloom.tools import Tool, Toolset
from handloom.wiring.models import Progress

FLOW = "flow"  # the key among a run's settings that says it is one of a flow


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a caller asks of a run beyond the settings; it is recorded, so that a resume builds the same agent."""

    agent: str = ""
    model: str = ""
    output: Json | None = None
    instructions: str = ""
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])

    def recorded(self) -> Json:
        recorded: Json = {"agent": self.agent, "model": self.model, "output": self.output, "limits": dict(self.limits)}
        return recorded | ({"instructions": self.instructions} if self.instructions else {})

    @classmethod
    def of(cls, settings: Json) -> "Wishes":
        """What `recorded` wrote."""
        keys = ("agent", "model", "output", "instructions", "limits")
        known = {key: settings[key] for key in keys if settings.get(key) is not None}
        return cls(**known)


Approval = Literal["", "yes", "ask", "deny"]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a caller brings along instead of having it made from the settings, and who watches.

    `approval` is not recorded, so that nobody's yes outlives the process it was given to: `yes` allows what would be asked, `ask` asks for every effect,
    `deny` denies what would be asked.
    """

    model: Model | None = None
    agent: Agent | None = None
    tools: tuple[Tool | Toolset, ...] = ()
    output: Output | None = None
    approval: Approval = ""
    images: tuple[ImagePart, ...] = ()
    limits: Limits | None = None
    store: Store | None = None
    asker: Asker | None = None
    readers: tuple[Reader, ...] = ()
    progress: Progress | None = None


def limits_for(loaded: Loaded, agent: str, wishes: Mapping[str, float | None]) -> Limits:
    """The limits of a run: wishes over the agent's over the settings'."""
    section = loaded.settings.limits
    turns = (loaded.settings.agents[agent].max_turns if agent in loaded.settings.agents else None) or section.max_turns
    limits = Limits(
        turns=turns, tokens=section.max_tokens, cost=section.max_cost, seconds=config.seconds(section.timeout)
    )
    return replace(limits, **{name: value for name, value in wishes.items() if value is not None})
