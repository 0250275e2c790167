"""WorkingPlace: where a software agent stands, so that it need not ask: the shell's directory and the file it had open last."""

from handloom.agents.sources import Snapshot
from handloom.runs import Run
from handloom.toolbox.bash import Shell

EDITOR = "str_replace_editor"


class WorkingPlace:
    """Values `place` and `open_file` for the next-step prompt."""

    next_step = ""

    def in_use(self, run: Run) -> bool:  # noqa: ARG002 - always
        return True

    async def snapshot(self, run: Run) -> Snapshot:
        shell = run.opened(Shell)
        place = shell.directory if shell else str(run.workspace)
        return Snapshot(values={"place": place, "open_file": _open_file(run) or "none"})


def _open_file(run: Run) -> str:
    """The path of the newest call of the editor."""
    for message in reversed(run.memory.since_task()):
        for call in reversed(message.tool_calls):
            if call.name == EDITOR and not call.error:
                return str(call.arguments.get("path", ""))
    return ""
