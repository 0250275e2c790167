"""What a tool is, how a function becomes one, and how its arguments are checked."""

from handloom.tools.tool import Tool, ToolContext, Toolset, tool

__all__ = ["Tool", "ToolContext", "Toolset", "tool"]
