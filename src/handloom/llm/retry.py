"""Which failures of a service are worth another try, after how long, and what to tell the person about the rest."""

import random
import re
from dataclasses import dataclass

from handloom.errors import ContextOverflowError, ModelError, ModelRefusedError, ModelUnavailableError

ATTEMPTS = 6
LONGEST_WAIT = 120.0  # seconds; a service that asks for more is not waited for
_OVERFLOW = re.compile(
    r"context.{0,40}(length|size|window|exceed)|(prompt|input).{0,20}too (long|large)|maximum.{0,20}tokens|exceed.{0,30}context",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A failed request. `status` is 0 where no reply came; `retry_after` is in seconds."""

    status: int = 0
    code: str = ""
    text: str = ""
    retry_after: float | None = None

    @property
    def refuses_tools(self) -> bool:
        return (
            self.status in (400, 404, 422, 500)
            and "tool" in self.text.lower()
            and re.search(r"support|enabled|jinja|template|parser", self.text, re.IGNORECASE) is not None
        )

    @property
    def refuses_schema(self) -> bool:
        return (
            self.status in (400, 422, 500)
            and re.search(r"response_format|json_schema|grammar|structured", self.text, re.IGNORECASE) is not None
        )

    @property
    def overflows(self) -> bool:
        return self.code == "context_length_exceeded" or (
            self.status in (400, 413, 500) and _OVERFLOW.search(f"{self.code} {self.text}") is not None
        )


def delay(fault: Fault, attempt: int) -> float | None:
    """Seconds until the next try (`attempt` counts from 1), or None when asking again cannot help."""
    if not _may_pass(fault) or attempt >= ATTEMPTS:
        return None
    if fault.retry_after is not None:
        return fault.retry_after if fault.retry_after <= LONGEST_WAIT else None
    return min(30.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 - jitter


def final(fault: Fault, *, model: str, url: str, tries: int) -> ModelError:
    """The error for a request that is given up."""
    said = f"{fault.status or ''} {fault.text}".strip()[:500]
    if fault.overflows:
        return ContextOverflowError(f"the request is too long for {model}: {said}")
    match fault.status:
        case 401 | 403:
            return ModelRefusedError(
                f"{url} refused the key for {model} ({said}); check api_key_env in the config, or the key itself"
            )
        case 404:
            return ModelRefusedError(f"{url} has no model {model!r} ({said}); check `model` and `base_url`")
        case _ if not _may_pass(fault):
            return ModelRefusedError(f"{url} refused the request to {model}: {said}")
        case _:
            return ModelUnavailableError(f"{model} at {url} failed {tries} time{'s' if tries > 1 else ''}: {said}")


def _may_pass(fault: Fault) -> bool:
    if fault.overflows or fault.code == "insufficient_quota":
        return False
    return fault.status in (0, 200, 408, 409, 425, 429) or fault.status >= 500
