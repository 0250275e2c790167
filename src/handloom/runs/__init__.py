"""A run: one durable execution, its limits, its result, what it keeps open."""

from handloom.runs.limits import Limits
from handloom.runs.recorder import Reader
from handloom.runs.resources import Closeable
from handloom.runs.result import RunResult
from handloom.runs.run import Asker, Run
from handloom.runs.safety import Safety

__all__ = ["Asker", "Closeable", "Limits", "Reader", "Run", "RunResult", "Safety"]
