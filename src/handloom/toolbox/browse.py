"""browser_use: a model works in a web browser, one action at a call; the page itself is shown to it each turn by the state source."""

from typing import Annotated, Literal, TypeVar, assert_never

from pydantic import Field

from handloom.browser import BrowserSettings, actions
from handloom.browser.session import BrowserSession
from handloom.browser.settings import missing
from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.net import Guard
from handloom.toolbox.extract import Extract
from handloom.toolbox.paging import piece
from handloom.toolbox.spotlight import Spotlight
from handloom.tools import Tool, ToolContext, tool

Given = TypeVar("Given")
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
    "send_keys": "keys",
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
        said = ""
        match action:
            case "navigate" | "open_tab":
                address = _given(action, "url", url)
                said = await actions.navigate(session, address, new_tab=new_tab or action == "open_tab")
            case "go_back":
                said = await actions.go_back(session)
            case "click" if index is None and x is not None and y is not None:
                said = await actions.click_at(session, x, y, double=double, button=button)
            case "click":
                said = await actions.click(session, _given(action, "index", index), double=double, button=button)
            case "input_text":
                number, words = _given(action, "index", index), _given(action, "text", text)
                said = await actions.input_text(session, number, words, submit=submit, slowly=slowly)
            case "select_option":
                number, wanted = _given(action, "index", index), _given(action, "values", values)
                said = await actions.select_option(session, number, wanted)
            case "send_keys":
                said = await actions.send_keys(session, _given(action, "keys", keys))
            case "scroll":
                said = await actions.scroll(session, pages=pages, dy=dy, index=index)
            case "hover":
                said = await actions.hover(session, _given(action, "index", index))
            case "drag":
                number = _given(action, "index", index)
                said = await actions.drag(session, number, to_index=to_index, dx=dx, dy=dy or 0.0)
            case "upload_file":
                said = await actions.upload_file(session, _given(action, "index", index), _given(action, "path", path))
            case "find_text":
                said = await actions.find_text(session, _given(action, "query", query or None))
            case "switch_tab" | "close_tab":
                said = await actions.tab(session, action, _given(action, "index", index))
            case "wait":
                said = await actions.wait(session, seconds, query)
            case "extract":
                return await _extracted(session, spotlight, extract, goal, start)
            case "screenshot":
                image = await actions.screenshot(session, full_page=full_page)
                return ToolResult(text="a screenshot was taken", images=(image,), untrusted=True)
            case _:
                assert_never(action)
        for file in session.watch.files:
            await context.artifact(file, "downloaded")
        session.watch.files.clear()
        return ToolResult(text=spotlight.around(said, session.address), untrusted=True)

    return browser_use


async def _extracted(
    session: BrowserSession, spotlight: Spotlight, extract: Extract | None, goal: str, start: int
) -> ToolResult:
    text = "\n".join(await session.text())
    body = await extract(text[start:], goal) if goal and extract else piece(text, start)
    return ToolResult(text=spotlight.around(body, session.address), untrusted=True)


def _given(action: str, name: str, value: Given | None) -> Given:
    if value is None:
        raise ToolError(f"{action} needs {name}: {action}({PARAMETERS[action].replace(' ', ', ')})")
    return value
