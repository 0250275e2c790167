"""The commands that plan: `plan GOAL` prints a flow file, `run --plan` shows the plan and then carries it out."""

import sys
from contextlib import closing

from handloom import config, wiring
from handloom.cli.desk import Desk
from handloom.cli.orders import Order
from handloom.cli.work import loaded_for
from handloom.errors import ConfigError
from handloom.events import Event, MessageAdded, ModelReplied, RunEnded, WarningRaised
from handloom.flow import draw
from handloom.flow.flow import Flow
from handloom.prompts import planner as prompts
from handloom.wiring import planning


def show(goal: str, order: Order, *, keep: bool, explain: bool) -> int:
    """Plan a goal; the flow file is the answer."""
    desk = Desk(order)
    how = planning.Goal(review=False, carry_out=False, keep=keep)
    code = _work(goal, how, desk, order)
    if explain and desk.run_id:
        _explain(desk.run_id, loaded_for(order.folder()))
    return code


def carry_out(goal: str, order: Order, *, keep: bool) -> int:
    """Plan a goal, show the plan, and carry out what was approved."""
    taken = {
        "--agent": order.agent,
        "--schema": order.schema,
        "--image": order.images,
        "--max-turns": order.limits.get("turns"),
    }
    if wrong := [option for option, value in taken.items() if value]:
        raise ConfigError(f"{wrong[0]} belongs to a single agent; with --plan the steps say what does them")
    return _work(goal, planning.Goal(review=order.approval != "yes", keep=keep), Desk(order), order)


def _work(goal: str, how: planning.Goal, desk: Desk, order: Order) -> int:
    loaded = loaded_for(order.folder())
    return desk.work(
        lambda: planning.begin_goal(loaded, goal, how, order.wishes(), desk.given(), workspace=order.folder())
    )


def _explain(run_id: str, loaded: config.Loaded) -> None:
    """What the model was told, what it replied and why that was refused, and which steps can run at the same time."""
    with closing(wiring.open_store(loaded)) as store:
        events = store.read(run_id)
    print("\n".join(_story(events)), file=sys.stderr)


def _story(events: list[Event]) -> list[str]:
    own = [event for event in events if event.span.startswith(planning.SPAN)]
    lines: list[str] = []
    attempt = 0
    for event in own:
        match event:
            case MessageAdded(message=message) if message.origin == "task":
                lines += ["# What the model was asked", message.text, ""]
            case MessageAdded(message=message) if message.origin == "rejected":
                lines += ["# Why this was refused", message.text, ""]
            case MessageAdded(message=message):
                lines += ["# What was kept of an earlier plan", message.text, ""]
            case ModelReplied(message=message):
                attempt += 1
                lines += [f"# Attempt {attempt}, by {event.model}", message.text, ""]
            case WarningRaised(topic="plan-cache", text=text):
                lines += [f"# Cache: {text}", ""]
            case _:
                pass
    lines.append(
        f"A plan is kept by its goal, the tools, the agents, the model and the version of the prompt ({prompts.VERSION})."
    )
    ended = [event.answer for event in events if isinstance(event, RunEnded) and event.status == "success"]
    return [*lines, "", "# What can run at the same time", draw.text(Flow.parse(ended[-1]).plan)] if ended else lines
