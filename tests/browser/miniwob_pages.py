"""MiniWoB++ in a browser session: the pages of the package `miniwob`, their protocol, and the raw reward of an episode."""

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

from handloom.browser import actions
from handloom.browser.session import BrowserSession
from handloom.browser.snapshot import PageState

BEGIN = """seed => {
  Math.seedrandom(seed);
  core.EPISODE_MAX_TIME = 1e6;
  core.startEpisodeReal();
  core.startEpisode = () => {};
  const style = document.createElement('style');
  style.textContent = '#reward-display,#click-canvas,#sync-task-cover{display:none!important}';
  document.head.append(style);
}"""
ENDLESS = {"hover-shape"}  # it cannot end


def pages() -> Path:
    """The folder of the package's pages."""
    return Path(str(importlib.metadata.distribution("miniwob").locate_file("miniwob/html")))


def names() -> list[str]:
    return sorted(path.stem for path in (pages() / "miniwob").glob("*.html"))


@dataclass
class Episode:
    """One try of a task: what it asks, the page as text, and the actions of the session."""

    session: BrowserSession
    name: str
    goal: str

    @classmethod
    async def begin(cls, session: BrowserSession, name: str, seed: int) -> "Episode":
        page = session.page
        await page.goto((pages() / "miniwob" / f"{name}.html").as_uri(), wait_until="load")
        await page.evaluate(BEGIN, seed)
        await page.wait_for_function("WOB_TASK_READY", timeout=5_000)
        goal = await page.evaluate("core.getUtterance()")
        return cls(session, name, " ".join((goal if isinstance(goal, str) else goal["utterance"]).split()))

    async def reward(self) -> float:
        """What the page gave; 0 while it is not over."""
        return await self.session.page.evaluate("WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : 0")

    async def state(self) -> PageState:
        return await self.session.state()

    async def lines(self) -> list[str]:
        """The page without the task's own words, which stand at its top."""
        return list((await self.state()).lines)

    async def text(self) -> str:
        return "\n".join(await self.lines())

    async def number(self, pattern: str, which: int = 0) -> int:
        """The number of the thing whose description fits: `button "OK"`."""
        text = await self.text()
        found = re.findall(r"\[(\d+)\](?:%s)" % pattern, text)  # noqa: UP031 - braces are the pattern's
        assert found, f"nothing fits {pattern!r} in\n{text}"
        return int(found[which])

    async def click(self, pattern: str, which: int = 0) -> None:
        await actions.click(self.session, await self.number(pattern, which))

    async def write(
        self,
        text: str,
        pattern: str = r"(?:textbox|textarea|password|date|time|number|search|editor)",
        which: int = 0,
        *,
        slowly: bool = False,
    ) -> None:
        await actions.input_text(self.session, await self.number(pattern, which), text, slowly=slowly)
