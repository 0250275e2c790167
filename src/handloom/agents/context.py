"""Keeping a request within the model's context: when to compact, and who writes the summary."""

from dataclasses import replace

from handloom.errors import ContextOverflowError
from handloom.events import ContextCompacted
from handloom.llm.model import Model, Request
from handloom.memory import Compaction, Memory
from handloom.messages import Message, Usage
from handloom.runs import Run

SUMMARISE = (
    "You keep the notes of an agent at work. Write down what the transcript holds that it will still need: facts found with their exact values, "
    "files made or changed, what failed and why, what is left to do. At most 200 words, no introduction."
)
SUMMARY_TOKENS = 600


async def fit(run: Run, model: Model, request: Request, max_messages: int, *, share: float = 1.0) -> None:
    """Compact the memory of `run` until the request fits into `share` of the model's context.

    Raises: ContextOverflowError when even the task and the newest turn do not fit.
    """
    memory = run.memory
    budget = int(share * (model.profile.max_context - model.profile.max_output))

    def measure(messages: object) -> int:
        return model.estimate(replace(request, messages=tuple(messages)))  # pyright: ignore[reportArgumentType]  # a sequence of messages

    for _ in range(4):
        cut = memory.compaction(measure, budget, max_messages)
        if cut is None:
            break
        await run.emit(await _compacted(run, model, cut, budget))
    if memory.size(measure) > budget:
        raise ContextOverflowError(
            f"the task and the tools alone need {memory.size(measure):,} tokens and {model.name} has room for {budget:,}; shorten the task, "
            "give the agent fewer tools, or use a model with a larger context"
        )


async def _compacted(run: Run, model: Model, cut: Compaction, budget: int) -> ContextCompacted:
    memory = run.memory
    digest = memory.digest(cut.drop_to) if cut.drop_to > memory.drop_to else ""
    summary, usage = digest, Usage()
    if cut.summarise:
        written, usage = await _summary(run, model, _transcript(memory, cut, budget))
        summary = written or digest
    return ContextCompacted(shrink_to=cut.shrink_to, drop_to=cut.drop_to, keep=cut.keep, summary=summary, usage=usage)


async def _summary(run: Run, model: Model, transcript: str) -> tuple[str, Usage]:
    """A summary by the model; empty when it wrote none (a call, say), so that the caller can do without."""
    request = Request(system=SUMMARISE, messages=(Message.user(transcript),), max_tokens=SUMMARY_TOKENS)
    reply = await run.unless_cancelled(model.complete(request, run.emit))
    return reply.message.text.strip()[: 6 * SUMMARY_TOKENS], reply.usage


def _transcript(memory: Memory, cut: Compaction, budget: int) -> str:
    """What is dropped, as text that fits into half the budget."""
    dropped = [message for message in memory.messages[memory.drop_to : cut.drop_to] if message.origin != "next_step"]
    room = max(200, min(1_500, 2 * budget // 2 // max(1, len(dropped))))
    task = memory.task.text[:1_000] if memory.task else ""
    earlier = [f"Notes so far:\n{memory.summary}"] if memory.summary else []
    return "\n\n".join([f"Task: {task}", *earlier, *(_spoken(message, room) for message in dropped)])


def _spoken(message: Message, room: int) -> str:
    calls = "".join(f"\n{call.name} {call.arguments_json[:room]}" for call in message.tool_calls)
    who = {"user": "Note", "assistant": "Agent", "tool": f"Result of {message.name}"}[message.role]
    text = (
        message.text
        if len(message.text) <= room
        else f"{message.text[: room * 2 // 3]}\n[...]\n{message.text[-room // 3 :]}"
    )
    return f"{who}: {text}{calls}"
