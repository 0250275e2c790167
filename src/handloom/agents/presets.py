"""The agents that come with handloom, as values: a prompt and the names of tools."""

from dataclasses import dataclass

from handloom.agents.browsing import Browsing
from handloom.agents.calls import MOST_CALLS
from handloom.agents.places import WorkingPlace
from handloom.agents.planboard import PlanBoard
from handloom.agents.sources import StateSource, WorkspaceFiles
from handloom.prompts import PromptTemplate, browser, data, manus, planning, swe, toolcall


@dataclass(frozen=True)
class Preset:
    """A prompt and the tools it was written for (every agent also gets `terminate`), what it sees each turn, how many calls a reply may make, and which tools are offered
    once the run touches the web.
    """

    prompt: PromptTemplate
    tools: tuple[str, ...]
    sources: tuple[StateSource, ...] = (WorkspaceFiles(),)
    max_calls: int = MOST_CALLS
    later: frozenset[str] = frozenset()


WEB = ("browser_use", "web_search", "fetch", "read_document")
PRESETS: dict[str, Preset] = {
    "manus": Preset(
        manus.PROMPT,
        ("python_execute", "str_replace_editor", *WEB, "ask_human"),
        sources=(WorkspaceFiles(), Browsing()),
        later=frozenset({"browser_use"}),
    ),
    "toolcall": Preset(toolcall.PROMPT, ("python_execute", "str_replace_editor", "ask_human")),
    "swe": Preset(swe.PROMPT, ("bash", "str_replace_editor"), sources=(WorkingPlace(),), max_calls=1),
    "browser": Preset(browser.PROMPT, (*WEB, "ask_human"), sources=(Browsing(always=True),), max_calls=1),
    "data": Preset(data.PROMPT, ("python_execute", "str_replace_editor")),
    "planning": Preset(
        planning.PROMPT,
        ("planning", "python_execute", "str_replace_editor", "ask_human"),
        sources=(WorkspaceFiles(), PlanBoard()),
    ),
}
