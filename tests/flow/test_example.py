"""The example flow from its first page to the mail that arrives, and again from every point of its record."""

import asyncio
import os
import re
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import msgspec
import pytest
from competitors import EXAMPLE, PRODUCTS, mailed, settings, site, values

import handloom
from handloom import MemoryStore
from handloom.events import Event, RunStarted
from handloom.llm.model import Request
from handloom.messages import Message
from handloom.testing.mail import MailServer
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.testing.site import Site
from handloom.wiring.flows import FlowResult

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(170)]

# The step asks before it starts, and the policy before anything leaves the machine.
QUESTIONS = ("Send report.md to boss@example.org?", "Allow send_email?\n  to = boss@example.org")
WORDS = "Webstuhl is the cheapest. 织机 folds."


def answer(request: Request) -> str | Message:
    """What the model says to each prompt of the example."""
    task = next(message.text for message in request.messages if message.origin == "task")
    if "page of a product" in task:
        name = next(name for name in PRODUCTS if name in task)
        price, features = PRODUCTS[name]
        found = {"name": name, "price": price, "features": features.split(", ")}
        return msgspec.json.encode(found).decode()
    if "compete with" in task:
        assert "Jacquard" in task
        return WORDS
    if any(message.role == "tool" for message in request.messages):
        return finish("report.md is written")
    lines = re.sub(r"^.*its lines:\s*|\s*The last attempt was refused.*$", "", task, flags=re.DOTALL).strip() + "\n"
    return calls(("python_execute", {"code": f"open('report.md', 'w').write({lines!r})"}))


def model() -> ScriptedModel:
    return ScriptedModel(repeat(answer))


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, MailServer]]:
    for name in [name for name in os.environ if name.startswith("HANDLOOM_")]:
        monkeypatch.delenv(name)
    with site() as pages, MailServer() as post:
        for name, value in settings(pages, post, tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        yield pages, post


async def finished(run: str, store: MemoryStore) -> FlowResult:
    """Go on to the end as a person would: agree when asked, and repeat a sending of which nobody knows whether it was done."""
    result = await handloom.resume(run, model=model(), store=store)
    while result.status != "success":
        if result.questions:
            (question,) = result.questions
            assert question.question.startswith(QUESTIONS)
            result = await handloom.resume(run, answer="yes", model=model(), store=store)
        else:
            assert "send: interrupted, outcome unknown" in result.reason or "check: interrupted" in result.reason
            again = "send" if "send: inter" in result.reason else "check"
            result = await handloom.resume(run, model=model(), store=store, again=(again,))
    assert isinstance(result, FlowResult)
    return result


async def test_the_example_runs_to_the_mail_and_goes_on_from_every_point(
    around: tuple[Site, MailServer], tmp_path: Path
) -> None:
    pages, post = around
    folder = tmp_path / "work"
    folder.mkdir()
    store = MemoryStore()
    first = await handloom.run_flow(EXAMPLE, inputs=values(pages), model=model(), store=store, workspace=folder)
    assert (first.status, first.cause) == ("suspended", "question"), first.reason
    assert post.received == []
    result = await finished(first.run, store)
    assert result.value == WORDS
    report = mailed(post)
    assert report.startswith("# Competitors of Handloom")
    assert all(f"- {name}: {price}" in report for name, (price, _) in PRODUCTS.items())
    assert sorted(pages.paths) == ["/0.html", "/1.html", "/2.html"]
    assert not result.report.failed
    events = store.read(first.run)
    gate = asyncio.Semaphore(4)

    async def again(length: int) -> FlowResult:
        async with gate:
            place = tmp_path / f"from-{length}"
            place.mkdir()
            later = MemoryStore()
            later.runs[first.run] = [_moved(event, place) for event in events[:length]]
            if (folder / "report.md").exists() and _has_reported(events[:length]):
                (place / "report.md").write_bytes((folder / "report.md").read_bytes())
            return await finished(first.run, later)

    made = next(at for at, event in enumerate(events) if type(event).__name__ == "PlanMade")
    results = await asyncio.gather(*(again(length) for length in range(made + 1, len(events))))
    assert {found.value for found in results} == {WORDS}
    assert all(not found.report.failed and not found.report.skipped for found in results)
    assert {mailed(post, at) for at in range(len(post.received))} == {report}


def _moved(event: Event, place: Path) -> Event:
    return msgspec.structs.replace(event, workspace=str(place)) if isinstance(event, RunStarted) else event


def _has_reported(events: list[Event]) -> bool:
    """Whether the call that writes the report had returned."""
    return any(type(event).__name__ == "ToolReturned" and event.span.startswith("report/") for event in events)


async def test_a_secret_product_is_not_mailed(around: tuple[Site, MailServer], tmp_path: Path) -> None:
    pages, post = around
    inputs = {**values(pages), "product": "secret"}
    result = await handloom.run_flow(EXAMPLE, inputs=inputs, model=model(), store=MemoryStore(), workspace=tmp_path)
    assert (result.status, post.received) == ("success", [])
    assert {step.span: step.status for step in result.report.steps}["send"] == "skipped"
