"""From the name of an agent to an Agent: its preset, the settings' changes, the tools by name."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from handloom.agents import Agent, Output, StateSource
from handloom.agents.browsing import WEB_TOOLS, Browsing
from handloom.agents.presets import PRESETS, Preset
from handloom.browser.settings import driver_installed
from handloom.config import Loaded, Settings
from handloom.errors import ConfigError
from handloom.llm.model import Model
from handloom.prompts import browser
from handloom.tools import Tool, Toolset
from handloom.tools.tool import with_actions

# What a small model is offered of the browser.
BROWSER = "Use a web browser: open an address, click, fill in, scroll. `index` is the number in [ ] on the page."
FEW_ACTIONS = {
    "navigate": "url",
    "click": "index",
    "input_text": "index text submit?",
    "select_option": "index values",
    "scroll": "pages",
    "go_back": "",
}


def known_tools(
    output: Output | None = None,
    loaded: Loaded | None = None,
    opened: Callable[[], Awaitable[Model]] | None = None,
) -> dict[str, Tool]:
    """Every tool by name; `terminate` takes an answer of the form asked for, and the model of `opened` answers the goals that some of them take."""
    from handloom.toolbox.ask_human import ask_human
    from handloom.toolbox.bash import bash
    from handloom.toolbox.editor import str_replace_editor
    from handloom.toolbox.find import find_files
    from handloom.toolbox.planning import planning
    from handloom.toolbox.python import python_execute
    from handloom.toolbox.send_email import MailServer, email_tool
    from handloom.toolbox.terminate import terminate_tool
    from handloom.wiring.web import web_tools

    settings = loaded.settings if loaded else Settings()
    tools = (
        python_execute,
        bash,
        find_files,
        str_replace_editor,
        ask_human,
        planning,
        email_tool(MailServer(**settings.email.model_dump(by_alias=False))),
        *web_tools(settings, opened),
        terminate_tool(output.schema if output else None),
    )
    return {tool.name: tool for tool in tools}


def build_agent(
    loaded: Loaded,
    name: str,
    model: Model,
    workspace: Path,
    *,
    output: Output | None = None,
    extra: tuple[Tool | Toolset, ...] = (),
    instructions: str = "",
) -> Agent:
    """A preset with the settings' changes; `instructions` are those of the project, for agents whose prompt has a place for them. Raises: ConfigError for an unknown agent or tool."""
    name = name or loaded.settings.agent
    preset = PRESETS.get(name)
    if preset is None:
        raise ConfigError(f"there is no agent {name!r}; there are: {', '.join(PRESETS)}")
    changes = loaded.settings.agents.get(name)
    own = changes.tools if changes else None
    names, later = (_usable(preset), preset.later) if own is None else (own, frozenset[str]())

    async def opened() -> Model:
        return model

    known = known_tools(output, loaded, opened)
    if model.profile.tools is not None:
        known["browser_use"] = with_actions(known["browser_use"], FEW_ACTIONS, BROWSER)
    if unknown := [tool for tool in names if tool not in known]:
        raise ConfigError(f"agents.{name}.tools names {', '.join(unknown)}; there are: {', '.join(known)}")
    if own is None and model.profile.tools is not None:
        names, later = _few(names, model.profile.tools)
    chosen = tuple(known[tool] for tool in dict.fromkeys((*names, "terminate")))
    return Agent(
        name=name,
        prompt=preset.prompt,
        model=model,
        tools=(*extra, *chosen),
        values={"directory": _directory(workspace, model), "instructions": _quoted(instructions)},
        sources=tuple(_seeing(source, model) for source in preset.sources),
        max_calls=preset.max_calls,
        later=later,
        output=output,
    )


def _usable(preset: Preset) -> tuple[str, ...]:
    """The tools of a preset without the browser where its package is missing: `handloom doctor` says what to install. The browser's own agent keeps it and tells."""
    without = set[str]() if driver_installed() or preset.prompt is browser.PROMPT else {"browser_use"}
    return tuple(name for name in preset.tools if name not in without)


def _directory(workspace: Path, model: Model) -> str:
    """How the prompt names the workspace. To a small model every word of the prompt is a nudge: with the path in it, what it does depends on where it was started."""
    return "." if model.profile.tools is not None else str(workspace)


def _few(names: tuple[str, ...], wanted: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """What a small model is offered of an agent's tools, and which of these once it touches the web; all where it wants none of them."""
    few = tuple(name for name in names if name in wanted | WEB_TOOLS) or names
    return few, WEB_TOOLS if wanted & set(few) else frozenset()


def _seeing(source: StateSource, model: Model) -> StateSource:
    """The source as this model can take it: with images or without."""
    if not isinstance(source, Browsing):
        return source
    return replace(source, images=model.profile.vision, guides=model.profile.tools is not None)


def takes_instructions(name: str) -> bool:
    """Whether the prompt of this agent has a place for what the project asks for."""
    return name in PRESETS and "instructions" in PRESETS[name].prompt.variables


def _quoted(instructions: str) -> str:
    """The project's own words, behind those of the prompt."""
    return (
        f"\n\n# What the project asks for (where two files differ, the later one holds)\n{instructions}"
        if instructions
        else ""
    )
