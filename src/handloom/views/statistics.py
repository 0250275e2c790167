"""Statistics over runs: how many succeeded, how long they took, what they used, and where they fail."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from handloom.messages import Json
from handloom.state import State
from handloom.tables import table

ENDED = ("success", "failed")
PERCENTS = (50, 90, 99)


@dataclass
class StepCount:
    """One step of a flow, over all runs of it; items of a `for_each` step count one by one."""

    status: Counter[str] = field(default_factory=Counter[str])
    attempts: int = 0
    tokens: int = 0
    seconds: list[float] = field(default_factory=list[float])


@dataclass
class Tally:
    """One tool, over all runs."""

    calls: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass
class Statistics:
    """Made by adding the states of runs."""

    status: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])
    tokens: list[int] = field(default_factory=list[int])
    cost: float = 0.0
    requests: int = 0
    steps: dict[tuple[str, str], StepCount] = field(default_factory=dict[tuple[str, str], StepCount])
    tools: dict[str, Tally] = field(default_factory=dict[str, Tally])

    def add(self, state: State) -> None:
        """Count one run."""
        self.status[state.status] += 1
        self.tokens.append(state.usage.total_tokens)
        self.cost += state.usage.cost
        self.requests += state.usage.calls
        if state.status in ENDED:
            self.seconds.append(state.seconds)
        for name, count in state.tools.items():
            tally = self.tools.setdefault(name, Tally())
            tally.calls += count.calls
            tally.failed += count.failed
            tally.seconds += count.seconds
        if state.plans:
            self._add_steps(state, state.plans[""].plan.get("name", "flow"))

    @property
    def success_rate(self) -> float | None:
        """The share of the runs that ended which succeeded; None when none ended."""
        ended = sum(self.status[status] for status in ENDED)
        return self.status["success"] / ended if ended else None

    def text(self) -> str:
        """Tables for people."""
        count = sum(self.status.values())
        if not count:
            return "no runs"
        states = ", ".join(f"{number} {status}" for status, number in self.status.most_common())
        rate = f", {self.success_rate:.0%} of those that ended succeeded" if self.success_rate is not None else ""
        lines = [f"{count} {'run' if count == 1 else 'runs'}: {states}{rate}"]
        if self.seconds:
            lines.append(f"seconds: {_shown(percentiles(self.seconds))}, in all {sum(self.seconds):.1f}")
        cost = f", {self.cost:.4f} USD" if self.cost else ""
        lines.append(
            f"tokens: {sum(self.tokens):,} in {self.requests:,} requests, {sum(self.tokens) // count:,} a run{cost}"
        )
        if self.steps:
            heading = ("flow", "step", "ended well", "failed", "skipped", "tries", "seconds p50", "p90", "tokens")
            lines += ["", *table([heading, *(_step_row(*key, step) for key, step in self.steps.items())])]
        if self.tools:
            rows = [
                (name, f"{one.calls:,}", f"{one.failed:,}", f"{one.failed / one.calls:.0%}", f"{one.seconds:.1f}")
                for name, one in sorted(self.tools.items(), key=lambda pair: -pair[1].calls)
            ]
            lines += ["", *table([("tool", "calls", "failed", "share", "seconds"), *rows])]
        return "\n".join(lines)

    def as_json(self) -> Json:
        """The same for programs."""
        return {
            "runs": sum(self.status.values()),
            "status": dict(self.status),
            "success_rate": self.success_rate,
            "seconds": percentiles(self.seconds),
            "tokens": sum(self.tokens),
            "requests": self.requests,
            "cost_usd": self.cost,
            "steps": [
                {
                    "flow": flow,
                    "step": name,
                    "status": dict(step.status),
                    "attempts": step.attempts,
                    "tokens": step.tokens,
                    "seconds": percentiles(step.seconds),
                }
                for (flow, name), step in self.steps.items()
            ],
            "tools": {
                name: {"calls": one.calls, "failed": one.failed, "seconds": one.seconds}
                for name, one in self.tools.items()
            },
        }

    def _add_steps(self, state: State, flow: str) -> None:
        for span, step in state.steps.items():
            # The spans of attempts and items are not steps of their own: `a#1/try-2/b` is the step `a/b`.
            parts = [part.partition("#")[0] for part in span.split("/") if not part.startswith("try-")]
            if step.items is not None:
                continue
            count = self.steps.setdefault((flow, "/".join(parts)), StepCount())
            count.status[step.status] += 1
            count.attempts += step.attempt
            count.tokens += step.usage.total_tokens
            if step.started and step.ended:
                count.seconds.append(max(0.0, step.ended - step.started))


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """`p50`, `p90` and `p99` by the nearest rank; nothing of nothing."""
    ordered = sorted(values)
    return {f"p{percent}": ordered[max(0, -(-percent * len(ordered) // 100) - 1)] for percent in PERCENTS if ordered}


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in found.items())


def _step_row(flow: str, name: str, step: StepCount) -> tuple[str, ...]:
    seconds = percentiles(step.seconds)
    return (
        flow,
        name,
        str(step.status["success"]),
        str(step.status["failed"] or ""),
        str(step.status["skipped"] or ""),
        str(step.attempts),
        f"{seconds['p50']:.1f}" if seconds else "",
        f"{seconds['p90']:.1f}" if seconds else "",
        f"{step.tokens:,}" if step.tokens else "",
    )
