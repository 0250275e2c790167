"""Which run a person means."""

from handloom.errors import ConfigError
from handloom.journal import Store

MANY = 10_000


def find(store: Store, run_id: str) -> str:
    """The run whose id begins so, or the newest. Raises: ConfigError when there is none, or more than one."""
    recent = store.recent(MANY)
    if not recent:
        raise ConfigError('there are no runs yet; `handloom run "..."` makes one')
    matching = [summary.id for summary in recent if summary.id.startswith(run_id)]
    if run_id and len(matching) > 1 and run_id not in matching:
        raise ConfigError(f"{run_id!r} is the beginning of {len(matching)} runs: {', '.join(matching[:5])}")
    return run_id if run_id in matching or not matching else matching[0]
