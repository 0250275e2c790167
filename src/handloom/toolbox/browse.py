"""browser_use: a model works in a web browser, one action at a call; the page itself is shown to it each turn by the state source."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The arguments of one call."""

    action: Action
    url: str | None
    index: int | None
    text: str | None
    keys: str | None
    values: list[str] | None
    path: str | None
    query: str
    pages: float | None
    dx: float
    dy: float | None
    x: float | None
    y: float | None
    to_index: int | None
    seconds: float
    button: actions.Button
    new_tab: bool
    submit: bool
    slowly: bool
    double: bool

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

    @tool(
        name=NAME,
        effects={"network_send"},
        untrusted=True,
        destinations=("url", "text", "path"),
        actions=PARAMETERS,
    )
    async def browser_use(  # noqa: PLR0913, PLR0917 - the parameters of all actions
        action: Action,
        context: ToolContext,
        url: str | None = None,
        index: int | None = None,
        text: str | None = None,
        keys: str | None = None,
        values: list[str] | None = None,
        path: str | None = None,
        goal: str = "",
        query: str = "",
        pages: float | None = None,
        dx: float = 0.0,
        dy: float | None = None,
        x: float | None = None,
        y: float | None = None,
        to_index: int | None = None,
        seconds: Annotated[float, Field(ge=0, le=actions.MOST_WAIT)] = 3.0,
        start: int = 0,
        button: actions.Button = "left",
        new_tab: bool = False,  # noqa: FBT001,FBT002 - parameters of the tool, which the model names
        submit: bool = False,  # noqa: FBT001,FBT002 - the same
        slowly: bool = False,  # noqa: FBT001,FBT002 - the same
        double: bool = False,  # noqa: FBT001,FBT002 - the same
        full_page: bool = False,  # noqa: FBT001,FBT002 - the same
    ) -> ToolResult:
        """Use a web browser: navigate(url), click(index), input_text(index, text, submit), select_option(index, values), scroll(pages), go_back, send_keys(keys), find_text(query), extract(goal), wait, tabs. `index` is the number in [ ] on the page, or of a tab."""
        if lacking := missing(settings):
            raise ToolError(lacking)
        session = await context.resource(
            BrowserSession, lambda: BrowserSession.open(context.workspace, settings, guard)
        )
        spotlight = await context.resource(Spotlight, Spotlight.start)
        if action == "extract":
            return await _extracted(session, spotlight, extract, goal, start)
        if action == "screenshot":
            image = await actions.screenshot(session, full_page=full_page)
            return ToolResult(text="a screenshot was taken", images=(image,), untrusted=True)
        want = Wanted(
            action=action,
            url=url,
            index=index,
            text=text,
            keys=keys,
            values=values,
            path=path,
            query=query,
            pages=pages,
            dx=dx,
            dy=dy,
            x=x,
            y=y,
            to_index=to_index,
            seconds=seconds,
            button=button,
            new_tab=new_tab,
            submit=submit,
            slowly=slowly,
            double=double,
        )
        said = await DO[action](session, want)
        with contextlib.suppress(ToolError):  # what was done is done, even where the page cannot be seen after it
            said += f" (view {await session.view()})"
        for file in session.watch.files:
            await context.artifact(file, "downloaded")
        session.watch.files.clear()
        return ToolResult(text=spotlight.around(said, session.address), untrusted=True)

    return browser_use


async def _extracted(
    session: BrowserSession, spotlight: Spotlight, extract: Extract | None, goal: str, start: int
) -> ToolResult:
    text = "\n".join(await session.text())
    body, usage = await extract(text, goal, start) if goal and extract else (piece(text, start), Usage())
    return ToolResult(text=spotlight.around(body, session.address), untrusted=True, usage=usage)
