"""Checking a plan before it runs: everything that is wrong with it, each mistake with its place and what was meant."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from handloom.errors import FlowError, TemplateError
from handloom.flow import files, graph, inputs, templates
from handloom.flow.problems import Path, Problem, listed, meant
from handloom.flow.templates import Reads, Template
from handloom.flow.values import aliases, tool_of
from handloom.flow.yaml import Document
from handloom.messages import is_list, is_object
from handloom.plans import Plan, Step

DEEPEST = 8  # flows within flows


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What there is outside of a plan; None is not looked at. `folder` is where sub-flows are."""

    agents: Collection[str] | None = None
    tools: Collection[str] | None = None
    folder: File | None = None
    plans: bool = True  # whether someone is there to carry out `plan` steps and `replan`


ANYTHING = Surroundings()


def check(plan: Plan, around: Surroundings = ANYTHING, document: Document | None = None) -> None:
    """Raises: FlowError with every mistake of the plan."""
    document = document or Document()
    found = problems(plan, around)
    if found:
        raise FlowError(
            *(document.problem(problem.path, problem.text) if not problem.source else problem for problem in found)
        )


def problems(plan: Plan, around: Surroundings = ANYTHING, *, depth: int = 0) -> list[Problem]:
    """Everything that is wrong with a plan."""
    needs = {name: step.needs for name, step in plan.steps.items()}
    found = [*_too_many(plan), *_inputs(plan), *_needs(plan)]
    if path := graph.circle(needs):
        found.append(
            Problem(
                ("steps", path[0], "needs"),
                f"the steps wait for each other: {' -> '.join(path)}; one of these needs must go",
            )
        )
    reader = _Reader(plan, needs)
    for name, step in plan.steps.items():
        found += reader.step(name, step)
        found += _names(plan, name, step, around)
        found += _forms(name, step)
        if step.flow is not None:
            found += _subflow(("steps", name), step, around, depth)
    found += reader.templates("", ("outputs",), plan.outputs, local=())
    return found


def _too_many(plan: Plan) -> list[Problem]:
    most = plan.limits.max_steps
    if len(plan.steps) <= most:
        return []
    return [Problem(("steps",), f"{len(plan.steps)} steps are more than limits.max_steps allows ({most})")]


def _inputs(plan: Plan) -> list[Problem]:
    found: list[Problem] = []
    for name, form in plan.inputs.items():
        path = ("inputs", name)
        if form.required and form.default is not None:
            found.append(Problem((*path, "default"), "an input that is required has no default; remove one of the two"))
        elif "default" in form.model_fields_set and form.default is not None:
            found += [
                Problem((*path, "default"), f"the default does not fit: {fault.text}")
                for fault in inputs.faults(path, form, form.default)
            ]
    return found


def _needs(plan: Plan) -> list[Problem]:
    found: list[Problem] = []
    for name, step in plan.steps.items():
        for at, other in enumerate(step.needs):
            path = ("steps", name, "needs", at)
            if other == name:
                found.append(Problem(path, "a step cannot need itself; use repeat for a loop"))
            elif other not in plan.steps:
                found.append(Problem(path, f"there is no step {other!r}; {meant(other, plan.steps)}"))
            elif other in step.needs[:at]:
                found.append(Problem(path, f"{other!r} stands here twice"))
    return found


def _names(plan: Plan, name: str, step: Step, around: Surroundings) -> Iterable[Problem]:
    path: Path = ("steps", name)
    agent = step.agent
    if agent and around.agents is not None and agent not in around.agents:
        yield Problem((*path, "agent"), f"there is no agent {agent!r}; {meant(agent, around.agents)}")
    asked = [((*path, "tools", at), tool) for at, tool in enumerate(step.tools or [])]
    asked += [((*path, "tool"), step.tool)] if step.tool is not None else []
    for place, tool in asked:
        if around.tools is not None and tool not in around.tools:
            yield Problem(place, f"there is no tool {tool!r}; {meant(tool, around.tools, shown=20)}")
    if not around.plans and step.plan is not None:
        yield Problem(
            (*path, "plan"),
            "nobody is there to make plans while the flow runs; give a planner, or write the steps down",
        )
    if not around.plans and (step.on_error or plan.defaults.on_error) == "replan":
        yield Problem((*path, "on_error"), "nobody is there to plan anew; use fail, skip or continue")


def _forms(name: str, step: Step) -> Iterable[Problem]:
    import jsonschema_rs

    path: Path = ("steps", name)
    if step.output is not None:
        try:
            jsonschema_rs.validator_for(step.output)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            yield Problem((*path, "output"), f"this is no valid JSON Schema: {str(error).splitlines()[0]}")
    for field, text in (
        ("prompt", step.prompt),
        ("run", step.run),
        ("tool", step.tool),
        ("plan", step.plan),
        ("flow", step.flow),
    ):
        if text is not None and not text.strip():
            yield Problem((*path, field), "this is empty")
    if step.run is not None and "\x00" in step.run:
        yield Problem((*path, "run"), "a command cannot hold the character NUL")
    if step.run is not None:
        for key in step.with_:
            if not key.isidentifier() or not key.isascii():
                yield Problem(
                    (*path, "with", key), "the values of a run step are variables of its shell: letters, digits and _"
                )


def _subflow(path: Path, step: Step, around: Surroundings, depth: int) -> list[Problem]:
    """The mistakes of the file that a step runs, and whether it gets the inputs it needs."""
    assert step.flow is not None  # noqa: S101 - asked by the caller
    if around.folder is None or "{{" in step.flow:
        return []
    if depth >= DEEPEST:
        return [Problem((*path, "flow"), f"flows within flows go deeper than {DEEPEST}; does one run itself?")]
    file = around.folder / step.flow
    below = Surroundings(agents=around.agents, tools=around.tools, folder=file.parent, plans=around.plans)
    try:
        plan, document = files.load(file)
        found = problems(plan, below, depth=depth + 1)
    except FlowError as error:
        return [Problem((*path, "flow"), str(error))]
    if found and depth + 1 >= DEEPEST:
        return [Problem((*path, "flow"), found[0].text)]
    unknown = [key for key in step.with_ if key not in plan.inputs]
    missing = [key for key, form in plan.inputs.items() if form.required and key not in step.with_]
    return [
        *(
            Problem(each.path, each.text, each.line, each.column, each.source or step.flow)
            for each in (document.problem(one.path, one.text) for one in found)
        ),
        *(
            Problem((*path, "with", key), f"{step.flow} has no input {key!r}; {meant(key, plan.inputs)}")
            for key in unknown
        ),
        *(Problem((*path, "flow"), f"{step.flow} needs the input {key!r}: give it under `with`") for key in missing),
    ]


class _Reader:
    """Checks that templates read what is there for them."""

    def __init__(self, plan: Plan, needs: Mapping[str, Iterable[str]]) -> None:
        self.plan = plan
        self.needs = needs
        self.flat = aliases(plan.steps)

    def step(self, name: str, step: Step) -> list[Problem]:
        path: Path = ("steps", name)
        looped = ("item", "index") if step.for_each is not None else ()
        rounds = ("previous", "round") if step.repeat else ()
        local = (*looped, *rounds)
        found: list[Problem] = []
        for field in ("prompt", "system", "plan", "flow"):
            found += self.templates(name, (*path, field), getattr(step, field), local=local)
        found += self.templates(name, (*path, "with"), step.with_, local=local)
        found += self.templates(name, (*path, "for_each"), step.for_each, local=())
        if step.approval:
            found += self.templates(name, (*path, "approval", "message"), step.approval.message, local=())
        if step.if_:
            found += self.expression(name, (*path, "if"), step.if_, local=())
        if step.repeat:
            found += self.expression(name, (*path, "repeat", "until"), step.repeat.until, local=(*local, "output"))
        if step.run is not None:
            found += self._shell((*path, "run"), step.run)
        return found

    def templates(self, name: str, path: Path, value: Any, *, local: tuple[str, ...]) -> list[Problem]:
        """The mistakes of all texts in a value."""
        if isinstance(value, str):
            return self._text(name, path, value, templates.template, local) if "{" in value else []
        if is_object(value):
            return [
                problem
                for key, item in value.items()
                for problem in self.templates(name, (*path, key), item, local=local)
            ]
        if is_list(value):
            return [
                problem
                for at, item in enumerate(value)
                for problem in self.templates(name, (*path, at), item, local=local)
            ]
        return []

    def expression(self, name: str, path: Path, text: str, *, local: tuple[str, ...]) -> list[Problem]:
        return self._text(name, path, text, templates.expression, local)

    def _text(self, name: str, path: Path, text: str, read: Any, local: tuple[str, ...]) -> list[Problem]:
        try:
            found: Template = read(text)
        except TemplateError as error:
            return [Problem(path, str(error))]
        return [Problem(path, said) for said in self._reads(name, found.reads, local)]

    def _reads(self, name: str, reads: Reads, local: tuple[str, ...]) -> Iterable[str]:
        for each in reads.unclear:
            yield f"{each}[...] must have a name in quotes, so that it can be checked"
        for key in sorted(reads.inputs - set(self.plan.inputs)):
            yield f"there is no input {key!r}; {meant(key, self.plan.inputs)}"
        for other in sorted(reads.steps):
            yield from self._reached(name, other)
        for key in sorted(reads.names - {"inputs", "steps", "tool_results", *local, *templates.functions()}):
            if key in self.flat:
                yield from self._reached(name, self.flat[key])
            elif tool := tool_of(key):
                yield from self._tool(name, tool)
            elif key in ("item", "index"):
                yield f"{key!r} is there for steps with for_each only, and not in `if`, `approval` and `for_each` itself"
            elif key in ("previous", "round", "output"):
                yield f"{key!r} is there for steps with repeat only ('output' in `until` only)"
            else:
                yield f"there is no {key!r}; {meant(key, ['inputs', 'steps', *local, *self.flat])}"

    def _reached(self, name: str, other: str) -> Iterable[str]:
        if other not in self.plan.steps:
            yield f"there is no step {other!r}; {meant(other, self.plan.steps)}"
        elif other == name:
            yield "a step cannot read its own output; with repeat it has `previous`"
        elif name and other not in self.needs[name] and other not in graph.all_needs(name, self.needs):
            yield f"this reads the step {other!r}, which is not among its needs; add it to `needs`"

    def _tool(self, name: str, tool: str) -> Iterable[str]:
        using = [one for one, step in self.plan.steps.items() if step.tool == tool]
        before = graph.all_needs(name, self.needs) if name else set(self.plan.steps)
        if not using:
            yield f"no step uses the tool {tool!r}, so it has no result"
        elif not set(using) & before:
            yield f"this reads the result of {tool!r}, so it must need a step that uses it: {listed(using)}"

    def _shell(self, path: Path, text: str) -> list[Problem]:
        """Values reach a command as variables, never as text of the command: so they can hold anything."""
        if "{{" not in text:
            return []
        try:
            reads = templates.template(text).reads
        except TemplateError:
            return []  # braces of another language
        mine = {"inputs", "steps", "item", "index", "previous", "round", "tool_results"}
        if not reads.names & mine and reads.names.isdisjoint(self.flat):
            return []
        return [
            Problem(
                path,
                'a command is not filled in; its values are variables: "$input_NAME", "$step_NAME_output", "$item", or names of your own under `with`',
            )
        ]
