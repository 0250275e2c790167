"""How large and how fast the browser's states are, over pages of the kinds that agents meet; and that a long use keeps the browser's size.

    uv run python bench/pages.py [--soak 300]

Asserts the bounds: at most 700 tokens in the middle, none over 2,000.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
from table import show

from handloom.browser import actions
from handloom.browser.session import BrowserSession, browsing
from handloom.llm import tokens
from handloom.net import Guard
from handloom.testing.site import Answer, Site, page

MEDIAN, MOST = 700, 2_000
WORDS = "A loom holds the warp threads under tension so that the weft can be woven between them, row by row. "
CHINESE = "织布机把经线绷紧，使纬线可以一行一行地穿过其间。人们用它织出棉布、丝绸和毛毯。"


def menu(count: int) -> str:
    return "<nav>" + "".join(f"<a href=/m{n}>Section {n}</a> " for n in range(count)) + "</nav>"


def prose(count: int, words: str = WORDS) -> str:
    return "".join(f"<h2>Part {n}</h2><p>{words * 4}</p>" for n in range(count))


def rows(count: int, columns: int) -> str:
    cells = (f"<tr>{''.join(f'<td>{row * column}</td>' for column in range(columns))}</tr>" for row in range(count))
    return f"<table><tr>{''.join(f'<th>Column {n}</th>' for n in range(columns))}</tr>{''.join(cells)}</table>"


def form(count: int) -> str:
    fields = "".join(f"<p><label>Field {n} <input name=f{n}></label>" for n in range(count))
    options = "".join(f"<option>Country {n}" for n in range(200))
    return (
        f"<form>{fields}<p><select name=c>{options}</select> <input type=checkbox> I agree <button>Send</button></form>"
    )


APP = """<div id=app></div><script>
document.getElementById('app').innerHTML = '<header><b>Board</b></header>' + [...Array(40)].map((_, n) =>
  `<div class=card><h3>Task ${n}</h3><p>Do the thing number ${n}</p><span class=star></span><button>Done</button></div>`).join('');
document.querySelectorAll('.star').forEach(star => { star.style.cssText = 'display:inline-block;width:16px;height:16px;background:gold'; star.addEventListener('click', () => star.remove()); });
</script>"""
ENDLESS = """<ul id=l></ul><script>
let count = 0; const more = () => { for (let n = 0; n < 50; n++) l.insertAdjacentHTML('beforeend', `<li><a href=/i${count}>Item ${count++}</a> costs ${count * 3} coins`); };
more(); addEventListener('scroll', () => { if (innerHeight + scrollY > document.body.scrollHeight - 200) more(); });
</script>"""
SHADOW = """<script>customElements.define('x-card', class extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML = `<p>Card ${this.title} <button>Open</button></p><slot></slot>`; } });</script>"""

PAGES: dict[str, Answer] = {
    "documentation": page(menu(12) + prose(40)),
    "long documentation": page(menu(80) + prose(400)),
    "table, 10 columns": page("<h1>Numbers</h1>" + rows(2_000, 10)),
    "table, wide": page(rows(200, 40)),
    "form": page("<h1>Order</h1>" + form(12)),
    "long form": page(form(120)),
    "Chinese": page(menu(8) + prose(30, CHINESE), "织布机"),
    "frame of another origin": page("<p>Around it</p><iframe width=800 height=400 src='http://localhost:PORT/form'></iframe>"),
    "shadow roots": page(SHADOW + "".join(f"<x-card title={n}><i>inside {n}</i></x-card>" for n in range(30))),
    "single-page app": page(APP),
    "endless list": page(ENDLESS),
    "links": page("".join(f"<a href=/l{n}>A link of some length, number {n}</a> " for n in range(5_000))),
    "dialog over a page": page(prose(30) + "<div role=dialog style='position:fixed;inset:20%;background:#fff'><p>We use cookies</p><button>Accept</button></div>"),
}  # fmt: skip


async def measured(session: BrowserSession, site: Site) -> None:
    lines: list[dict[str, object]] = []
    sizes: list[int] = []
    times: list[float] = []
    for place, name in enumerate(PAGES):
        await actions.navigate(session, f"{site.url}/{place}")
        took: list[float] = []
        for _ in range(5):
            begun = time.perf_counter()
            state = await session.state()
            took.append(1_000 * (time.perf_counter() - begun))
        sizes.append(int(tokens.count(state.text)))
        times.append(statistics.median(took))
        lines.append({"page": name, "tokens": sizes[-1], "characters": len(state.text), "ms": round(times[-1])})
    middle = {
        "page": "median",
        "tokens": int(statistics.median(sizes)),
        "characters": "",
        "ms": round(statistics.median(times)),
    }
    show("What the browser's states cost", [*lines, middle])
    assert statistics.median(sizes) <= MEDIAN, sizes
    assert max(sizes) <= MOST, sizes


def family() -> Iterator[int]:
    """The memory of each of the browser's processes."""
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "chrom" in each.name():
                yield each.memory_info().rss


async def soaked(session: BrowserSession, site: Site, count: int) -> None:
    """Navigations and clicks in turn; processes and memory at each tenth."""
    seen: list[tuple[int, float]] = []
    for place in range(count):
        await actions.navigate(session, f"{site.url}/{place % len(PAGES)}")
        await actions.click_at(session, 5, 5)
        if place % max(1, count // 10) == 0:
            sizes = list(family())
            seen.append((len(sizes), sum(sizes) / 1e6))
    print("processes and MB over", count, "navigations:", ", ".join(f"{number}/{size:.0f}" for number, size in seen))
    assert seen[-1][0] <= seen[1][0] + 2, seen
    assert seen[-1][1] <= 1.5 * seen[1][1], seen


async def main(folder: Path, soak: int) -> None:
    pages = {f"/{place}": answer for place, answer in enumerate(PAGES.values())}
    with Site(pages | {"/form": page(form(6)), "*": page("<p>elsewhere</p>")}) as site:
        port = site.host.rpartition(":")[2].encode()
        for path, answer in site.pages.items():
            if not callable(answer):
                site.pages[path] = replace(answer, body=answer.body.replace(b"PORT", port))
        begun = time.perf_counter()
        async with browsing(folder, guard=Guard(private=(site.host, "localhost"))) as session:
            print(f"started in {time.perf_counter() - begun:.1f} s")
            await measured(session, site)
            if soak:
                await soaked(session, site, soak)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--soak", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(Path(made).resolve(), options.soak))
