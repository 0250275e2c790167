"""The commands that work on a run of an agent: run, chat, resume, answer; and the runs that a command names."""

import sys
from contextlib import closing
from pathlib import Path

from handloom import config, wiring
from handloom.cli import codes
from handloom.cli.desk import Desk, Opener
from handloom.cli.ids import MANY, find
from handloom.cli.orders import Order, valid
from handloom.errors import ConfigError
from handloom.events import RunStarted
from handloom.journal import Store
from handloom.wiring.wishes import FLOW


def run(task: str, order: Order, *, go_on: bool) -> int:
    """A new run, or the next task in the last conversation of the folder. The exit code says how it ended."""
    loaded = loaded_for(order.folder())
    images = order.shown()
    last = _last_conversation(loaded, order.folder()) if go_on else ""
    desk = Desk(order)
    given = desk.given(images)
    if last:
        return desk.work(lambda: wiring.reopen(loaded, last, order.wishes(), given, task=task))
    return desk.work(lambda: wiring.begin(loaded, task, order.wishes(), given, workspace=order.folder()))


def resume(run_id: str, order: Order, *, answer: str | None = None) -> int:
    """Go on with a run; without an id with the newest that has not ended."""
    loaded, run_id = known_run(order, run_id)
    desk = Desk(order)
    return desk.work(lambda: wiring.reopen(loaded, run_id, order.wishes(), desk.given(), answer=answer))


def chat(order: Order) -> int:
    """One conversation, a task a line; ends at an empty line or the end of the input."""
    loaded = loaded_for(order.folder())
    run_id, code = "", codes.SUCCESS
    while task := _line():
        desk = Desk(order)
        code = desk.work(_next_task(loaded, order, desk, task, run_id))
        run_id = desk.run_id or run_id
    return code


def _next_task(loaded: config.Loaded, order: Order, desk: Desk, task: str, run_id: str) -> Opener:
    if run_id:
        return lambda: wiring.reopen(loaded, run_id, order.wishes(), desk.given(), task=task)
    return lambda: wiring.begin(loaded, task, order.wishes(), desk.given(), workspace=order.folder())


def _line() -> str:
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    return valid(sys.stdin.readline())


def loaded_for(folder: Path) -> config.Loaded:
    loaded = config.load(folder=folder)
    if loaded.untrusted is not None:
        print(f"handloom: {loaded.untrusted} is not used, `handloom config trust` allows it", file=sys.stderr)
    return loaded


def _last_conversation(loaded: config.Loaded, folder: Path) -> str:
    with closing(wiring.open_store(loaded)) as store:
        for summary in store.recent(MANY):
            if summary.workspace == str(folder) and not _is_of_flow(store, summary.id):
                return summary.id
    raise ConfigError(f"there is no earlier conversation in {folder}; run without -c")


def _is_of_flow(store: Store, run_id: str) -> bool:
    """Whether the run carries out a flow or makes a plan, and so is no conversation."""
    first = store.read(run_id, most=1)
    return bool(first) and isinstance(first[0], RunStarted) and FLOW in first[0].settings


def known_run(order: Order, run_id: str) -> tuple[config.Loaded, str]:
    """The run that is named, or the newest that can go on, with the settings of its workspace."""
    loaded = config.load(folder=order.folder())
    with closing(wiring.open_store(loaded)) as store:
        if run_id:
            summary = store.summary(find(store, run_id))
        else:
            waiting = (each for each in store.recent(MANY) if each.status in ("suspended", "running"))
            summary = next((each for each in waiting if not store.is_open(each.id)), None)
    if summary is None:
        raise ConfigError("no run waits to go on; `handloom runs list` shows them all")
    return loaded_for(Path(summary.workspace)), summary.id
