"""Which MiniWoB++ tasks a model solves in the browser: solved, turns, tokens and seconds of each.

    uv run python bench/miniwob.py [-m MODEL] [--seeds 1 2] [--tasks TASK ...] [--keep FOLDER]
    uv run python bench/miniwob.py --oracles [--tasks TASK ...]

Without `--tasks`, twenty easy ones. `handloom runs show RUN` with `HANDLOOM_HOME=FOLDER/data` shows how a try went. `--oracles` runs the scripted ones of the tests instead.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from miniwob_pages import BEGIN, Episode, pages
from oracles import ORACLES
from table import show

from handloom import config, wiring
from handloom.browser.session import browsing
from handloom.journal.sqlite import SqliteStore
from handloom.net import Guard
from handloom.runs import Limits
from handloom.state import Question
from handloom.testing.site import Asked, Page, Site, raw

EASY = (
    "click-button",
    "click-button-sequence",
    "click-checkboxes",
    "click-dialog",
    "click-dialog-2",
    "click-link",
    "click-option",
    "click-tab",
    "click-test",
    "click-test-2",
    "click-widget",
    "choose-list",
    "enter-password",
    "enter-text",
    "enter-text-2",
    "focus-text",
    "focus-text-2",
    "grid-coordinate",
    "login-user",
    "simple-arithmetic",
)
LIMITS = Limits(turns=8, seconds=240)
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".png": "image/png"}
# Starts the episode that the address names, and tells the server how it ended.
START = """<script>addEventListener('load', () => setTimeout(() => {
  (%s)(Number(new URLSearchParams(location.search).get('seed')));
  const ended = setInterval(() => { if (WOB_DONE_GLOBAL) { clearInterval(ended); fetch('/ended?reward=' + WOB_RAW_REWARD_GLOBAL); } }, 50);
}));</script>"""


def served(asked: Asked) -> Page:
    """A file of the package; a task's page with what starts it."""
    path = (pages() / asked.path.lstrip("/")).resolve()
    if not path.is_relative_to(pages()) or not path.is_file():
        return Page(status=404)
    begin = (START % BEGIN).encode() if path.suffix == ".html" else b""
    return raw(path.read_bytes() + begin, KINDS.get(path.suffix, "application/octet-stream"))


async def allowed(_: Question) -> str:
    """The person whose pages these are: what is to be typed into them after they were read may be."""
    return "once"


async def by_model(names: list[str], seeds: list[int], spec: str, keep: Path) -> None:
    loaded = config.load()
    model = await wiring.open_model(loaded, spec)
    store = SqliteStore(keep / "data")
    rows: list[dict[str, object]] = []
    for name in names:
        for seed in seeds:
            async with browsing(pages()) as session:
                goal = (await Episode.begin(session, name, seed)).goal
            with Site({"*": served, "/ended": raw(b"", "text/plain")}) as site:
                url = f"{site.url}/miniwob/{name}.html?seed={seed}"
                own = loaded.settings.model_copy(
                    update={"net": loaded.settings.net.model_copy(update={"private": (site.host,)})}
                )
                agent = wiring.build_agent(replace(loaded, settings=own), "browser", model, keep)
                tools = tuple(tool for tool in agent.tools if getattr(tool, "name", "") in ("browser_use", "terminate"))
                task = f"Open {url} in the browser, then do this there: {goal}"
                result = await wiring.run(
                    task, agent=replace(agent, tools=tools), workspace=keep, limits=LIMITS, store=store, asker=allowed
                )
                rewards = [float(asked.query["reward"]) for asked in site.asked if asked.path == "/ended"]
            rows.append(
                {
                    "task": name,
                    "seed": seed,
                    "solved": "yes" if rewards and rewards[0] > 0 else "no",
                    "status": result.cause or result.status,
                    "turns": result.turns,
                    "tokens": result.usage.total_tokens,
                    "s": round(result.seconds, 1),
                    "run": result.run,
                }
            )
            print(f"{name} {seed}: {rows[-1]['solved']}", file=sys.stderr, flush=True)
    await model.aclose()
    solved = sum(row["solved"] == "yes" for row in rows)
    show(f"MiniWoB++, {model.name}: {solved} of {len(rows)} solved (HANDLOOM_HOME={keep / 'data'})", rows)


async def by_oracles(names: list[str], seeds: list[int]) -> None:
    rows: list[dict[str, object]] = []
    async with browsing(pages(), guard=Guard()) as session:
        for name in names:
            solved, begun = 0, time.perf_counter()
            for seed in seeds:
                episode = await Episode.begin(session, name, seed)
                try:
                    async with asyncio.timeout(60):
                        await ORACLES[name](episode)
                    solved += await episode.reward() > 0
                except Exception as error:  # noqa: BLE001  # the table says that it failed
                    print(f"{name} {seed}: {str(error)[:200]}", file=sys.stderr)
            rows.append({"task": name, "solved": solved, "of": len(seeds), "s": round(time.perf_counter() - begun, 1)})
    whole = sum(row["solved"] == row["of"] for row in rows)
    show(f"MiniWoB++ by oracles: {whole} of {len(rows)} tasks on all seeds", rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=[], metavar="TASK")
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--oracles", action="store_true")
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    if options.oracles:
        asyncio.run(by_oracles(options.tasks or sorted(ORACLES), options.seeds))
    else:
        keep = options.keep or Path(tempfile.mkdtemp(prefix="handloom-miniwob-"))
        asyncio.run(by_model(options.tasks or list(EASY), options.seeds, options.model, keep))
