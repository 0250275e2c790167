"""The commands for flows: run, check, graph, schema; and resuming one from a step."""

import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from handloom import config, wiring
from handloom.cli import codes
from handloom.cli.desk import Desk
from handloom.cli.orders import Order
from handloom.cli.work import known_run, loaded_for
from handloom.errors import ConfigError
from handloom.flow import draw, files, inputs
from handloom.flow.flow import Flow
from handloom.messages import Json
from handloom.state import State
from handloom.wiring import flows
from handloom.wiring.wishes import Given

FORMATS = {"mermaid": draw.mermaid, "json": draw.as_json, "text": draw.text}


def run(path: Path, given: Iterable[str], order: Order) -> int:
    """Carry out a flow; the answer goes to standard output, the report of its steps to standard error."""
    loaded = loaded_for(order.folder())
    flow = Flow.load(path)
    values = inputs.read(given, flow.plan.inputs)
    desk = Desk(order)
    return desk.work(
        lambda: flows.begin_flow(loaded, flow, values, order.wishes(), desk.given(), workspace=order.folder())
    )


def resume(run_id: str, again: Iterable[str], given: Iterable[str], order: Order) -> int:
    """Go on with the run of a flow, from a step or with other inputs."""
    loaded, run_id = known_run(order, run_id)
    values = _values(loaded, run_id, given)
    desk = Desk(order)
    return desk.work(
        lambda: wiring.reopen(loaded, run_id, order.wishes(), desk.given(), again=tuple(again), values=values)
    )


def check(path: Path) -> int:
    """Find every mistake of a flow file that can be found without running it."""
    flow = Flow.load(path)
    # `plan` steps are for a run that has a planner; the file itself is right.
    flow.check(flows.known_to(Given(), flow.folder))
    steps = len(flow.plan.steps)
    print(f"{path}: {steps} {'step' if steps == 1 else 'steps'}, no mistakes found")
    return codes.SUCCESS


def graph(path: Path, form: str) -> int:
    """Draw a flow."""
    if form not in FORMATS:
        raise ConfigError(f"there is no format {form!r}; there are: {', '.join(FORMATS)}")
    print(FORMATS[form](Flow.load(path).plan))
    return codes.SUCCESS


def schema() -> int:
    """The JSON Schema of a flow file."""
    print(json.dumps(files.json_schema(), ensure_ascii=False, indent=2))
    return codes.SUCCESS


def _values(loaded: config.Loaded, run_id: str, given: Iterable[str]) -> Json:
    """The new inputs of a run, read by the types that its plan declares."""
    words = list(given)
    if not words:
        return {}
    from handloom.plans import Plan

    state = _state(loaded, run_id)
    if not state.plans:
        raise ConfigError(f"run {run_id} is not one of a flow: it has no inputs")
    return inputs.read(words, Plan.model_validate(state.plans[""].plan).inputs)


def _state(loaded: config.Loaded, run_id: str) -> State:
    """How a run stands, from its record."""
    state = State()
    with closing(wiring.open_store(loaded)) as store:
        for event in store.read(run_id):
            state.apply(event)
    return state
