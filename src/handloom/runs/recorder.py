"""Recorder: the one way in which a run changes. Events are stamped, saved, folded and shown, in this order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from handloom.events import Event, decode, encode
from handloom.journal import Journal
from handloom.redaction import Redactor
from handloom.state import State

log = logging.getLogger(__name__)

Reader = Callable[[Event], None]


@dataclass
class Recorder:
    """The journal of a run, the state that follows from it, and those who watch."""

    journal: Journal
    state: State
    clock: Callable[[], float]
    readers: list[Reader] = field(default_factory=list[Reader])
    redactor: Redactor = field(default_factory=Redactor)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def record(self, span: str, *events: Event) -> None:
        """Save the events together, fold them, show them to the readers; one call at a time."""
        if not any(event.durable for event in events):
            for event in events:
                self._publish(self._stamped(event, span, self.state.seq))
            return
        async with self._writing:
            stamped = [self._stamped(event, span, self.state.seq + place) for place, event in enumerate(events)]
            try:
                await self.journal.append(*stamped)
            except asyncio.CancelledError:
                self._take(stamped)  # they are saved: a journal lets a cancellation through when it has written
                raise
            self._take(stamped)

    def _take(self, saved: list[Event]) -> None:
        for event in saved:
            self.state.apply(event)
            self._publish(event)

    def _stamped(self, event: Event, span: str, seq: int) -> Event:
        # An event that names its span keeps it, so that one transaction can hold what happened to several steps.
        event = msgspec.structs.replace(event, run=self.journal.run, span=event.span or span, seq=seq, at=self.clock())
        return self._redacted(event) if self.redactor.values else event

    def _redacted(self, event: Event) -> Event:
        """The event without known secrets: what is recorded is what memory and readers get, so the model does not see them either."""
        data = encode(event)
        cleaned = self.redactor.clean_json(data)
        return event if cleaned is data else decode(cleaned)

    def _publish(self, event: Event) -> None:
        for reader in self.readers:
            try:
                reader(event)
            except Exception:
                log.exception("a reader of run %s failed on %s", self.journal.run, type(event).__name__)
