"""A task for an agent: a new run of it, and the agent that works on it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import handloom
from handloom.agents import Agent, Output
from handloom.agents.instructions import read_instructions
from handloom.config import Loaded
from handloom.runs import Run
from handloom.wiring.agents import build_agent, takes_instructions
from handloom.wiring.models import open_model
from handloom.wiring.profiles import remember_mode
from handloom.wiring.safety import safety_for
from handloom.wiring.session import Session, one_at_a_time, store_of
from handloom.wiring.wishes import Given, Wishes, limits_for


@asynccontextmanager
async def begin(loaded: Loaded, task: str, wishes: Wishes, given: Given, *, workspace: Path) -> AsyncGenerator[Session]:
    """A new run, ready to work; a model and a store made here are closed at the end. Raises: ConfigError."""
    output = output_of(wishes, given)
    if given.agent is None and takes_instructions(wishes.agent or loaded.settings.agent):
        wishes = replace(wishes, instructions=read_instructions(workspace))
    async with made(loaded, wishes, given, output, workspace) as agent:
        with store_of(loaded, given) as store:
            run = await Run.start(
                task,
                store=store,
                workspace=workspace,
                limits=given.limits or limits_for(loaded, agent.name, wishes.limits),
                settings=replace(wishes, agent=agent.name).recorded(),
                images=given.images,
                asker=one_at_a_time(given.asker),
                readers=given.readers,
                safety=safety_for(loaded, workspace, approval=given.approval, model=agent.model),
                version=handloom.__version__,
            )
            yield Session(run, agent.run, agent.output)


@asynccontextmanager
async def made(
    loaded: Loaded, wishes: Wishes, given: Given, output: Output | None, workspace: Path
) -> AsyncGenerator[Agent]:
    """The agent that is given, or the one that the wishes name, with its model open while the context lasts."""
    if given.agent is not None:
        yield given.agent
        return
    model = given.model or await open_model(loaded, wishes.model or _agent_model(loaded, wishes.agent), given.progress)
    try:
        yield build_agent(
            loaded,
            wishes.agent,
            model,
            workspace,
            output=output,
            extra=given.tools,
            instructions=wishes.instructions,
        )
    finally:
        if given.model is None:
            remember_mode(loaded, model)
            await model.aclose()


def output_of(wishes: Wishes, given: Given) -> Output | None:
    """The form of the answer: the one that is given, the agent's own, or the one that the wishes name."""
    own = given.output or (given.agent.output if given.agent else None)
    return own or (Output.of(wishes.output) if wishes.output is not None else None)


def _agent_model(loaded: Loaded, name: str) -> str:
    section = loaded.settings.agents.get(name or loaded.settings.agent)
    return section.model if section else ""
