"""The public doors: `await handloom.run(...)` and `await handloom.resume(...)`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handloom import config
from handloom.agents import Agent, Output
from handloom.errors import ConfigError
from handloom.journal import Store
from handloom.llm.model import Model
from handloom.messages import ImagePart, Json
from handloom.runs import Asker, Limits, Reader, RunResult
from handloom.tools import Tool, Toolset
from handloom.wiring.reopening import reopen
from handloom.wiring.tasks import begin
from handloom.wiring.wishes import Given, Wishes

if TYPE_CHECKING:
    from pydantic import BaseModel


async def run(  # noqa: PLR0913 - the public door
    task: str,
    *,
    model: Model | str = "",
    agent: Agent | str = "",
    tools: tuple[Tool | Toolset, ...] = (),
    workspace: Path | str | None = None,
    output: "Json | type[BaseModel] | None" = None,
    images: tuple[ImagePart, ...] = (),
    limits: Limits | None = None,
    store: Store | None = None,
    readers: tuple[Reader, ...] = (),
    asker: Asker | None = None,
) -> RunResult:
    """Give a task to an agent and wait for its end; this is what `handloom run` does.

    `model` is a Model or a name as on the command line, `agent` an Agent or a preset's name, `tools` are added to the preset's. `output` binds the answer to
    a JSON Schema or a pydantic model: the result's `value` then holds it. `readers` see every event, `asker` answers questions; without one a question
    suspends the run. Raises: ConfigError before the run starts; what stops it later is in the result's `status` and `cause`.
    """
    if not isinstance(agent, str) and (model or tools or output is not None):
        raise ConfigError(
            "an Agent has its own model, tools and output; leave those arguments out, or give the name of an agent"
        )
    form = Output.of(output) if output is not None else None
    wishes = Wishes(
        agent=agent if isinstance(agent, str) else agent.name,
        model=model if isinstance(model, str) else "",
        output=form.schema if form else None,
    )
    given = Given(
        model=None if isinstance(model, str) else model,
        agent=None if isinstance(agent, str) else agent,
        tools=tools,
        output=form,
        images=images,
        limits=limits,
        store=store,
        asker=asker,
        readers=readers,
    )
    folder = Path(workspace or Path.cwd()).resolve()  # noqa: ASYNC240 - once, before anything runs
    async with begin(config.load(folder=folder), task, wishes, given, workspace=folder) as session:
        return await session.complete()


async def resume(  # noqa: PLR0913 - the public door
    run_id: str,
    *,
    answer: str | None = None,
    model: Model | str = "",
    agent: Agent | None = None,
    tools: tuple[Tool | Toolset, ...] = (),
    output: "Json | type[BaseModel] | None" = None,
    limits: Limits | None = None,
    store: Store | None = None,
    readers: tuple[Reader, ...] = (),
    asker: Asker | None = None,
    again: tuple[str, ...] = (),
    inputs: Mapping[str, Any] | None = None,
) -> RunResult:
    """Go on with a run where it stopped; a run that has ended gives its result again. `answer` answers its oldest open question.

    Pass again what was passed as an object to `run` (a model, an agent, tools, a pydantic model, limits): a record holds names and schemas alone.
    In the run of a flow, the steps of `again` run once more with all that need them, and `inputs` are new values; the result is a FlowResult.
    Raises: RunNotFoundError, RunLockedError, ConfigError, FlowError.
    """
    wishes = Wishes(model=model if isinstance(model, str) else "")
    given = Given(
        model=None if isinstance(model, str) else model,
        agent=agent,
        tools=tools,
        output=Output.of(output) if output is not None else None,
        limits=limits,
        store=store,
        asker=asker,
        readers=readers,
    )
    async with reopen(config.load(), run_id, wishes, given, answer=answer, again=again, values=inputs) as session:
        return await session.complete()
