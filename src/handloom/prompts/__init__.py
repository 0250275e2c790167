"""What agents are told: one module an agent, static text, every token of which is paid on every turn."""

from handloom.prompts.template import PromptTemplate, render

__all__ = ["PromptTemplate", "render"]
