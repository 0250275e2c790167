"""Work: carrying out one attempt at a step, be it a prompt, a command or a tool."""

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from handloom.agents import Agent, Output, gate
from handloom.agents.calls import OUTPUT, CallContext
from handloom.errors import HandloomError, JournalError, RunStoppedError
from handloom.events import ArtifactAdded, Event, ToolCalled, ToolReturned
from handloom.flow import cache as caches
from handloom.flow import context, templates
from handloom.flow.cache import StepCache
from handloom.flow.order import Done, Failed, Order, Outcome
from handloom.flow.pace import Gates, PacedModel
from handloom.flow.shell import Ran
from handloom.flow.values import environment
from handloom.flow.workers import Ask, Job, Workers, single
from handloom.llm.model import Model
from handloom.messages import Json, Message, ToolCall, ToolResult
from handloom.plans import CacheRule
from handloom.runs import Run
from handloom.sandbox.once import OUTPUT as PRINTED
from handloom.tools import Tool
from handloom.tools.results import clean, cut

UNKNOWN = "interrupted, outcome unknown: the run stopped during this step; check what it did, then resume from it, or give it a `retry` of its own"
# What the policy is asked about a command: the same as about one of the tool of this name.
_BASH = Tool(name="bash", description="", parameters={}, call=lambda: None, effects=frozenset({"execute"}))
TOO_MUCH = f"it printed more than {PRINTED:,} bytes; write a file and name it under `artifacts`"
TAIL = 2_000  # characters of what a command wrote that stand in its reason


@dataclass(frozen=True)
class Work:
    """Carries out attempts in one run."""

    run: Run
    workers: Workers
    gates: Gates
    cache: StepCache | None = None
    context_tokens: int | None = None
    summing_up: context.Locks = field(default_factory=context.locks)

    async def do(self, order: Order) -> Outcome:
        """One attempt. Raises: RunStoppedError, ModelError, and other HandloomErrors as its failure."""
        match order.step.action:
            case "prompt":
                return await self._prompt(order)
            case "run":
                return await self._command(order)
            case _:
                return await self._tool(order)

    def ask(self, order: Order) -> Ask:
        """How a planner asks for this step: like the step itself, so that its pace and its limits hold."""
        return Ask(
            model=(order.step.model or "") if order.step.plan is not None else "",
            paced=lambda model: self._paced(order, model),
        )

    def _paced(self, order: Order, model: Model) -> PacedModel:
        return PacedModel(model, self.gates.of(model.name), order.limits, lambda: order.so_far)

    # Prompts

    async def _prompt(self, order: Order) -> Outcome:
        step, defaults = order.step, order.defaults
        agent_name = step.agent or ("" if step.tools == [] else defaults.agent)
        opened = await self.workers.model(step.model or defaults.model, agent_name)
        model = self._paced(order, opened)
        output = Output.of(step.output) if step.output is not None else None
        system = self._text(order, step.system or defaults.system)
        tools = None if step.tools is None else tuple(step.tools)
        job = Job(agent=agent_name, model=model, tools=tools, system=system, output=output)
        async with self.run.apart(order.span) as run:
            agent = single(job) if job.is_single else self.workers.agent(job, run)
            memory = order.state.memories.get(order.span)
            asked = memory is not None and memory.task is not None
            prompt = "" if asked else await self._rendered(order, run, model)
            if not asked and not prompt:
                return Failed(reason=_nothing_to_ask(order), final=True)
            key = "" if asked else self._key(order, prompt, _described(agent))
            if found := self._cached(key, order):
                return found
            if not asked:
                await run.add(Message.user(prompt, origin="task"))
            answer = await agent.run(run)
        if answer.status == "failure":
            return Failed(reason=answer.text or "the agent says it failed")
        value = output.parse(answer.text) if output else answer.text
        return self._kept(key, order, Done(output=value))

    async def _rendered(self, order: Order, run: Run, model: PacedModel) -> str:
        """The prompt of an attempt; a further one is told why the last was refused. Empty when nothing was filled in."""
        source = templates.template(order.step.prompt or "")
        values = order.values(source.reads)
        text = await context.fitted(run, order.known, model, values, source.fill, self.context_tokens, self.summing_up)
        if not text.strip():
            return ""
        if order.so_far.failures and order.so_far.reason:
            text += (
                f"\n\nThe last attempt was refused: {order.so_far.reason}\nDo it again, so that this does not happen."
            )
        return text

    # Commands

    async def _command(self, order: Order) -> Outcome:
        given: Json = templates.fill_all(order.step.with_, order.values(*templates.reads(order.step.with_)))
        values = environment(order.known, order.name, given, order.local)
        texts = {name: templates.as_text(value) for name, value in values.items()}
        key = self._key(order, order.step.run or "", texts)
        if found := self._cached(key, order):
            return found
        call = ToolCall(id=f"call{order.attempt:05d}", name=_BASH.name, arguments={"command": order.step.run})
        if refused := await self._refusal(order, call, _BASH, self._calling(order, call)):
            return refused
        ran = await self.workers.shell(order.step.run or "", texts, self.run)
        if ran.code or ran.fate:
            return Failed(reason=_ending(ran))
        if ran.cut:
            return Failed(reason=TOO_MUCH, final=True)
        return self._kept(key, order, self._read(order, ran.out.removesuffix("\n")))

    # Tools

    async def _tool(self, order: Order) -> Outcome:
        name = order.step.tool or ""
        tool = self.workers.tool(name)
        call = ToolCall(id=f"call{order.attempt:05d}", name=name, arguments=self._arguments(order))
        run = self._calling(order, call)
        key = self._key(order, name, call.arguments)
        if found := self._cached(key, order):
            return found
        if refused := await self._refusal(order, call, tool, run):
            return refused
        started = time.monotonic()
        result = await gate.checked(run, call, tool, await _called(tool, call, run))
        told = msgspec.structs.replace(result, text=cut(clean(result.text), OUTPUT))
        returned = ToolReturned(span=run.span, call=call, result=told, seconds=round(time.monotonic() - started, 3))
        if not result.ok:
            return Failed(reason=told.text or f"{name} failed", events=(returned,))
        outcome = self._read(order, result.text)
        return self._kept(key, order, _recorded(outcome, returned))

    def _calling(self, order: Order, call: ToolCall) -> Run:
        return self.run.child(f"{order.span}/call-{call.id}")

    async def _refusal(self, order: Order, call: ToolCall, tool: Tool, run: Run) -> Failed | None:
        """Why a call is not made: nobody knows whether it was made before a crash, or it is not allowed. Raises: SuspendedError, DeniedError."""
        if order.again and not tool.repeatable and not _had_not_begun(order, run):
            return Failed(reason=UNKNOWN, unknown=True)
        if refused := await gate.refusal(run, call, tool):
            returned = ToolReturned(span=run.span, call=call, result=refused)
            return Failed(reason=refused.text, final=True, events=(returned,))
        if f"{run.span}?{gate.APPROVAL}" in order.state.questions:
            await run.emit(
                ToolCalled(call=call)
            )  # else nothing would tell a call that waits to be allowed from one that was
        return None

    def _arguments(self, order: Order) -> Json:
        if not order.step.with_:
            return {}
        return templates.fill_all(order.step.with_, order.values(*templates.reads(order.step.with_)))

    # What is common to them

    def _text(self, order: Order, text: str) -> str:
        return templates.fill(text, order.values(templates.template(text).reads)) if "{" in text else text

    def _read(self, order: Order, text: str) -> Outcome:
        """What a command or a tool said; read as JSON and checked where the step says what it must be."""
        if order.step.output is None:
            return Done(output=text)
        output = Output.of(order.step.output)
        if problem := output.problem(text):
            return Failed(reason=f"its output is not what `output` says: {problem}")
        return Done(output=output.parse(text))

    def _with_artifacts(self, order: Order, done: Done) -> Outcome:
        """The outcome with the files that the step promised, which must be there."""
        if not order.step.artifacts:
            return done
        found: list[Event] = []
        for name in order.step.artifacts:
            path = self.run.workspace / name
            if not path.exists():
                return Failed(reason=f"it was to make {name}, and there is no such file", events=done.events)
            found.append(ArtifactAdded(span=order.span, path=str(path)))
        return Done(output=done.output, events=(*done.events, *found), cached=done.cached)

    # The cache

    def _key(self, order: Order, what: str, how: Any) -> str:
        """The key of this attempt; empty where nothing is kept."""
        rule = order.step.cache
        if self.cache is None or rule is False:
            return ""
        parts: Json = {
            "action": order.step.action,
            "what": what,
            "how": how,
            "output": order.step.output,
            "artifacts": order.step.artifacts,
        }
        return caches.key_of(parts, rule.files if isinstance(rule, CacheRule) else (), self.run.workspace)

    def _cached(self, key: str, order: Order) -> Outcome | None:
        entry = self.cache.get(key) if self.cache and key and order.attempt == 1 else None
        if entry is None or not caches.fits(entry, self.run.workspace):
            return None
        return self._with_artifacts(order, Done(output=entry["output"], cached=True))

    def _kept(self, key: str, order: Order, outcome: Outcome) -> Outcome:
        """The outcome with the files that the step promised, kept for other runs when they are there."""
        outcome = self._with_artifacts(order, outcome) if isinstance(outcome, Done) else outcome
        if self.cache and key and isinstance(outcome, Done):
            files = caches.made(order.step.artifacts, self.run.workspace)
            self.cache.put(key, {"output": outcome.output, "files": files})
        return outcome


def _nothing_to_ask(order: Order) -> str:
    return f"its prompt is empty: nothing was filled in for {cut((order.step.prompt or '').strip(), 200)!r}"


def _recorded(outcome: Outcome, returned: ToolReturned) -> Outcome:
    """The outcome of a call, with its record."""
    if isinstance(outcome, Done):
        return Done(output=outcome.output, events=(returned,))
    return Failed(reason=outcome.reason, events=(returned,))


async def _called(tool: Tool, call: ToolCall, run: Run) -> ToolResult:
    """The result of a tool; whatever it raises is its failure, but for what stops the run."""
    try:
        return await tool.run(call.arguments, CallContext(run, call))
    except (RunStoppedError, JournalError):
        raise
    except HandloomError as error:
        return ToolResult(text=str(error), ok=False)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the record says what
        return ToolResult(text=f"the tool {tool.name} broke: {type(error).__name__}: {error}", ok=False)


def _had_not_begun(order: Order, run: Run) -> bool:
    """Whether a call that was under way had stopped to ask a person, so that it is known where it stopped."""
    asked = [identity for identity in order.state.questions if identity.startswith(f"{run.span}?")]
    if any(not identity.endswith(f"?{gate.APPROVAL}") for identity in asked):
        return True
    return bool(asked) and run.span not in order.state.open_calls


def _ending(ran: Ran) -> str:
    said = cut((ran.err.strip() or ran.out.strip()), TAIL)
    return f"{ran.fate or f'exit code {ran.code}'}{f': {said}' if said else ''}"


def _described(agent: Agent) -> Json:
    """What of an agent decides its answer, for the cache."""
    tools = [msgspec.to_builtins(tool.spec) if isinstance(tool, Tool) else type(tool).__name__ for tool in agent.tools]
    return {
        "agent": agent.name,
        "model": agent.model.name,
        "system": agent.prompt.system,
        "next_step": agent.prompt.next_step,
        "values": dict(agent.values),
        "tools": tools,
    }
