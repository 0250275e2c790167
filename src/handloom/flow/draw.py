"""A plan as a drawing: Mermaid for pages, JSON for programs, text for a terminal."""

import json
from collections.abc import Mapping

from handloom.flow import graph
from handloom.plans import Plan, Step

MARKS = {"success": "+", "failed": "x", "skipped": "-", "running": "*", "waiting": "?"}


def mermaid(plan: Plan) -> str:
    """A Mermaid flowchart."""
    ids = {name: f"s{at}" for at, name in enumerate(plan.steps)}
    lines = ["flowchart TD"]
    for name, step in plan.steps.items():
        words = _quoted(f"{name}\n{_what(step)}")
        opening, closing = ("{{", "}}") if step.approval else ("[", "]")
        lines.append(f"  {ids[name]}{opening}{words}{closing}")
    for name, step in plan.steps.items():
        arrow = f"-->|{_quoted(f'if {step.if_}')}|" if step.if_ else "-->"
        lines += [f"  {ids[other]} {arrow} {ids[name]}" for other in step.needs if other in ids]
    return "\n".join(lines)


def as_json(plan: Plan) -> str:
    """Nodes and edges."""
    nodes = [
        {"id": name, "action": step.action, "what": _what(step), "if": step.if_, "approval": step.approval is not None}
        for name, step in plan.steps.items()
    ]
    edges = [{"from": other, "to": name} for name, step in plan.steps.items() for other in step.needs]
    return json.dumps({"name": plan.name, "nodes": nodes, "edges": edges}, ensure_ascii=False, indent=2)


def text(plan: Plan, status: Mapping[str, str] | None = None) -> str:
    """A layer a paragraph: what is in one can run at the same time. `status` marks the steps of a run."""
    lines = [plan.name]
    for number, layer in enumerate(graph.layers({name: step.needs for name, step in plan.steps.items()}), 1):
        lines.append(f"{number}.")
        for name in layer:
            step = plan.steps[name]
            mark = f"[{MARKS.get((status or {}).get(name, ''), ' ')}] " if status is not None else ""
            needs = f"  <- {', '.join(step.needs)}" if step.needs else ""
            lines.append(f"   {mark}{name}: {_what(step)}{needs}")
    return "\n".join(lines)


def _what(step: Step) -> str:
    """The step in some words."""
    said = " ".join((getattr(step, step.action) or "").split())
    short = said if len(said) <= 50 else f"{said[:47]}..."
    who = f"{step.agent}: " if step.agent else ""
    marks = [
        f"for each of {step.for_each}" if step.for_each is not None else "",
        f"until {step.repeat.until}, at most {step.repeat.max} times" if step.repeat else "",
        "asks first" if step.approval else "",
    ]
    return f"{who}{step.action} {short}" + "".join(f" ({mark})" for mark in marks if mark)


def _quoted(words: str) -> str:
    """A Mermaid label: quotes and marks as entities, lines as breaks."""
    entities = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "\n": "<br/>"})
    return f'"{words.translate(entities)}"'
