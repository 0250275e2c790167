"""StateSource: something outside the conversation that an agent sees anew each turn (a browser, a working directory, a plan)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from handloom.messages import ImagePart
from handloom.runs import Run


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How a source looks now: values for placeholders, and images for models that take them."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    images: tuple[ImagePart, ...] = ()


class StateSource(Protocol):
    """Read before each request, while it is in use."""

    @property
    def next_step(self) -> str:
        """The next-step prompt to show instead of the agent's own while this source is in use; empty to keep the agent's."""
        ...

    def in_use(self, run: Run) -> bool: ...

    async def snapshot(self, run: Run) -> Snapshot: ...
