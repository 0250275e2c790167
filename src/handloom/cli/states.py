"""The commands about what a run changed in its workspace."""

import asyncio
import sys
import time
from pathlib import Path

from handloom import config, wiring
from handloom.checkpoints import Checkpoints
from handloom.cli.ids import find
from handloom.errors import ConfigError, RunLockedError
from handloom.events import CheckpointMade
from handloom.state import State
from handloom.tools.results import clean


def diff(run_id: str) -> None:
    """The patch from the first kept state to the last, or to how the workspace is now while the run has not ended."""
    state, checkpoints, name = _known(run_id)
    asyncio.run(_diff(state, checkpoints, name))


async def _diff(state: State, checkpoints: Checkpoints, name: str) -> None:
    ended = state.status in ("success", "failed") and len(state.checkpoints) > 1
    last = state.checkpoints[-1].state if ended else await checkpoints.take(f"{name}/now")
    patch = await checkpoints.diff(state.checkpoints[0].state, last)
    if sys.stdout.isatty():
        sys.stdout.write(clean(patch))
    else:  # a patch in a file must be exact, and files hold any bytes
        sys.stdout.buffer.write(patch.encode("utf-8", "surrogateescape"))


def restore(run_id: str, turn: int | None) -> None:
    """Back to how the workspace was before a turn."""
    state, checkpoints, name = _known(run_id)
    if wiring.open_store(config.load()).is_open(name):
        raise RunLockedError(f"run {name} is being worked on; stop it first")
    kept = state.checkpoints[0] if turn is None else _of_turn(state.checkpoints, turn, name)
    now = asyncio.run(checkpoints.restore(kept.state, f"{name}/restored-{time.time_ns()}"))
    print(
        f"{state.workspace} is as it was before turn {kept.turn}; how it was until now is kept as {now[:12]}",
        file=sys.stderr,
    )


def _of_turn(kept: list[CheckpointMade], turn: int, name: str) -> CheckpointMade:
    """The state before this turn or, where that turn changed nothing, before the next one that did.

    The state that a task has left counts only where no turn follows: a person may have changed something before the next task.
    """
    later = [each for each in kept if each.turn >= turn]
    if not later:
        last = max(each.turn for each in kept)
        raise ConfigError(f"run {name} has no state before turn {turn}; the last one is before turn {last}")
    followed = [each for each in later if _is_of_turn(each)]
    return min(followed or later, key=lambda each: each.turn)


def _is_of_turn(kept: CheckpointMade) -> bool:
    return kept.span.rpartition("/")[2].startswith("turn-")


def _known(run_id: str) -> tuple[State, Checkpoints, str]:
    """The state of a run that has checkpoints, their store, and the run's id."""
    loaded = config.load()
    store = wiring.open_store(loaded)
    name = find(store, run_id)
    state = State()
    for event in store.read(name):
        state.apply(event)
    if not state.checkpoints:
        raise ConfigError(
            f"run {name} kept no state of its workspace: it changed nothing, or `handloom runs show {name}` says why"
        )
    return state, wiring.checkpoints_for(loaded, Path(state.workspace)), name
