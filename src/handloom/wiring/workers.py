"""The workers of a flow as the settings name them: the agents, tools, models and shells of its steps, and the planner."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from handloom.agents import Agent
from handloom.agents.presets import PRESETS
from handloom.config import Loaded
from handloom.errors import ConfigError
from handloom.flow.cache import FolderCache
from handloom.flow.planner import ModelPlanner
from handloom.flow.shell import Ran, shell
from handloom.flow.workers import Job, Planner, plain
from handloom.llm.model import Model
from handloom.runs import Run
from handloom.tools import Tool
from handloom.wiring.agents import build_agent, known_tools
from handloom.wiring.models import open_model
from handloom.wiring.profiles import remember_mode
from handloom.wiring.wishes import Given

PLANNER = "planner"  # the name of [llm.planner], the model that plans where there is one
PLANNING = "planning"  # the agent whose settings may name a model for it


@dataclass(frozen=True, kw_only=True)
class SettingsWorkers:
    """Workers as the settings name them; a model that is given does the work of all that name none, and without `own_planner` it plans too. `aclose` closes the models that were opened."""

    loaded: Loaded
    given: Given
    model_name: str = ""
    own_planner: Planner | None = None
    _models: dict[str, Model] = field(default_factory=dict[str, Model])

    @property
    def planner(self) -> Planner:
        return self.own_planner or self.planning()

    def planning(self, *, keep: bool = True) -> ModelPlanner:
        """The planner of the settings: its model is that of these workers, or `[llm.planner]`; it plans with the tools and agents that there are."""

        async def model(name: str) -> Model:
            is_chosen = self.given.model is not None or bool(self.model_name)
            own = PLANNER if PLANNER in self.loaded.settings.llm.named and not is_chosen else ""
            return await self.model(name or own, PLANNING)

        def tools() -> dict[str, str]:
            return {name: tool.description.split("\n")[0][:200] for name, tool in self.tools.items()}

        cache = FolderCache(self.loaded.folders.cache / "plans") if keep else None
        return ModelPlanner(
            model=model, tools=tools, agents=[name for name in PRESETS if name != PLANNING], cache=cache
        )

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """Every tool that a step can name."""
        own = {tool.name: tool for tool in self.given.tools if isinstance(tool, Tool)}
        return known_tools(loaded=self.loaded, opened=lambda: self.model("", "")) | own

    async def model(self, name: str, agent: str) -> Model:
        if self.given.model is not None and name in ("", self.given.model.name):
            return self.given.model
        section = self.loaded.settings.agents.get(agent)
        spec = name or self.model_name or (section.model if section else "")
        if spec not in self._models:
            self._models[spec] = await open_model(self.loaded, spec, self.given.progress)
        return self._models[spec]

    def agent(self, job: Job, run: Run) -> Agent:
        agent = build_agent(self.loaded, job.agent, job.model, run.workspace, output=job.output, extra=self.given.tools)
        if job.tools is not None:
            known = {**self.tools, **{tool.name: tool for tool in agent.tools if isinstance(tool, Tool)}}
            agent = replace(agent, tools=tuple(known[name] for name in dict.fromkeys((*job.tools, "terminate"))))
        return replace(agent, prompt=replace(plain(job.system), next_step="")) if job.system else agent

    def tool(self, name: str) -> Tool:
        if name not in self.tools:
            raise ConfigError(f"there is no tool {name!r}; there are: {', '.join(self.tools)}")
        return self.tools[name]

    async def shell(self, command: str, variables: Mapping[str, str], run: Run) -> Ran:
        return await shell(command, variables, run)

    async def aclose(self) -> None:
        for model in self._models.values():
            remember_mode(self.loaded, model)
            await model.aclose()
