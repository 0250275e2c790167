"""Browsing: the state source that shows an agent the page, its tabs and what happened there, each turn while it uses the browser."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from handloom.agents.sources import Snapshot
from handloom.browser import actions
from handloom.browser.session import BrowserSession
from handloom.browser.snapshot import PageState
from handloom.errors import ToolError
from handloom.messages import Json, ToolSpec
from handloom.prompts import browser as prompt
from handloom.runs import Run
from handloom.toolbox.browse import NAME
from handloom.toolbox.spotlight import Spotlight
from handloom.tools.results import clean

WRITABLE = frozenset(
    [
        "textbox",
        "textarea",
        "editor",
        "searchbox",
        "search",
        "password",
        "email",
        "number",
        "tel",
        "url",
        "date",
        "datetime",
        "time",
        "month",
        "week",
        "color",
        "slider",
        "spinbutton",
        "combobox",
    ]
)
# Actions on a thing of the page, and the kinds of things that take them; None for all.
_ON: dict[str, frozenset[str] | None] = {
    "click": None,
    "hover": None,
    "drag": None,
    "input_text": WRITABLE,
    "select_option": frozenset({"select"}),
    "upload_file": None,
}
# Actions with which a task begins that speaks so, where the page has things for them.
_DUE: tuple[tuple[str, frozenset[str], re.Pattern[str]], ...] = (
    (
        "input_text",
        WRITABLE,
        re.compile(r"\b(?:enter|type|write|fill|input|log ?in|sign ?in)\b|输入|填|登录", re.IGNORECASE),
    ),
    ("select_option", frozenset({"select"}), re.compile(r"\b(?:select|choose|pick)\b|选", re.IGNORECASE)),
)
_FIELD = re.compile(r"\[(\d+)\](\w+)([^\[\n]*)")
_MARKED = re.compile(r"\[(\d+)\](\w+)")
_CHOSEN = re.compile(r"\[(\d+)\]radio(?: \"[^\"\n]*\")? checked")  # to click it changes nothing
_URL = re.compile(r"https?://[!-~]+")
_BEHIND = ".,;:!?)]}>\"'"  # what stands behind an address and is no part of it
URL_CHARS, TITLE_CHARS = 300, 200
RECENT = 3  # replies without the browser after which an agent has left it


_WEB = re.compile(
    r"https?://|www\.|\b(?:browsers?|web ?(?:site|page)s?|the web|web search|google|online|internet)\b|网页|网站|浏览器|上网|网上",
    re.IGNORECASE,
)
WEB_TOOLS = frozenset({NAME, "web_search", "fetch"})


def touches_web(run: Run) -> bool:
    """Whether the task speaks of the web, or a tool has read it."""
    task = run.memory.task
    return bool(WEB_TOOLS & run.state.tools.keys()) or (task is not None and _WEB.search(task.text) is not None)


@dataclass(frozen=True, kw_only=True)
class Browsing:
    """`always` is for an agent whose own prompt is the browser's; others get that prompt while they use the browser, and their own afterwards.

    `images` adds a screenshot, for models that take them; `guides` leaves a small model no call that leads nowhere.
    """

    always: bool = False
    images: bool = False
    guides: bool = False

    @property
    def next_step(self) -> str:
        return prompt.NEXT_STEP_PROMPT

    def in_use(self, run: Run) -> bool:
        if self.always or (self.guides and run.opened(BrowserSession) is None and _unopened(run)):
            return True
        replies = [message for message in run.memory.messages if message.role == "assistant"][-RECENT:]
        called = any(call.name == NAME for reply in replies for call in reply.tool_calls)
        return called and run.opened(BrowserSession) is not None

    async def snapshot(self, run: Run) -> Snapshot:
        session = run.opened(BrowserSession)
        if session is None:
            narrow = Guiding({}, addresses=_unopened(run), scrolls=False) if self.guides else Narrowing({})
            return Snapshot(values=values(None, "No page is open; begin with navigate."), narrow=narrow)
        spotlight = await run.resource(Spotlight, Spotlight.start)
        try:
            state = await session.state()
            shots = (await actions.screenshot(session),) if self.images else ()
        except ToolError as error:
            return Snapshot(values=values(None, f"The page cannot be shown: {error}"))
        kinds: dict[str, str] = dict(_MARKED.findall(state.text))
        narrow = Narrowing(kinds)
        if self.guides:
            scrolls = bool(state.above or state.below)
            chosen = set(_CHOSEN.findall(state.text))
            kinds = {number: kind for number, kind in kinds.items() if number not in chosen}
            narrow = Guiding(kinds, addresses=_unopened(run), scrolls=scrolls, presses=not _is_due(run, kinds))
        return Snapshot(
            values=shown(state, spotlight, _open_ends(run, state) if self.guides else ""), images=shots, narrow=narrow
        )


@dataclass(frozen=True)
class Narrowing:
    """Binds the calls of a browser to the things of the page, whose kinds are given by their numbers."""

    kinds: Mapping[str, str]

    def __call__(self, spec: ToolSpec) -> ToolSpec | None:
        if spec.name != NAME or not spec.variants:
            return spec
        fitting = tuple(variant for variant in map(self.fitting, spec.variants) if variant)
        return msgspec.structs.replace(spec, variants=fitting)

    def fitting(self, variant: Json) -> Json | None:
        """The schema of an action with the numbers that it can take now; nothing when it can take none."""
        action = variant["properties"]["action"]["const"]
        if action not in _ON or "index" not in variant["properties"]:
            return variant
        wanted = _ON[action]
        return _bound(
            variant, "index", [int(number) for number, kind in self.kinds.items() if wanted is None or kind in wanted]
        )


@dataclass(frozen=True)
class Guiding(Narrowing):
    """Leaves a small model nothing of which it can be seen that it leads nowhere: to search where there is a page to use, or one to open, to open an address again that it has
    opened (`addresses` are the others, None where any may be meant), to scroll a page that is in view whole, to click a field in place of writing into it, to press
    a button before anything was filled in (`presses` once it may), to choose what is chosen.
    """

    addresses: list[str] | None
    scrolls: bool
    presses: bool = True

    def __call__(self, spec: ToolSpec) -> ToolSpec | None:
        return None if spec.name in WEB_TOOLS - {NAME} and (self.kinds or self.addresses) else super().__call__(spec)

    def fitting(self, variant: Json) -> Json | None:
        """The same, without what leads nowhere."""
        match variant["properties"]["action"]["const"]:
            case "navigate" if self.addresses is not None:
                return _bound(variant, "url", self.addresses)
            case "scroll" if not self.scrolls:
                return None
            case "click":  # a field is written into, which clicks it too; a small model takes the click for the writing
                spared = WRITABLE if self.presses else WRITABLE | {"button"}
                others = {number: kind for number, kind in self.kinds.items() if kind not in spared}
                return Narrowing(others).fitting(variant)
            case _:
                return super().fitting(variant)


def _bound(variant: Json, name: str, values: Sequence[str | int]) -> Json | None:
    """The schema with a parameter that is one of these; nothing when there is none."""
    properties = {**variant["properties"], name: {"enum": list(values)}}
    return {**variant, "properties": properties} if values else None


def _unopened(run: Run) -> list[str] | None:
    """The addresses that the task or a search names, without those that were opened; nothing where none is named, so that any may be meant."""
    messages = run.memory.since_task()
    found = [message.text for message in messages if message.role == "tool" and message.name == "web_search"]
    task = run.memory.task
    named = [address.rstrip(_BEHIND) for text in (task.text if task else "", *found) for address in _URL.findall(text)]
    opened = {str(call.arguments.get("url", "")).rstrip("/") for message in messages for call in message.tool_calls}
    return [address for address in dict.fromkeys(named) if address.rstrip("/") not in opened] if named else None


def _is_due(run: Run, kinds: Mapping[str, str]) -> bool:
    """Whether the task speaks of filling in or choosing what the page has, and nothing of that has been done."""
    task = run.memory.task.text if run.memory.task else ""
    done = {call.arguments.get("action") for message in run.memory.since_task() for call in message.tool_calls}
    return any(
        action not in done and things & set(kinds.values()) and words.search(task) for action, things, words in _DUE
    )


def values(state: PageState | None, page: str, tabs: str = "", notes: str = "") -> dict[str, str]:
    """The placeholders of the browser's next-step prompt."""
    return {
        "url_placeholder": f"\nAddress: {_line(state.url, URL_CHARS)}" if state else "",
        "tabs_placeholder": f"\nTabs:\n{tabs}" if tabs else "",
        # What is in view stands between what is above and what is below.
        "content_above_placeholder": (f"\n({state.above} pixels above)" if state and state.above else "") + f"\n{page}",
        "content_below_placeholder": f"\n({state.below} pixels below)" if state and state.below else "",
        "results_placeholder": f"\n{notes}" if notes else "",
    }


def _open_ends(run: Run, state: PageState) -> str:
    """What a small model overlooks: fields in which nothing stands, and that what it wrote is not sent yet."""
    fields = [number for number, kind, rest in _FIELD.findall(state.text) if kind in WRITABLE and "value=" not in rest]
    if fields:
        return f"Still empty: {', '.join(f'[{number}]' for number in fields)}"
    last = next((call for message in reversed(run.memory.messages) for call in message.tool_calls), None)
    wrote = last is not None and last.arguments.get("action") == "input_text" and not last.arguments.get("submit")
    return "What was written is not sent yet: click the button that sends it." if wrote else ""


def shown(state: PageState, spotlight: Spotlight, advice: str = "") -> dict[str, str]:
    """A page as the prompt shows it: all that strangers wrote stands between the marks, its title as well; `advice` is ours."""
    notes = spotlight.around("\n".join(f"- {note}" for note in state.notes), "what happened") if state.notes else ""
    listed = "\n".join(
        f"tab {tab.index}{' (current)' if tab.current else ''}: {_line(tab.title, 80)} {_line(tab.url, 120)}"
        for tab in state.tabs
    )
    title = f"Title: {_line(state.title, TITLE_CHARS)}\n" if state.title.strip() else ""
    body = title + (state.text or "(nothing to see; it may still load: wait, or scroll)")
    return values(
        state,
        spotlight.around(body, state.url),
        spotlight.around(listed, "tabs") if len(state.tabs) > 1 else "",
        "\n".join(part for part in (notes, advice) if part),
    )


def _line(text: str, most: int) -> str:
    """A text that strangers chose, clean, on one line and bounded."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
