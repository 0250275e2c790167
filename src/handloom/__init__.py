"""Handloom: a general agent and a workflow engine for your own machine.

The public names are imported when they are used, so that `import handloom` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from handloom.agents import Agent, Output
    from handloom.errors import HandloomError, ToolError
    from handloom.events import Event
    from handloom.flow.flow import Flow
    from handloom.journal import Journal, MemoryStore, Store
    from handloom.llm.model import Model
    from handloom.memory import Memory
    from handloom.messages import ImagePart, Message
    from handloom.plans import Plan, Step
    from handloom.prompts import PromptTemplate
    from handloom.runs import Limits, Run, RunResult
    from handloom.tools import Tool, ToolContext, Toolset, tool
    from handloom.wiring import resume, run
    from handloom.wiring.flows import run_flow

__all__ = [
    "Agent",
    "Event",
    "Flow",
    "HandloomError",
    "ImagePart",
    "Journal",
    "Limits",
    "Memory",
    "MemoryStore",
    "Message",
    "Model",
    "Output",
    "Plan",
    "PromptTemplate",
    "Run",
    "RunResult",
    "Step",
    "Store",
    "Tool",
    "ToolContext",
    "ToolError",
    "Toolset",
    "resume",
    "run",
    "run_flow",
    "tool",
]

_HOMES = {
    "Agent": "agents",
    "Event": "events",
    "Flow": "flow.flow",
    "HandloomError": "errors",
    "ImagePart": "messages",
    "Journal": "journal",
    "Limits": "runs",
    "Memory": "memory",
    "MemoryStore": "journal",
    "Message": "messages",
    "Model": "llm.model",
    "Output": "agents",
    "Plan": "plans",
    "PromptTemplate": "prompts",
    "Run": "runs",
    "RunResult": "runs",
    "Step": "plans",
    "Store": "journal",
    "Tool": "tools",
    "ToolContext": "tools",
    "ToolError": "errors",
    "Toolset": "tools",
    "resume": "wiring",
    "run": "wiring",
    "run_flow": "wiring.flows",
    "tool": "tools",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("handloom")
    if name not in _HOMES:
        raise AttributeError(f"module 'handloom' has no attribute {name!r}")
    return getattr(import_module(f"handloom.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
