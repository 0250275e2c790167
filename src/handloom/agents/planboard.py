"""PlanBoard: the plan that an agent keeps with the tool `planning`, shown to it before each request."""

from handloom.agents.sources import Snapshot
from handloom.runs import Run
from handloom.toolbox.planning import board_in


class PlanBoard:
    """A value `plan_status` for the next-step prompt."""

    next_step = ""

    def in_use(self, run: Run) -> bool:  # noqa: ARG002 - always
        return True

    async def snapshot(self, run: Run) -> Snapshot:
        return Snapshot(values={"plan_status": board_in(run.memory.messages).text})
