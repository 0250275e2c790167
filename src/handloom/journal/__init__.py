"""The record of runs: a protocol, and two ways to keep it."""

from handloom.journal.journal import Journal, RunSummary, Store, new_run_id, summarise
from handloom.journal.memory import MemoryStore

__all__ = ["Journal", "MemoryStore", "RunSummary", "Store", "new_run_id", "summarise"]
