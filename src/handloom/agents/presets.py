"""The agents that come with handloom, as values: a prompt and the names of tools."""

from dataclasses import dataclass

from handloom.prompts import PromptTemplate, data, manus, swe, toolcall


@dataclass(frozen=True)
class Preset:
    """A prompt and the tools it was written for; every agent also gets `terminate`."""

    prompt: PromptTemplate
    tools: tuple[str, ...]


PRESETS: dict[str, Preset] = {
    "manus": Preset(manus.PROMPT, ("python_execute", "str_replace_editor", "ask_human")),
    "toolcall": Preset(toolcall.PROMPT, ("python_execute", "str_replace_editor", "ask_human")),
    "swe": Preset(swe.PROMPT, ("str_replace_editor", "python_execute")),
    "data": Preset(data.PROMPT, ("python_execute", "str_replace_editor")),
}
