"""Filling in a form: text into fields, choices from lists, keys, and files."""

import re
from collections.abc import Sequence

from handloom.browser.pointing import Target, target, told
from handloom.browser.session import BrowserSession
from handloom.errors import ToolError

_NAMED = "Enter|Tab|Backspace|Delete|Escape|Space|Insert|Home|End|Page(?:Up|Down)|Arrow(?:Up|Down|Left|Right)|F[1-9][0-2]?|ContextMenu"
_KEYS = re.compile(
    rf"(?:Shift\+)?(?:{_NAMED}|Shift|Control|Alt|Meta)|(?:(?:Shift|Control|Alt|Meta|ControlOrMeta)\+)*(?:Control|Alt|Meta|ControlOrMeta)\+(?:Shift\+)?\S+"
)
FORMS = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM",
    "month": "YYYY-MM",
    "week": "YYYY-Www",
    "datetime-local": "YYYY-MM-DDTHH:MM",
}
PLAIN = ("text", "search", "email", "url", "tel", "number", "password", "date", "time", "month", "week", "datetime-local", "color", "range", "textarea", "")  # fmt: skip
# Value and label of each option.
OPTIONS = "e => [...e.options].map(o => [o.value, (o.label || o.text).trim().replace(/\\s+/g, ' ')])"


async def input_text(
    session: BrowserSession, index: int, text: str, *, submit: bool = False, slowly: bool = False
) -> str:
    """Replace what stands in a field. `slowly` types key by key, for pages that offer completions. Raises: ToolError."""
    from playwright.async_api import Error

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.disabled or aim.about.readonly:
            raise ToolError(f"{aim} cannot be changed: it is {'disabled' if aim.about.disabled else 'read-only'}")
        typed = aim.about.tag in ("input", "textarea") and aim.about.type in PLAIN
        if not (typed or aim.about.tag == "textarea" or aim.about.editable):
            raise ToolError(f"{aim} is no field for text{_instead(aim)}")
        try:
            await aim.handle.fill("" if slowly else text)
        except Error as error:
            raise ToolError(f"{aim} did not take {text[:60]!r}: {_malformed(aim, error)}") from None
        if aim.about.type in FORMS and await aim.handle.evaluate("e => e.value") != text:
            raise ToolError(f"{aim} did not take {text[:60]!r}: write it as {FORMS[aim.about.type]}")
        if slowly:
            await aim.handle.type(text, timeout=1_000 * session.settings.timeout)
        if submit:
            await aim.handle.press("Enter")
        return f"wrote {'*' * len(text) if aim.about.type == 'password' else repr(text[:60])} into [{index}]{aim.about.tag}{' and pressed Enter' if submit else ''}"

    return await session.act(work)


def _instead(aim: Target) -> str:
    kind = aim.about.type or aim.about.tag
    return {
        "select-one": ": use select_option",
        "select-multiple": ": use select_option",
        "file": ": use upload_file",
    }.get(kind, ": click it, then send_keys" if kind not in ("checkbox", "radio") else ": click it")


def _malformed(aim: Target, error: Exception) -> str:
    form = FORMS.get(aim.about.type)
    return f"write it as {form}" if form else str(error).partition("\n")[0][:200]


async def select_option(session: BrowserSession, index: int, values: Sequence[str]) -> str:
    """Choose by label or value; those not named are unselected. Raises: ToolError with the options there are."""

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.tag != "select":
            raise ToolError(f"{aim} is no list of options; click it and choose from what opens")
        options = await told(aim.handle, OPTIONS, list[tuple[str, str]])
        chosen: list[int] = []
        for value in values:
            wanted = " ".join(value.split())
            found = [place for place, names in enumerate(options) if wanted in (names[1], names[0])]
            found = found or [place for place, names in enumerate(options) if wanted.lower() == names[1].lower()]
            if not found:
                labels = ", ".join(label[:60] for _, label in options[:40])
                raise ToolError(f"[{index}] has no option {value!r}; it has: {labels}")
            chosen.append(found[0])
        await aim.handle.select_option(index=chosen)
        return f"chose {', '.join(options[place][1] for place in chosen)} in [{index}]select"

    return await session.act(work)


async def send_keys(session: BrowserSession, keys: str, text: str = "") -> str:
    """Press keys such as `Enter`, `Control+A`, several with spaces between them; then type a text where the cursor is.

    Raises: ToolError for a key that does not exist, and for one that writes: what is written is `text`, on which the policy can decide.
    """
    from playwright.async_api import Error

    async def work() -> str:
        for key in keys.split():
            if not _KEYS.fullmatch(key):
                raise ToolError(f"{key!r} is no key that can be pressed; to write something give text")
            try:
                await session.page.keyboard.press(key)
            except Error as error:
                raise ToolError(f"{key!r} is no key ({str(error).partition(chr(10))[0][:120]})") from None
        if text:
            await session.page.keyboard.type(text)
        return " and ".join([*([f"pressed {keys}"] if keys else []), *([f"typed {text[:60]!r}"] if text else [])])

    return await session.act(work)


async def upload_file(session: BrowserSession, index: int, path: str) -> str:
    """Give a file of the workspace to a file input. Raises: ToolError."""
    file = (session.workspace / path).resolve()
    if not file.is_relative_to(session.workspace) or not file.is_file():
        raise ToolError(f"there is no file {path} in the workspace")

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.type != "file":
            raise ToolError(f"{aim} takes no file; choose the element that is called file")
        await aim.handle.set_input_files(file)
        return f"gave {path} to [{index}]"

    return await session.act(work)
