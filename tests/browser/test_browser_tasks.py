"""Tasks in a browser for the embedded model, on sites of this machine: judged by the log of the server, within a bounded number of turns."""

import json
from pathlib import Path

import pytest

from conftest import Command
from handloom.testing.site import Answer, Site, page, search_page

pytestmark = [pytest.mark.model, pytest.mark.timeout(1_200)]

TRIES = 3


def ran(embedded: Command, folder: Path, site: Site, task: str, turns: int = 14) -> str:
    """The answer of one run of the general agent, which may reach the site."""
    variables = {
        "HANDLOOM_NET__PRIVATE": json.dumps([site.host]),
        "HANDLOOM_SEARCH__ENGINES": '["searxng"]',
        "HANDLOOM_SEARCH__SEARXNG_URL": site.url,
    }
    folder.mkdir(exist_ok=True)
    done = embedded(folder, "run", task, "--json", "--yes", "--max-turns", str(turns), "--timeout", "5m", **variables)
    ended = [json.loads(line) for line in done.stdout.splitlines() if '"run.ended"' in line]
    return ended[-1].get("answer", "") if ended else done.stderr[-500:]


SHOP: dict[str, Answer] = {
    "/": page("<h1>Loom shop</h1><p><a href=/catalogue>Catalogue</a> <a href=/about>About us</a></p>", "Loom shop"),
    "/about": page("<p>We sell looms since 1901.</p><a href=/>Home</a>", "About us"),
    "/catalogue": page("<p><a href=/floor>Floor looms</a> <a href=/table>Table looms</a></p>", "Catalogue"),
    "/floor": page("<p><a href=/floor/anna>Anna</a> <a href=/floor/bertha>Bertha</a></p>", "Floor looms"),
    "/floor/anna": page("<p>The loom Anna weighs 57 kilograms.</p>", "Anna"),
    "/floor/bertha": page("<p>The loom Bertha weighs 83 kilograms.</p>", "Bertha"),
    "/table": page("<p>Sold out.</p>", "Table looms"),
}


def test_an_answer_three_clicks_deep_is_found(embedded: Command, tmp_path: Path):
    for _ in range(TRIES):
        with Site(SHOP) as site:
            answer = ran(
                embedded,
                tmp_path / "work",
                site,
                f"Open {site.url} in the browser. In the catalogue, find the floor loom called Bertha. How many kilograms does it weigh?",
            )
        if "83" in answer:
            break
    assert "83" in answer
    assert "/floor/bertha" in site.paths


def test_a_form_is_filled_and_sent(embedded: Command, tmp_path: Path):
    form = "<form action=/sent method=post><label>Name <input name=name></label><label>City <input name=city></label><button>Send</button></form>"
    for _ in range(TRIES):
        with Site(
            {"/": page(form, "Order"), "/sent": page("<p>Thank you, your order number is 7731.</p>", "Sent")}
        ) as site:
            ran(
                embedded,
                tmp_path / "work",
                site,
                f"Open {site.url} in the browser, fill in the form with name Mia and city Oslo, and send it.",
            )
        sent = [dict(asked.form) for asked in site.asked if asked.method == "POST"]
        if {"name": "Mia", "city": "Oslo"} in sent:
            break
    assert {"name": "Mia", "city": "Oslo"} in sent


def test_a_search_leads_to_the_page_with_the_answer(embedded: Command, tmp_path: Path):
    for _ in range(TRIES):
        with Site(SHOP) as site:
            site.pages["/search"] = search_page([
                ("The loom Bertha", f"{site.url}/floor/bertha", "All about the floor loom Bertha"),
                ("About us", f"{site.url}/about", "The history of the loom shop"),
            ])  # fmt: skip
            answer = ran(
                embedded,
                tmp_path / "work",
                site,
                "Search the web for the loom Bertha, open the page that you find, and tell its weight in kilograms.",
            )
        if "83" in answer and "/floor/bertha" in site.paths:
            break
    assert "83" in answer
    assert "/search" in site.paths
    assert "/floor/bertha" in site.paths
