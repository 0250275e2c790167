"""Workers: who does the work of a flow. The engine asks for agents, tools, models and shells by name; `wiring` makes them of the settings, tests by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from handloom.agents import Agent, Output
from handloom.errors import ConfigError
from handloom.flow.shell import Ran, shell
from handloom.llm.model import Model
from handloom.messages import Json
from handloom.plans import Plan
from handloom.prompts import PromptTemplate
from handloom.runs import Run
from handloom.tools import Tool


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a prompt step wants of an agent. `tools` None are those of the agent; `model` paces and counts the requests of this step."""

    agent: str
    model: Model
    tools: tuple[str, ...] | None = None
    system: str = ""
    output: Output | None = None

    @property
    def is_single(self) -> bool:
        """Whether one reply of the model is all that is wanted."""
        return not self.agent and not self.tools


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How a planner asks for a step: the model of this name, its own when empty; `paced` makes it wait its turn and count for the step."""

    model: str = ""
    paced: Callable[[Model], Model] = lambda model: model


AS_USUAL = Ask()


class Planner(Protocol):
    """Makes plans while a flow runs. What it asks of models is recorded under the run it is given."""

    async def plan(self, goal: str, values: Json, run: Run, ask: Ask = AS_USUAL) -> Plan:
        """The plan that a `plan` step carries out; `values` are its `with`. Raises: FlowError when none is reasonable."""
        ...

    async def replan(self, plan: Plan, failed: str, reason: str, run: Run, ask: Ask = AS_USUAL) -> Json:
        """Changes of a plan in which a step has failed, as `plan.revised` takes them: steps by name, null for those that go; nothing when it knows no way."""
        ...


class Workers(Protocol):
    """What the engine needs of its surroundings."""

    @property
    def planner(self) -> Planner | None: ...

    async def model(self, name: str, agent: str) -> Model:
        """The model of this name; of the agent, or the usual one, when the name is empty. Raises: ConfigError."""
        ...

    def agent(self, job: Job, run: Run) -> Agent:
        """The agent for a job that wants more than a single reply. Raises: ConfigError."""
        ...

    def tool(self, name: str) -> Tool:
        """Raises: ConfigError."""
        ...

    async def shell(self, command: str, variables: Mapping[str, str], run: Run) -> Ran:
        """Run a command in the folder of the run. Raises: SandboxError."""
        ...


@dataclass(frozen=True, kw_only=True)
class GivenWorkers:
    """Workers made of what a program has at hand: a model, tools, and a prompt for each agent."""

    given_model: Model | None = None
    models: Mapping[str, Model] = field(default_factory=dict[str, Model])
    tools: tuple[Tool, ...] = ()
    agents: Mapping[str, PromptTemplate] = field(default_factory=dict[str, PromptTemplate])
    planner: Planner | None = None

    async def model(self, name: str, agent: str) -> Model:  # noqa: ARG002 - all agents have the same
        found = self.models.get(name) or (None if name else self.given_model)
        if found is None:
            raise ConfigError(
                f"there is no model {name!r} for this flow" if name else "this flow asks a model; give one"
            )
        return found

    def agent(self, job: Job, run: Run) -> Agent:  # noqa: ARG002 - the prompts here need no folder
        prompt = self.agents.get(job.agent) or PromptTemplate(system="")
        if job.agent and job.agent not in self.agents:
            raise ConfigError(f"there is no agent {job.agent!r}; there are: {', '.join(self.agents)}")
        chosen = self.tools if job.tools is None else tuple(self.tool(name) for name in job.tools)
        prompt = plain(job.system) if job.system else prompt
        return Agent(
            name=job.agent or "agent", prompt=prompt, model=job.model, tools=chosen, output=job.output, sources=()
        )

    def tool(self, name: str) -> Tool:
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise ConfigError(f"there is no tool {name!r}; there are: {', '.join(tool.name for tool in self.tools)}")

    async def shell(self, command: str, variables: Mapping[str, str], run: Run) -> Ran:
        return await shell(command, variables, run)


def single(job: Job) -> Agent:
    """The agent whose first reply is its answer."""
    return Agent(name="prompt", prompt=plain(job.system), model=job.model, output=job.output, sources=())


def plain(system: str) -> PromptTemplate:
    """A system prompt in which braces are braces."""
    return PromptTemplate(system=system.replace("{", "{{").replace("}", "}}"))
