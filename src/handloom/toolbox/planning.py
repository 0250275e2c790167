"""planning: an agent writes its plan down, changes it, and marks what is done.

The tool keeps nothing: where the plans stand follows from its earlier calls in the conversation, so a resumed run has them, and so has a call that runs again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from handloom.errors import ToolError
from handloom.messages import Json, Message
from handloom.plans import Plan, Step
from handloom.toolbox.planned_steps import listed, read_steps
from handloom.tools.earlier import successful
from handloom.tools.tool import ToolContext, tool

Command = Literal["create", "update", "list", "get", "set_active", "mark_step", "delete"]
Status = Literal["not_started", "in_progress", "completed", "blocked"]
MARKS: dict[Status, str] = {"not_started": "[ ]", "in_progress": "[>]", "completed": "[x]", "blocked": "[!]"}
MOST_PLANS, NOTE = 20, 300


@tool(
    effects={"read"},
    repeatable=True,
    actions={
        "create": "plan_id title steps",
        "update": "plan_id title? steps?",
        "list": "",
        "get": "plan_id?",
        "set_active": "plan_id",
        "mark_step": "plan_id? step_index step_status? step_notes?",
        "delete": "plan_id",
    },
)
async def planning(
    command: Command,
    context: ToolContext,
    plan_id: str | None = None,
    title: str | None = None,
    steps: list[str] | str | None = None,
    step_index: int | None = None,
    step_status: Status | None = None,
    step_notes: str | None = None,
) -> str:
    """Write down and keep a plan. `steps` is a list, or a text with a step a line; a step may end with "(needs 1, 2)". Steps count from 1. Without `plan_id` the active plan is meant."""
    call = BoardCall(command, plan_id, title, steps, step_index, step_status, step_notes)
    return board_of(context.earlier("planning")).after(call)[1]


@dataclass(frozen=True)
class BoardCall:
    """The arguments of one call."""

    command: Command
    plan_id: str | None = None
    title: str | None = None
    steps: list[str] | str | None = None
    step_index: int | None = None
    step_status: Status | None = None
    step_notes: str | None = None


@dataclass(frozen=True)
class Tracked:
    """A plan and how far it is: the status and the notes of steps by name."""

    plan: Plan
    status: Mapping[str, Status] = field(default_factory=dict[str, Status])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    def status_of(self, name: str) -> Status:
        return self.status.get(name, "not_started")

    @property
    def text(self) -> str:
        """The plan as the model reads it."""
        steps = self.plan.steps
        done = sum(self.status_of(name) == "completed" for name in steps)
        head = f"Plan {self.plan.name}: {self.plan.description} ({done} of {len(steps)} steps done)"
        lines = [
            f"{MARKS[self.status_of(name)]} {name}. {step.prompt}"
            + (f" (needs {', '.join(step.needs)})" if step.needs else "")
            + (f"\n      {note}" if (note := self.notes.get(name)) else "")
            for name, step in steps.items()
        ]
        return "\n".join([head, *lines])

    def revised(self, plan: Plan) -> "Tracked":
        """Another plan in this one's place; steps with the same words keep their marks."""
        old = {step.prompt: name for name, step in self.plan.steps.items()}
        same = {name: old[step.prompt] for name, step in plan.steps.items() if step.prompt in old}
        status: dict[str, Status] = {name: self.status_of(before) for name, before in same.items()}
        notes = {name: self.notes[before] for name, before in same.items() if before in self.notes}
        return Tracked(plan, status, notes)


@dataclass(frozen=True)
class Board:
    """The plans of a conversation, one of them active."""

    plans: Mapping[str, Tracked] = field(default_factory=dict[str, Tracked])
    active: str = ""

    def after(self, call: BoardCall) -> "tuple[Board, str]":
        """The board after a call, and what the model reads. Raises: ToolError."""
        match call.command:
            case "create":
                return self._create(call)
            case "update":
                return self._put(self._known(call).revised(self._plan(call, self._known(call).plan)))
            case "list":
                return self, self._listed()
            case "get":
                return self, self._known(call).text
            case "set_active":
                tracked = self._known(call, named=True)
                return replace(
                    self, active=tracked.plan.name
                ), f"{tracked.plan.name} is the active plan.\n{tracked.text}"
            case "mark_step":
                return self._mark(call)
            case "delete":
                name = self._known(call, named=True).plan.name
                left = {key: plan for key, plan in self.plans.items() if key != name}
                return Board(left, "" if self.active == name else self.active), f"The plan {name} is deleted."
            case _:
                assert_never(call.command)

    @property
    def text(self) -> str:
        """The active plan, or that there is none."""
        return self.plans[self.active].text if self.active else "There is no plan yet; make one with `planning`."

    def _create(self, call: BoardCall) -> "tuple[Board, str]":
        if not call.plan_id or not call.plan_id.strip():
            raise ToolError("give the plan a `plan_id`, a short word")
        if call.plan_id in self.plans:
            raise ToolError(f"there is a plan {call.plan_id!r} already; `update` changes it")
        if len(self.plans) >= MOST_PLANS:
            raise ToolError(f"there are {MOST_PLANS} plans; delete one first")
        if not call.steps:
            raise ToolError("give the plan `steps`, at least one")
        return self._put(Tracked(self._plan(call, None)))

    def _plan(self, call: BoardCall, old: Plan | None) -> Plan:
        name = old.name if old else (call.plan_id or "").strip()
        title = call.title if call.title is not None else (old.description if old else "")
        steps: dict[str, Step] = read_steps(call.steps) if call.steps else (old.steps if old else {})
        return Plan(name=name, description=title, steps=steps)

    def _put(self, tracked: Tracked) -> "tuple[Board, str]":
        name = tracked.plan.name
        return Board({**self.plans, name: tracked}, name), tracked.text

    def _mark(self, call: BoardCall) -> "tuple[Board, str]":
        tracked = self._known(call)
        name = str(call.step_index)
        if call.step_index is None or name not in tracked.plan.steps:
            raise ToolError(f"`step_index` is one of 1 to {len(tracked.plan.steps)}, and not {call.step_index}")
        if call.step_status is None and call.step_notes is None:
            raise ToolError(f"give a `step_status` ({', '.join(MARKS)}) or `step_notes`")
        status = {**tracked.status, **({name: call.step_status} if call.step_status else {})}
        notes = {**tracked.notes, **({name: call.step_notes[:NOTE]} if call.step_notes else {})}
        marked = replace(tracked, status=status, notes=notes)
        return replace(self, plans={**self.plans, tracked.plan.name: marked}), marked.text

    def _listed(self) -> str:
        lines = [
            f"{'* ' if name == self.active else '  '}{tracked.text.splitlines()[0]}"
            for name, tracked in self.plans.items()
        ]
        return "\n".join(lines) or "There are no plans."

    def _known(self, call: BoardCall, *, named: bool = False) -> Tracked:
        name = call.plan_id or ("" if named else self.active)
        if name in self.plans:
            return self.plans[name]
        if not name:
            raise ToolError("give a `plan_id`" if named or self.plans else "there is no plan yet; `create` makes one")
        raise ToolError(f"there is no plan {name!r}; there are: {listed(self.plans)}")


def board_of(calls: Iterable[Json]) -> Board:
    """Where the plans stand after earlier calls, given by their arguments."""
    board = Board()
    for arguments in calls:
        known: dict[str, Any] = {key: arguments.get(key) for key in BoardCall.__dataclass_fields__}
        board, _ = board.after(BoardCall(**known))
    return board


def board_in(messages: Iterable[Message]) -> Board:
    """Where the plans stand in a conversation."""
    return board_of(successful(messages, "planning"))
