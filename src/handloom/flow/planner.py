"""Planner: from a goal to a checked plan, by asking a model; and a way around a step that has failed.

What is asked and replied is recorded under the span that a call is given, so a resumed run finds the plan it had and asks nothing twice.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from handloom.errors import FlowError
from handloom.events import MessageAdded, ModelReplied
from handloom.flow import check, files, graph
from handloom.flow.cache import StepCache
from handloom.flow.draft import DraftStep, Form, read
from handloom.flow.drafted import as_draft, drafted, instead_of
from handloom.flow.workers import AS_USUAL, Ask
from handloom.llm.model import Model, Request
from handloom.llm.profiles import Profile
from handloom.messages import Json, Message
from handloom.plans import Plan
from handloom.prompts import planner as prompts
from handloom.runs import Run

MOST_STEPS = 12
ATTEMPTS = 4  # the first one, and three with the reasons why the one before was refused
GOAL, VALUES, REASONS = 8_000, 4_000, 2_000  # characters
NOT_OFFERED = ("terminate", "planning", "read_result")
TYPES: tuple[tuple[type, str], ...] = (  # a bool is an int too, so it comes first
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
T = TypeVar("T")
Accept = Callable[[list[DraftStep]], T]


@dataclass(frozen=True, kw_only=True)
class ModelPlanner:
    """A planner that asks a model. `tools` gives those that steps may use, with a line about each; `agents` are the names of agents.

    `model` gives the model of a name, the planner's own for an empty one; `model` and `tools` are asked for at the first use. `cache` keeps plans by all that decides them; without one every plan is made anew.
    """

    model: Callable[[str], Awaitable[Model]]
    tools: Callable[[], Mapping[str, str]]
    agents: Sequence[str] = ()
    cache: StepCache | None = None
    most: int = MOST_STEPS

    async def plan(self, goal: str, values: Json, run: Run, ask: Ask = AS_USUAL) -> Plan:
        """The plan for a goal; `values` become its inputs. Raises: FlowError when no attempt was reasonable, ModelError."""
        model = ask.paced(await self.model(ask.model))
        form, tools = self._form(model.profile), self._offered(model.profile)
        given = {name: value for name, value in values.items() if _type(value)}

        def accept(steps: list[DraftStep]) -> Plan:
            return self._checked(goal, drafted(steps, inputs=given), given)

        shown = _cut(json.dumps(given, ensure_ascii=False, default=str), VALUES)
        opening = prompts.ASK.format(
            goal=_cut(goal, GOAL),
            values=f"\nValues, which a prompt can read as {{{{ inputs.NAME }}}}: {shown}" if given else "",
            form=form.example(),
            **tools,
        )
        return await self._asked(run, model, opening, form, accept, key=self.key(goal, values, model))

    async def revise(self, plan: Plan, comment: str, run: Run) -> Plan:
        """The plan as a person wants it changed. What a draft cannot say stays with the steps of the same name. Raises: FlowError, ModelError."""
        model = await self.model("")
        form, tools = self._form(model.profile), self._offered(model.profile)

        def accept(steps: list[DraftStep]) -> Plan:
            made = drafted(steps, inputs=plan.inputs, like=plan)
            return self._whole({**plan.as_json(), "steps": made})

        opening = prompts.REVISE.format(
            goal=_cut(plan.description or plan.name, GOAL),
            plan=json.dumps(as_draft(plan), ensure_ascii=False),
            comment=_cut(comment, GOAL),
            form=form.example(),
            **tools,
        )
        return await self._asked(run, model, opening, form, accept)

    async def replan(self, plan: Plan, failed: str, reason: str, run: Run, ask: Ask = AS_USUAL) -> Json:
        """Steps that take the place of one that failed, the last under its name; nothing when the model knows none. Raises: FlowError, ModelError."""
        model = ask.paced(await self.model(ask.model))
        needs = {name: step.needs for name, step in plan.steps.items()}
        before = graph.all_needs(failed, needs)
        earlier = [name for name in plan.steps if name in before]
        form = self._form(model.profile, earlier=earlier, optional=True)

        def accept(steps: list[DraftStep]) -> Json:
            return self._replacement(plan, failed, earlier, steps) if steps else {}

        opening = prompts.REPLAN.format(
            goal=_cut(plan.description or plan.name, GOAL),
            plan=json.dumps(as_draft(plan), ensure_ascii=False),
            failed=failed,
            reason=_cut(reason, REASONS),
            earlier=", ".join(earlier) or "nothing",
            form=form.example(),
            **self._offered(model.profile),
        )
        return await self._asked(run, model, opening, form, accept)

    def key(self, goal: str, values: Json, model: Model) -> str:
        """The key of a kept plan: the hash of all that decides it."""
        return hashlib.sha256(msgspec.json.encode(self.parts(goal, values, model), order="deterministic")).hexdigest()

    def parts(self, goal: str, values: Json, model: Model) -> Json:
        """What decides a plan."""
        return {
            "goal": goal,
            "values": json.loads(json.dumps(values, default=str)),
            "tools": self._tools(model.profile),
            "agents": self._agents(model.profile),
            "prompt": prompts.VERSION,
            "model": model.name,
            "most": self.most,
        }

    # What a plan may use: small models are offered what they can handle

    def _tools(self, profile: Profile) -> dict[str, str]:
        allowed = profile.tools
        return {
            name: line
            for name, line in self.tools().items()
            if name not in NOT_OFFERED and (allowed is None or name in allowed)
        }

    def _agents(self, profile: Profile) -> list[str]:
        return [] if profile.tools is not None else list(self.agents)

    def _form(self, profile: Profile, *, earlier: Sequence[str] = (), optional: bool = False) -> Form:
        return Form(
            tools=list(self._tools(profile)),
            agents=self._agents(profile),
            earlier=earlier,
            most=self.most,
            ordered=profile.tool_mode not in ("native", "auto"),
            optional=optional,
        )

    def _offered(self, profile: Profile) -> dict[str, str]:
        agents = self._agents(profile)
        lines = [f"- {name}: {line}" for name, line in self._tools(profile).items()]
        return {
            "tools": "\n".join(lines) or "(none)",
            "agents": f"\n\nAgents, where a step should be done by one with its own tools: {', '.join(agents)}"
            if agents
            else "",
        }

    # What is checked

    def _checked(self, goal: str, steps: Json, given: Json) -> Plan:
        inputs = {name: {"type": _type(value), "required": True} for name, value in given.items()}
        name = _cut(" ".join(goal.split()), 60) or "plan"
        return self._whole({"name": name, "description": _cut(goal, GOAL), "inputs": inputs, "steps": steps})

    def _whole(self, values: Json) -> Plan:
        plan = files.plan_of({key: value for key, value in values.items() if value or key == "steps"})
        check.check(plan, self._around())
        return plan

    def _replacement(self, plan: Plan, failed: str, earlier: Sequence[str], steps: list[DraftStep]) -> Json:
        first = [replace(step, name=f"{failed}-before") if step.name == failed else step for step in steps[:-1]]
        others = [name for name in plan.steps if name != failed and name not in earlier]
        made = drafted([*first, replace(steps[-1], name=failed)], inputs=plan.inputs, earlier=earlier, taken=others)
        changes = {**made, failed: instead_of(plan.steps[failed], made[failed])}
        whole = plan.as_json()
        self._whole({**whole, "steps": {**whole["steps"], **changes}})
        return changes

    def _around(self) -> check.Surroundings:
        tools = [name for name in self.tools() if name not in NOT_OFFERED]
        return check.Surroundings(agents=list(self.agents), tools=tools)

    # Asking

    async def _asked(self, run: Run, model: Model, opening: str, form: Form, accept: Accept[T], *, key: str = "") -> T:
        """What the model replies, once it is accepted; a refused reply goes back with the reasons."""
        if not run.memory.messages:
            await run.add(Message.user(opening, origin="task"))
            await self._recall(run, key)
        refused = sum(message.origin == "rejected" for message in run.memory.messages)
        while True:
            last = run.memory.messages[-1]
            if last.role == "assistant":
                try:
                    found = accept(read(last.text, self.most))
                except FlowError as error:
                    refused += 1
                    if refused >= ATTEMPTS:
                        raise FlowError(
                            f"no plan of {model.name} could be carried out in {ATTEMPTS} attempts; say the goal more exactly, or take another model. The last one:\n{error}"
                        ) from None
                    reasons = _cut(str(error), REASONS)
                    await run.add(Message.user(prompts.REFUSED.format(reasons=reasons), origin="rejected"))
                else:
                    self._keep(key, last.text)
                    return found
            await self._ask(run, model, form, refused)

    async def _ask(self, run: Run, model: Model, form: Form, refused: int) -> None:
        # A model at temperature 0 would write the same plan again.
        warmer = 0.5 if refused and model.profile.temperature is not None else None
        request = Request(
            system=prompts.SYSTEM.format(most=self.most),
            messages=tuple(run.memory.messages),
            schema=form.schema(),
            temperature=warmer,
        )
        async with run.turn() as turn:
            reply = await turn.unless_cancelled(model.complete(request, turn.emit))
            await turn.emit(
                ModelReplied(
                    message=reply.message,
                    usage=reply.usage,
                    model=reply.model,
                    mode=reply.mode,
                    finish=reply.finish,
                    seconds=reply.seconds,
                )
            )

    # The cache

    async def _recall(self, run: Run, key: str) -> None:
        """Take a kept reply in place of asking. It is recorded, so that the run no longer needs the cache."""
        entry = self.cache.get(key) if self.cache and key else None
        if entry is not None and isinstance(entry["output"], str):
            await run.warn("plan-cache", "the plan is taken from the cache; --no-cache makes a new one")
            await run.emit(MessageAdded(message=Message.assistant(entry["output"])))

    def _keep(self, key: str, text: str) -> None:
        if self.cache and key:
            self.cache.put(key, {"output": text})


def _type(value: object) -> str:
    """The type of an input that holds this value; empty for what is none."""
    return next((name for kind, name in TYPES if isinstance(value, kind)), "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
