"""ask_human: a person's answer, in the middle of a run."""

from handloom.tools.tool import ToolContext, tool


# Waiting for the answer changes nothing, so a run that was suspended asks by calling again.
@tool(repeatable=True, effects={"read"})
async def ask_human(question: str, context: ToolContext) -> str:
    """Ask the person who gave the task, only for what you cannot find out yourself."""
    return await context.ask(question)
