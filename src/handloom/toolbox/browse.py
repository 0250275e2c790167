"""browser_use: a model works in a web browser, one action at a call; the page itself is shown to it each turn by the state source."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from handloom.browser import BrowserSettings, actions
from handloom.browser.session import BrowserSession
from handloom.browser.settings import missing
from handloom.errors import ToolError
from handloom.messages import ToolResult, Usage
from handloom.net import Guard
from handloom.toolbox.extract import Extract
from handloom.toolbox.paging import piece
from handloom.toolbox.spotlight import Spotlight
from handloom.tools import Tool, ToolContext, tool

NAME = "browser_use"
Action = Literal[
    "navigate",
    "go_back",
    "click",
    "input_text",
    "select_option",
    "send_keys",
    "scroll",
    "hover",
    "drag",
    "upload_file",
    "extract",
    "find_text",
    "switch_tab",
    "close_tab",
    "open_tab",
    "wait",
    "screenshot",
]
PARAMETERS = {
    "navigate": "url new_tab?",
    "go_back": "",
    "click": "index? x? y? double? button?",
    "input_text": "index text submit? slowly?",
    "select_option": "index values",
    "send_keys": "keys? text?",
    "scroll": "pages? dy? index?",
    "hover": "index",
    "drag": "index to_index? dx? dy?",
    "upload_file": "index path",
    "extract": "goal? start?",
    "find_text": "query",
    "switch_tab": "index",
    "close_tab": "index",
    "open_tab": "url",
    "wait": "seconds? query?",
    "screenshot": "full_page?",
}


# The model reads these words and fields: they are the tool's description and its parameters.
@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Use a web browser: navigate(url), click(index), input_text(index, text, submit), select_option(index, values), scroll(pages), go_back, send_keys(keys), find_text(query), extract(goal), wait, tabs. `index` is the number in [ ] on the page, or of a tab."""

    action: Action
    url: str | None = None
    index: int | None = None
    text: str | None = None
    keys: str | None = None
    values: list[str] | None = None
    path: str | None = None
    goal: str = ""
    query: str = ""
    pages: float | None = None
    dx: float = 0.0
    dy: float | None = None
    x: float | None = None
    y: float | None = None
    to_index: int | None = None
    seconds: Annotated[float, Field(ge=0, le=actions.MOST_WAIT)] = 3.0
    start: int = 0
    button: actions.Button = "left"
    new_tab: bool = False
    submit: bool = False
    slowly: bool = False
    double: bool = False
    full_page: bool = False

    def given(self, name: str) -> Any:
        """An argument that the action needs. Raises: ToolError when it is missing."""
        value = getattr(self, name)
        if value in (None, ""):
            raise ToolError(f"{self.action} needs {name}: {self.action}({PARAMETERS[self.action].replace(' ', ', ')})")
        return value


def _click(session: BrowserSession, want: Wanted) -> Awaitable[str]:
    if want.index is None and want.x is not None and want.y is not None:
        return actions.click_at(session, want.x, want.y, double=want.double, button=want.button)
    return actions.click(session, want.given("index"), double=want.double, button=want.button)


def _write(session: BrowserSession, want: Wanted) -> Awaitable[str]:
    text = "" if want.text == "" else want.given("text")
    return actions.input_text(session, want.given("index"), text, submit=want.submit, slowly=want.slowly)


def _press(session: BrowserSession, want: Wanted) -> Awaitable[str]:
    return actions.send_keys(session, want.keys or ("" if want.text else want.given("keys")), want.text or "")


def _drag(session: BrowserSession, want: Wanted) -> Awaitable[str]:
    return actions.drag(session, want.given("index"), to_index=want.to_index, dx=want.dx, dy=want.dy or 0.0)


DO: dict[Action, Callable[[BrowserSession, Wanted], Awaitable[str]]] = {
    "navigate": lambda session, want: actions.navigate(session, want.given("url"), new_tab=want.new_tab),
    "open_tab": lambda session, want: actions.navigate(session, want.given("url"), new_tab=True),
    "go_back": lambda session, _: actions.go_back(session),
    "click": _click,
    "input_text": _write,
    "select_option": lambda session, want: actions.select_option(session, want.given("index"), want.given("values")),
    "send_keys": _press,
    "scroll": lambda session, want: actions.scroll(session, pages=want.pages, dy=want.dy, index=want.index),
    "hover": lambda session, want: actions.hover(session, want.given("index")),
    "drag": _drag,
    "upload_file": lambda session, want: actions.upload_file(session, want.given("index"), want.given("path")),
    "find_text": lambda session, want: actions.find_text(session, want.given("query")),
    "switch_tab": lambda session, want: actions.tab(session, "switch_tab", want.given("index")),
    "close_tab": lambda session, want: actions.tab(session, "close_tab", want.given("index")),
    "wait": lambda session, want: actions.wait(session, want.seconds, want.query),
}


def browser_tool(
    guard: Guard | None = None, settings: BrowserSettings | None = None, extract: Extract | None = None
) -> Tool:
    """The tool under this guard; without `extract` the text of a page is given piece by piece."""
    guard, settings = guard or Guard(), settings or BrowserSettings()

    async def browser_use(context: ToolContext, **arguments: Any) -> ToolResult:
        if lacking := missing(settings):
            raise ToolError(lacking)
        session = await context.resource(
            BrowserSession, lambda: BrowserSession.open(context.workspace, settings, guard)
        )
        spotlight = await context.resource(Spotlight, Spotlight.start)
        want = Wanted(**arguments)
        match want.action:
            case "extract":
                return await _extracted(session, spotlight, extract, want)
            case "screenshot":
                image = await actions.screenshot(session, full_page=want.full_page)
                return ToolResult(text="a screenshot was taken", images=(image,), untrusted=True)
            case _:
                said = await _done(session, want)
                await _report_files(session, context)
                return ToolResult(text=spotlight.around(said, session.tabs.address), untrusted=True)

    return replace(_described(), call=browser_use, context_name="context")


@cache
def _described() -> Tool:
    """The tool as a model reads it, without what it does."""
    return tool(
        name=NAME, effects={"network_send"}, untrusted=True, destinations=("url", "text", "path"), actions=PARAMETERS
    )(Wanted)


async def _extracted(
    session: BrowserSession, spotlight: Spotlight, extract: Extract | None, want: Wanted
) -> ToolResult:
    text = "\n".join(await session.text())
    if want.goal and extract:
        body, usage = await extract(text, want.goal, want.start)
    else:
        body, usage = piece(text, want.start), Usage()
    return ToolResult(text=spotlight.around(body, session.tabs.address), untrusted=True, usage=usage)


async def _done(session: BrowserSession, want: Wanted) -> str:
    """What an action says that it did, and how the page looks then: the same number whenever it looks the same."""
    said = await DO[want.action](session, want)
    with contextlib.suppress(ToolError):  # what was done is done, even where the page cannot be seen after it
        said += f" (view {await session.view()})"
    return said


async def _report_files(session: BrowserSession, context: ToolContext) -> None:
    """Report what was downloaded since the last action."""
    for file in session.watch.files:
        await context.artifact(file, "downloaded")
    session.watch.files.clear()
