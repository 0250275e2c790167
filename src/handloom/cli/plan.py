"""The commands that plan: `plan GOAL` prints a flow file, `run --plan` shows the plan and then carries it out."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from handloom import config, wiring
from handloom.cli import work
from handloom.errors import ConfigError
from handloom.events import Event, MessageAdded, ModelReplied, RunEnded, WarningRaised
from handloom.flow import draw
from handloom.flow.flow import Flow
from handloom.flow.review import flow_file
from handloom.prompts import planner as prompts
from handloom.state import Question
from handloom.wiring import planning


def show(goal: str, order: work.Order, *, keep: bool, explain: bool) -> int:
    """Plan a goal; the flow file is the answer."""
    desk = work.Desk(order)
    how = planning.Goal(review=False, carry_out=False, keep=keep)
    code = _work(goal, how, desk, order)
    if explain and desk.run_id:
        _explain(desk.run_id, work.loaded_for(order.folder()))
    return code


def carry_out(goal: str, order: work.Order, *, keep: bool) -> int:
    """Plan a goal, show the plan, and carry out what was approved."""
    taken = {
        "--agent": order.agent,
        "--schema": order.schema,
        "--image": order.images,
        "--max-turns": order.limits.get("turns"),
    }
    if wrong := [option for option, value in taken.items() if value]:
        raise ConfigError(f"{wrong[0]} belongs to a single agent; with --plan the steps say what does them")
    return _work(goal, planning.Goal(review=order.approval != "yes", keep=keep), work.Desk(order), order)


def _work(goal: str, how: planning.Goal, desk: work.Desk, order: work.Order) -> int:
    loaded = work.loaded_for(order.folder())
    return desk.work(
        lambda: planning.begin_goal(loaded, goal, how, order.wishes(), desk.given(), workspace=order.folder())
    )


async def edited(question: Question) -> str:
    """The flow file of a review, as the person leaves it in their editor; what went wrong with the editor is said and leaves the plan as it is."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="handloom-") as folder:
        path = Path(folder, "plan.yaml")
        await asyncio.to_thread(path.write_text, flow_file(question.question), encoding="utf-8")
        try:
            await asyncio.to_thread(subprocess.run, [*command, str(path)], check=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"handloom: the editor failed ({error}); EDITOR names the one to use", file=sys.stderr)
            return flow_file(question.question)
        return await asyncio.to_thread(path.read_text, encoding="utf-8")


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
