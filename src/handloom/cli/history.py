"""The commands that look at earlier runs."""

import json
import sys
import time
from pathlib import Path

from handloom import config, wiring
from handloom.cli.ids import find
from handloom.errors import ConfigError
from handloom.events import Event, as_json, encode
from handloom.flow.report import Report
from handloom.journal import RunSummary, Store
from handloom.state import State
from handloom.tools.results import clean
from handloom.views.lines import brief, line
from handloom.views.transcript import markdown


def _store() -> Store:
    return wiring.open_store(config.load())


def listing(limit: int, *, as_json: bool) -> None:
    """A table of runs, or a JSON line for each."""
    store = _store()
    summaries = store.recent(limit)
    if as_json:
        for summary in summaries:
            print(json.dumps({**vars(summary), "status": _status(store, summary)}, ensure_ascii=False))
        return
    for summary in summaries:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.started))
        print(f"{summary.id}  {started}  {_status(store, summary):<22} {brief(summary.task, 80)}")


def _status(store: Store, summary: RunSummary) -> str:
    """The status with its cause; a run that nobody works on any more was interrupted."""
    if summary.status == "running" and not store.is_open(summary.id):
        return "suspended (interrupted)"
    return f"{summary.status} ({summary.cause})" if summary.cause else summary.status


def show(run_id: str) -> None:
    """How a run stands, then what happened in it."""
    store = _store()
    events = store.read(find(store, run_id))
    state = State()
    for event in events:
        state.apply(event)
    summary = store.summary(events[0].run)
    usage = state.usage
    rows = [
        ("run", summary.id),
        ("task", brief(state.task)),
        ("status", _status(store, summary)),
        ("agent", f"{state.settings.get('agent', '')} {state.settings.get('model', '')}".strip()),
        ("folder", state.workspace),
        ("turns", f"{state.turns} in {state.seconds:.1f} s"),
        (
            "tokens",
            f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} ({usage.cached_tokens:,} cached) in {usage.calls} calls",
        ),
        ("cost", f"{usage.cost:.4f} USD" if usage.cost else ""),
        *(
            ("tool", f"{name}: {count.calls} calls, {count.failed} failed, {count.seconds:.1f} s")
            for name, count in state.tools.items()
        ),
        *(("file", path) for path in state.artifacts),
        *(("question", question.question) for question in state.open_questions()),
        ("reason", state.reason),
    ]
    for name, value in rows:
        if value:
            print(f"{name:<9} {clean(value)}")
    print()
    if state.plans:
        report = Report.of(state)
        print(clean(f"{report.text(with_tools=False)}\n\n{report.tree()}"))
    for event in [] if state.plans else events:
        if text := line(event):
            print(f"{'  ' * event.span.count('/')}{text}")
    if state.answer:
        print(f"\n{clean(state.answer)}")


def logs(run_id: str, *, follow: bool, as_json: bool) -> None:
    """The events of a run; with `follow` also those to come, until it stops."""
    store = _store()
    chosen, seen = find(store, run_id), 0
    while True:
        events = store.read(chosen, since=seen)
        seen += len(events)
        for event in events:
            _print_event(event, as_json=as_json)
        if not follow or (not events and not store.is_open(chosen)):
            return
        time.sleep(0.2)


def _print_event(event: Event, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(encode(event) + b"\n")
        sys.stdout.flush()
    elif text := line(event):
        print(f"{time.strftime('%H:%M:%S', time.localtime(event.at))} {event.span:<24} {text}", flush=True)


def export(run_id: str, form: str, out: Path | None) -> None:
    """A run as Markdown or as one JSON document, to standard output or a file."""
    store = _store()
    events = store.read(find(store, run_id))
    match form:
        case "md":
            text = clean(markdown(events))
        case "json":
            text = json.dumps([as_json(event) for event in events], ensure_ascii=False, indent=1) + "\n"
        case _:
            raise ConfigError(f"--format takes md or json, not {form!r}")
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
