"""Agents: frozen recipes of a prompt, a model and tools, and the loop that runs them."""

from handloom.agents.agent import Agent
from handloom.agents.output import Output
from handloom.agents.sources import Snapshot, StateSource

__all__ = ["Agent", "Output", "Snapshot", "StateSource"]
