"""Browsing: the state source that shows an agent the page, its tabs and what happened there, each turn while it uses the browser."""

import re
from dataclasses import dataclass

from handloom.agents.sources import Snapshot
from handloom.browser import actions
from handloom.browser.session import BrowserSession
from handloom.browser.snapshot import PageState
from handloom.errors import ToolError
from handloom.prompts import browser as prompt
from handloom.runs import Run
from handloom.toolbox.browse import NAME
from handloom.toolbox.spotlight import Spotlight

RECENT = 3  # replies without the browser after which an agent has left it


_WEB = re.compile(
    r"https?://|www\.|\b(?:browsers?|web ?(?:site|page)s?|online|internet)\b|网页|网站|浏览器|上网", re.IGNORECASE
)
WEB_TOOLS = frozenset({NAME, "web_search", "fetch"})


def touches_web(run: Run) -> bool:
    """Whether the task speaks of the web, or a tool has read it."""
    task = run.memory.task
    return bool(WEB_TOOLS & run.state.tools.keys()) or (task is not None and _WEB.search(task.text) is not None)


@dataclass(frozen=True, kw_only=True)
class Browsing:
    """`always` is for an agent whose own prompt is the browser's; others get that prompt while they use the browser, and their own afterwards.

    `images` adds a screenshot, for models that take them.
    """

    always: bool = False
    images: bool = False

    @property
    def next_step(self) -> str:
        return prompt.NEXT_STEP_PROMPT

    def in_use(self, run: Run) -> bool:
        if self.always:
            return True
        replies = [message for message in run.memory.messages if message.role == "assistant"][-RECENT:]
        called = any(call.name == NAME for reply in replies for call in reply.tool_calls)
        return called and run.opened(BrowserSession) is not None

    async def snapshot(self, run: Run) -> Snapshot:
        session = run.opened(BrowserSession)
        if session is None:
            return Snapshot(values=values(None, "No page is open; begin with navigate."))
        spotlight = await run.resource(Spotlight, Spotlight.start)
        try:
            state = await session.state()
            shots = (await actions.screenshot(session),) if self.images else ()
        except ToolError as error:
            return Snapshot(values=values(None, f"The page cannot be shown: {error}"))
        return Snapshot(values=shown(state, spotlight), images=shots)


def values(state: PageState | None, page: str, notes: str = "") -> dict[str, str]:
    """The placeholders of the browser's next-step prompt."""
    tabs = state.tabs if state and len(state.tabs) > 1 else ()
    listed = "".join(f"\n  tab {tab.index}{' (current)' if tab.current else ''}: {tab.title} {tab.url}" for tab in tabs)
    title = f' "{state.title}"' if state and state.title else ""
    return {
        "url_placeholder": f"\nAddress: {state.url}{title}" if state else "",
        "tabs_placeholder": f"\nTabs:{listed}" if listed else "",
        # What is in view stands between what is above and what is below.
        "content_above_placeholder": (f"\n({state.above} pixels above)" if state and state.above else "") + f"\n{page}",
        "content_below_placeholder": f"\n({state.below} pixels below)" if state and state.below else "",
        "results_placeholder": f"\n{notes}" if notes else "",
    }


def shown(state: PageState, spotlight: Spotlight) -> dict[str, str]:
    """A page as the prompt shows it: all that strangers wrote stands between the marks."""
    notes = spotlight.around("\n".join(f"- {note}" for note in state.notes), "what happened") if state.notes else ""
    body = state.text or "(nothing to see; it may still load: wait, or scroll)"
    return values(state, spotlight.around(body, state.url), notes)
