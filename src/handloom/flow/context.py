"""Keeping a step's prompt within a budget of tokens: older outputs are summarised once, then the oldest are left out, and the record says so."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from handloom.events import StepSummarised, WarningRaised
from handloom.flow import spans, templates
from handloom.flow.values import Known, aliases
from handloom.llm.model import Model, Request
from handloom.messages import Json, Message
from handloom.runs import Run

SUMMARISE = (
    "You shorten the result of one step of a larger work for the steps that follow. Keep facts, names, numbers, file names and open questions exactly; leave out how they "
    "were found. At most 200 words, no introduction."
)
SUMMARY_TOKENS = 600
SHARE = 0.6  # of the model's context that a prompt may take; the rest is for the work on it
WORTH = 200  # tokens; a shorter output is not worth a summary
Fill = Callable[[Json], str]
Locks = defaultdict[str, asyncio.Lock]


def locks() -> Locks:
    """One lock for each step whose output is summarised: those who read it at the same time wait for one summary."""
    return defaultdict(asyncio.Lock)


async def fitted(
    run: Run, known: Known, model: Model, values: Json, fill: Fill, budget: int | None, summing_up: Locks
) -> str:
    """The prompt, with outputs shortened until it fits.

    `fill` makes the prompt of values; `run` is that of the step. A prompt that is still too long goes as it is: the model's own limit decides then.
    """
    allowed = budget or int(SHARE * (model.profile.max_context - model.profile.max_output))
    text = fill(values)
    if _tokens(model, text) <= allowed:
        return text
    oldest = sorted(_outputs(known, values), key=lambda name: known.state.step(spans.inside(known.scope, name)).ended)
    for shorten in (_summarised, _left_out):
        for name in oldest:
            async with summing_up[spans.inside(known.scope, name)]:
                short = await shorten(run, known, model, name)
            if short:
                _replace(values, name, short)
                text = fill(values)
            if _tokens(model, text) <= allowed:
                return text
    return text


async def _summarised(run: Run, known: Known, model: Model, name: str) -> str:
    """The summary of a step's output, written once; empty where the output is short enough already."""
    unit = spans.inside(known.scope, name)
    if known_summary := known.state.step(unit).summary:
        return known_summary
    text = _text(known, name)
    if _tokens(model, text) < WORTH:
        return ""
    room = 3 * (model.profile.max_context - model.profile.max_output) // 2
    shown = text if len(text) <= room else f"{text[: room * 2 // 3]}\n[...]\n{text[-room // 3 :]}"
    request = Request(system=SUMMARISE, messages=(Message.user(shown),), max_tokens=SUMMARY_TOKENS)
    reply = await run.unless_cancelled(model.complete(request, run.emit))
    summary = reply.message.text.strip()[: 6 * SUMMARY_TOKENS] or f"{text[:600]} [...]"
    if len(summary) >= len(text):
        return ""
    await run.emit(StepSummarised(span=unit, summary=summary, asked_by=run.span, usage=reply.usage))
    return summary


async def _left_out(run: Run, known: Known, model: Model, name: str) -> str:
    text = _text(known, name)
    if _tokens(model, text) < WORTH and not known.state.step(spans.inside(known.scope, name)).summary:
        return ""
    await run.emit(
        WarningRaised(
            topic="context", text=f"the output of {name!r} is left out of the prompt, which has no room for it"
        )
    )
    return f"[the output of {name}, {len(text):,} characters, is left out]"


def _outputs(known: Known, values: Json) -> list[str]:
    """The steps whose outputs are among the values."""
    flat = [name for alias, name in known.flat.items() if alias in values]
    return list(dict.fromkeys([*values.get("steps", {}), *flat]))


def _replace(values: Json, name: str, short: str) -> None:
    if name in values.get("steps", {}):
        values["steps"][name] = {**values["steps"][name], "output": short}
    for alias in aliases([name]):
        if alias in values:
            values[alias] = short


def _text(known: Known, name: str) -> str:
    return templates.as_text(known.output(name))


def _tokens(model: Model, text: str) -> int:
    return model.estimate(Request(messages=(Message.user(text),)))
