"""Agent: the loop that thinks and acts until there is an answer.

The loop asks memory what is pending, so a run that was stopped anywhere goes on by entering the loop again.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from handloom.agents import advice, context
from handloom.agents.browsing import touches_web
from handloom.agents.calls import MOST_CALLS, run_calls
from handloom.agents.keeping import keep_after, keep_before
from handloom.agents.output import Output
from handloom.agents.recall import read_result
from handloom.agents.sources import Narrow, Snapshot, StateSource, WorkspaceFiles, as_it_is, not_there
from handloom.errors import ContextOverflowError
from handloom.events import ModelReplied
from handloom.llm.model import Model, Request
from handloom.memory import TERMINATE, Answer
from handloom.messages import Message, ToolCall, ToolSpec
from handloom.prompts import PromptTemplate, render
from handloom.runs import Run
from handloom.tools import Tool, Toolset

REMINDER = 300  # characters of the task that a next-step prompt may repeat


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A frozen recipe. `tools` may hold toolsets, which are read anew each turn; `values` fill the prompt's placeholders.

    `output` binds the answer to a form. `max_messages` bounds the window in whole turns, `max_calls` the calls of a reply.
    `later` names tools that are offered once the run touches the web, since every turn pays for each. `next_step_history="all"` shows every next-step prompt
    to the model instead of the newest alone.
    """

    name: str
    prompt: PromptTemplate
    model: Model
    tools: tuple[Tool | Toolset, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: tuple[StateSource, ...] = (WorkspaceFiles(),)
    output: Output | None = None
    max_messages: int = 100
    max_calls: int = MOST_CALLS
    later: frozenset[str] = frozenset()
    next_step_history: Literal["newest", "all"] = "newest"

    def _settles(self, run: Run) -> bool:
        """Whether the model is one that must be helped to end; on the web the same words may come from another page."""
        return self.model.profile.challenges > 0 and not touches_web(run)

    async def run(self, run: Run) -> Answer:
        """Work until there is an answer. Raises: RunStoppedError, ModelError."""
        while (answer := await self.answer(run)) is None:
            async with run.turn() as turn:
                calls = run.memory.pending_calls() or (await self.think(turn)).tool_calls
                await self.act(turn, calls)
        await keep_after(run, run.state.turn.get(run.span, 0))
        return answer

    async def answer(self, run: Run) -> Answer | None:
        """The answer in memory, once it has the form that was asked for."""
        answer = run.memory.answer()
        if answer is not None and (doubt := await self._doubt(run, answer)):
            await run.add(Message.user(doubt, origin="challenged"))
            return None
        if answer is None or self.output is None or answer.status == "failure":
            return answer
        problem = self.output.problem(answer.text)
        if problem:
            advice.check_rejections(run.memory, problem)
            form = msgspec.json.encode(self.output.schema).decode()
            words = f"This is no answer of the form asked for: {problem}. Give the whole answer again as JSON of this schema: {form}"
            await run.add(Message.user(words, origin="rejected"))
            return None
        return answer

    async def _doubt(self, run: Run, answer: Answer) -> str:
        """Why a model that must be helped should not end yet."""
        most = self.model.profile.challenges if self.tools else 0
        if doubt := advice.challenge(run.memory, most):
            return doubt
        if not most or answer.status == "failure" or run.memory.task is None:
            return ""
        names = await asyncio.to_thread(not_there, run.workspace, run.memory.task.text)
        return advice.missing(run.memory, names, most)

    async def think(self, run: Run) -> Message:
        """Show the model what there is now, and take in its reply."""
        narrow = await self._prepare(run)
        specs = [(tool.spec, narrow(tool.spec)) for tool in (await self.toolbox(run)).values()]
        # A rejected answer is known, only its form is not: nothing but the form is asked for.
        reform = run.memory.messages[-1].origin == "rejected"
        offered = () if reform else tuple(fitting or spec for spec, fitting in specs)
        withheld = {spec.name for spec, fitting in specs if fitting is None}
        withheld |= advice.withheld(run.memory, settles=self._settles(run))
        act = advice.must_act(run.memory)
        request = Request(
            system=render(self.prompt.system, self.values),
            tools=offered,
            withheld=frozenset(withheld | ({TERMINATE} if act else set())),
            act=act,
            schema=self.output.schema if self.output and not offered else None,
            temperature=advice.temperature(run.memory, self.model.profile.temperature or 0.0),
        )
        await context.fit(run, self.model, request, self.max_messages)
        try:
            reply = await self._ask(run, request)
        except ContextOverflowError:
            await context.fit(run, self.model, request, self.max_messages, share=0.6)
            reply = await self._ask(run, request)
        await run.emit(reply)
        return reply.message

    async def act(self, run: Run, calls: tuple[ToolCall, ...]) -> None:
        """Run the calls of a reply; each gets a result."""
        advice.check_calls(run.memory, calls)
        if calls:
            tools = await self.toolbox(run)
            await keep_before(run, calls, tools)
            await run_calls(run, calls, tools)

    async def toolbox(self, run: Run) -> dict[str, Tool]:
        """The tools of this moment by name; `read_result` is among them once there is something to read again."""
        found: dict[str, Tool] = {}
        for source in self.tools:
            for tool in [source] if isinstance(source, Tool) else await source.tools():
                if tool.name not in self.later or touches_web(run):
                    found.setdefault(tool.name, tool)
        if run.memory.has_short_results():
            found.setdefault(read_result.name, read_result)
        return found

    async def _prepare(self, run: Run) -> Narrow:
        """Add the loop's notes and the next-step prompt, unless a stopped run had got so far; how tools can be called now."""
        memory = run.memory
        if memory.messages and memory.messages[-1].origin in ("next_step", "rejected"):
            return as_it_is
        if note := advice.note(memory, settles=self._settles(run)):
            await run.add(Message.user(note, origin="note"))
        template = next(
            (source.next_step for source in self.sources if source.next_step and source.in_use(run)),
            self.prompt.next_step,
        )
        if not template:
            return as_it_is
        snapshot = await self._snapshot(run)
        text = render(template, {**self.values, "task": _brief_task(memory.task), **snapshot.values})
        await run.add(
            Message.user(text, origin="next_step", images=snapshot.images if self.model.profile.vision else ())
        )
        return snapshot.narrow

    async def _snapshot(self, run: Run) -> Snapshot:
        values: dict[str, str] = {}
        images = ()
        narrowing: list[Narrow] = []
        for source in self.sources:
            if source.in_use(run):
                snapshot = await source.snapshot(run)
                values |= snapshot.values
                images += snapshot.images
                narrowing.append(snapshot.narrow)

        def narrow(spec: ToolSpec) -> ToolSpec | None:
            fitting: ToolSpec | None = spec
            for one in narrowing:
                fitting = one(fitting) if fitting else None
            return fitting

        return Snapshot(values=values, images=images, narrow=narrow)

    async def _ask(self, run: Run, request: Request) -> ModelReplied:
        window = tuple(run.memory.window(all_next_steps=self.next_step_history == "all"))
        reply = await run.unless_cancelled(self.model.complete(replace(request, messages=window), run.emit))
        message = advice.ended(run.memory, reply.message) if self._settles(run) else reply.message
        return ModelReplied(
            message=_numbered(message, run.memory.calls_made, self.max_calls),
            usage=reply.usage,
            model=reply.model,
            mode=reply.mode,
            finish=reply.finish,
            seconds=reply.seconds,
        )


def _brief_task(task: Message | None) -> str:
    """The task as a reminder at the end of a request, where small models look."""
    text = " ".join(task.text.split()) if task else ""
    return text if len(text) <= REMINDER else f"{text[: REMINDER - 4]} ..."


def _numbered(message: Message, made: int, most: int) -> Message:
    """The reply with call ids of our own: nine characters, unique among those of the agent, whatever the service sent."""
    calls = tuple(
        msgspec.structs.replace(call, id=f"call{made + place:05d}")
        for place, call in enumerate(message.tool_calls[:most], 1)
    )
    return msgspec.structs.replace(message, tool_calls=calls)
