"""`runs stats`: how runs went, over many of them."""

import json
from contextlib import closing

from handloom import config, wiring
from handloom.state import State
from handloom.tools.results import clean
from handloom.views.statistics import Statistics


def show(limit: int, *, flow: str, as_json: bool) -> None:
    """A table for people, or one JSON object."""
    statistics = Statistics()
    with closing(wiring.open_store(config.load())) as store:
        for summary in store.recent(limit):
            state = State()
            for event in store.read(summary.id):
                state.apply(event)
            if not flow or (state.plans and state.plans[""].plan.get("name") == flow):
                statistics.add(state)
    if as_json:
        print(json.dumps(statistics.as_json(), ensure_ascii=False))
    else:
        print(clean(statistics.text()))
