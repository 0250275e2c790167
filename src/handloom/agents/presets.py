"""The agents that come with handloom, as values: a prompt and the names of tools."""

from dataclasses import dataclass

from handloom.agents.calls import MOST_CALLS
from handloom.agents.places import WorkingPlace
from handloom.agents.sources import StateSource, WorkspaceFiles
from handloom.prompts import PromptTemplate, data, manus, swe, toolcall


@dataclass(frozen=True)
class Preset:
    """A prompt and the tools it was written for (every agent also gets `terminate`), what it sees each turn, and how many calls a reply may make."""

    prompt: PromptTemplate
    tools: tuple[str, ...]
    sources: tuple[StateSource, ...] = (WorkspaceFiles(),)
    max_calls: int = MOST_CALLS


PRESETS: dict[str, Preset] = {
    "manus": Preset(manus.PROMPT, ("python_execute", "str_replace_editor", "ask_human")),
    "toolcall": Preset(toolcall.PROMPT, ("python_execute", "str_replace_editor", "ask_human")),
    "swe": Preset(swe.PROMPT, ("bash", "str_replace_editor"), sources=(WorkingPlace(),), max_calls=1),
    "data": Preset(data.PROMPT, ("python_execute", "str_replace_editor")),
}
