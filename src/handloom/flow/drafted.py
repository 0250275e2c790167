"""From a draft to real steps: names that can stand in a span, needs by name, and what came before put into each prompt."""

import re
from collections.abc import Iterable, Sequence

from handloom.errors import FlowError, TemplateError
from handloom.flow import graph, templates
from handloom.flow.draft import DraftStep
from handloom.flow.problems import Problem, meant
from handloom.flow.values import aliases
from handloom.messages import Json
from handloom.plans import Plan, Step
from handloom.plans.plan import step_name

_REFERENCE = re.compile(r"\{\{.*?\b(steps|inputs|step_\w+)\b.*?\}\}", re.DOTALL)
_BRACES = re.compile(r"\{[{%#]|[}%#]\}")
KEPT = ("output", "artifacts", "approval", "retry", "timeout", "on_error", "limits")  # what replaces a step keeps of it


def drafted(
    drafts: Sequence[DraftStep],
    *,
    inputs: Iterable[str] = (),
    earlier: Iterable[str] = (),
    taken: Iterable[str] = (),
    like: Plan | None = None,
) -> dict[str, Json]:
    """The steps by name, as a flow file has them. `earlier` are steps that may be needed and are not among the drafts, `taken` names of others; a
    step of `like` whose name a draft has keeps what a draft cannot say.

    Raises: FlowError for needs of nothing, for circles and for references that do not resolve.
    """
    earlier, inputs = list(earlier), list(inputs)
    names = _names(drafts, {*earlier, *taken})
    problems: list[Problem] = []
    needs = {
        name: _needs(draft, name, drafts, names, earlier, problems) for name, draft in zip(names, drafts, strict=True)
    }
    known = [*earlier, *names]
    steps: dict[str, Json] = {}
    for name, draft in zip(names, drafts, strict=True):
        prompt, also = _prompt(name, draft, needs[name], known, inputs, problems)
        needs[name] = list(dict.fromkeys((*needs[name], *also)))
        steps[name] = _step(draft, prompt, needs[name], like.steps.get(name) if like else None)
    if path := graph.circle({name: [one for one in before if one in steps] for name, before in needs.items()}):
        problems.append(Problem(("steps", path[0], "needs"), f"the steps wait for each other: {' -> '.join(path)}"))
    if problems:
        raise FlowError(*dict.fromkeys(problems))
    return steps


def as_draft(plan: Plan) -> Json:
    """A plan in the form in which a model writes one."""
    rows = [
        {"name": name, "prompt": getattr(step, step.action), "needs": step.needs, "tools": step.tools or []}
        for name, step in plan.steps.items()
    ]
    return {"steps": rows}


def instead_of(step: Step, replacement: Json) -> Json:
    """A step that takes the place of another one, with what others rely on."""
    old = step.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {**{key: old[key] for key in KEPT if key in old}, **replacement}


def _names(drafts: Sequence[DraftStep], taken: set[str]) -> list[str]:
    """A name for each step, all different; `plan` is where the planner's own words are recorded."""
    names: list[str] = []
    taken = {"plan", *taken}
    for number, draft in enumerate(drafts, 1):
        wanted = _clean(draft.name) or f"step{number}"
        name, copy = wanted, 1
        while name in taken:
            copy += 1
            name = f"{wanted}-{copy}"
        taken.add(name)
        names.append(name)
    return names


def _clean(name: str) -> str:
    words = re.sub(r"[\s/#?\x00-\x1f\x7f]+", "-", name).strip("-")[:60].strip("-. ")
    try:
        return step_name(words) if words else ""
    except ValueError:
        return f"do-{words}"


def _needs(
    draft: DraftStep,
    name: str,
    drafts: Sequence[DraftStep],
    names: Sequence[str],
    earlier: Sequence[str],
    problems: list[Problem],
) -> list[str]:
    """What a step needs, by the names that the steps have now."""
    by_word: dict[str, list[str]] = {}
    for other, new in zip(drafts, names, strict=True):
        for word in {other.key.lower(), other.name.lower(), new.lower()} - {""}:
            by_word.setdefault(word, []).append(new)
    for other in earlier:
        by_word[other.lower()] = [other]
    found: list[str] = []
    for word in draft.needs:
        matching = by_word.get(word.lower(), [])
        if len(matching) == 1 and matching[0] != name:
            found.append(matching[0])
            continue
        if not matching:
            said = f"there is no step {word!r}; {meant(word, [*earlier, *names])}"
        elif len(matching) > 1:
            said = f"{len(matching)} steps are called {word!r}; give each a name of its own"
        else:
            said = "a step cannot need itself"
        problems.append(Problem(("steps", name, "needs"), said))
    return list(dict.fromkeys(found))


def _prompt(
    name: str,
    draft: DraftStep,
    needs: Sequence[str],
    known: Sequence[str],
    inputs: Sequence[str],
    problems: list[Problem],
) -> tuple[str, list[str]]:
    """The prompt with what came of each need, and further needs that it reads."""
    text, read = _references(name, draft.prompt, known, inputs, problems)
    missing = [need for need in needs if need not in read]
    parts = [text, *(f"What came of {need}:\n{{{{ steps[{_quoted(need)}].output }}}}" for need in missing)]
    return "\n\n".join(parts), [one for one in read if one != name]


def _references(
    name: str, text: str, known: Sequence[str], inputs: Sequence[str], problems: list[Problem]
) -> tuple[str, list[str]]:
    """The text as a template, and the steps that it reads. Braces that are no reference are meant as they stand."""
    if not _BRACES.search(text):
        return text, []
    if not _REFERENCE.search(text):
        return _escaped(text), []
    path = ("steps", name, "prompt")
    try:
        reads = templates.template(text).reads
    except TemplateError as error:
        problems.append(Problem(path, str(error)))
        return text, []
    flat = aliases(known)
    words = {*reads.names} - {"inputs", "steps", *templates.functions()}
    problems += [
        Problem(path, f"there is no {word!r}; {meant(word, ['inputs', 'steps', *flat])}")
        for word in sorted(words - set(flat))
    ]
    problems += [
        Problem(path, f"there is no input {key!r}; {meant(key, inputs)}") for key in sorted(reads.inputs - set(inputs))
    ]
    problems += [
        Problem(path, f"there is no step {key!r}; {meant(key, known)}") for key in sorted(reads.steps - set(known))
    ]
    read = [step for step in known if step in reads.steps or any(flat.get(word) == step for word in words)]
    return text, read


def _escaped(text: str) -> str:
    return _BRACES.sub(lambda found: "{{ '" + found[0] + "' }}", text)


def _quoted(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _step(draft: DraftStep, prompt: str, needs: list[str], old: Step | None) -> Json:
    kept = old.model_dump(mode="json", by_alias=True, exclude_unset=True) if old else {}
    if old and old.action != "prompt":
        return {**kept, "needs": needs}
    made: Json = {"needs": needs, "agent": draft.agent, "prompt": prompt, "tools": list(draft.tools)}
    rest = {key: value for key, value in kept.items() if key not in ("needs", "prompt", "tools")}
    return {**rest, **{key: value for key, value in made.items() if value}}
