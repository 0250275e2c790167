"""Oracles: what a person would do on a MiniWoB page, written as code that sees the task's words and the page's text and nothing else."""

import asyncio
import colorsys
import re
from collections.abc import Awaitable, Callable

from miniwob_pages import Episode

from handloom.browser import actions

Oracle = Callable[[Episode], Awaitable[None]]
ORACLES: dict[str, Oracle] = {}
FIELD = r"(?:textbox|textarea|password|date|time|number|search|editor)"
SUBMIT = r'\w+ "Submit"'


def oracle(*names: str) -> Callable[[Oracle], Oracle]:
    def add(function: Oracle) -> Oracle:
        ORACLES.update(dict.fromkeys(names, function))
        return function

    return add


def quoted(goal: str) -> list[str]:
    return re.findall(r'"([^"]*)"', goal)


def ordinal(goal: str) -> int:
    found = re.search(r"(\d+)(?:st|nd|rd|th)", goal)
    assert found, goal
    return int(found[1])


async def submit(e: Episode) -> None:
    await e.click(SUBMIT)


@oracle("click-test", "click-test-2", "click-test-transfer", "click-button", "unicode-test", "click-link")
async def click_named(e: Episode) -> None:
    if "link" in e.goal or "nicode" in e.goal or quoted(e.goal):
        word = quoted(e.goal)[0]
    elif "cancel" in e.goal:
        word = "Cancel"
    else:
        found = re.search(r"button ([A-Z]+)", e.goal)
        word = found[1] if found else "Click Me!"
    await e.click(rf'\w+ "{re.escape(word)}"')


@oracle("click-button-sequence", "button-delay")
async def sequence(e: Episode) -> None:
    await e.click('button "ONE"')
    if found := re.search(r"wait (\d+)", e.goal):
        await asyncio.sleep(int(found[1]) + 0.3)
    await e.click('button "TWO"')


@oracle("buy-ticket")
async def ticket(e: Episode) -> None:
    offers = re.findall(r'(\d+)h (\d+)m\n\[(\d+)\]button "Book for \$(\d+)"', await e.text())
    cost = "cost" in e.goal or "price" in e.goal or "cheap" in e.goal
    least = any(word in e.goal for word in ("cheapest", "shortest", "least", "lowest"))
    best = (min if least else max)(offers, key=lambda o: int(o[3]) if cost else 60 * int(o[0]) + int(o[1]))
    await actions.click(e.session, int(best[2]))


@oracle("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def date(e: Episode) -> None:
    month, day, year = map(int, re.findall(r"\d+", e.goal)[:3])
    names = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ]
    await e.click("textbox")
    for _ in range(20):
        shown = re.search(rf"({'|'.join(names)}) (\d{{4}})", await e.text())
        assert shown
        ahead = 12 * (int(shown[2]) - year) + names.index(shown[1]) + 1 - month
        if not ahead:
            break
        await e.click('link "Prev"' if ahead > 0 else 'link "Next"')
    await e.click(rf'link "{day}"')
    await asyncio.sleep(0.5)
    await submit(e)


@oracle("choose-list", "click-scroll-list")
async def from_list(e: Episode) -> None:
    found = re.search(r"Select (.+?) from the", e.goal)
    assert found
    await actions.select_option(e.session, await e.number("select"), found[1].split(", "))
    await submit(e)


@oracle("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer", "click-option")
async def boxes(e: Episode) -> None:
    found = re.search(r"Select (.*) and click", e.goal)
    assert found
    for word in found[1].split(", ") if found[1] != "nothing" else ():
        await e.click(rf"(?:checkbox|radio) {re.escape(word)}(?=\n)")
    await submit(e)


@oracle("click-collapsible", "click-collapsible-nodelay")
async def collapsible(e: Episode) -> None:
    await e.click('tab "Section')
    await asyncio.sleep(0.5)
    await submit(e)


@oracle("click-collapsible-2", "click-collapsible-2-nodelay")
async def sections(e: Episode) -> None:
    word = rf'\[(\d+)\]\w+ "{re.escape(quoted(e.goal)[0])}"'
    for which in range(6):
        if re.search(word, await e.text()):
            break
        await e.click(r'tab "Section', which)
        await asyncio.sleep(0.5)
    await e.click(word[9:])


@oracle("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def tabs(e: Episode) -> None:
    word = rf'\[(\d+)\]\w+ "{re.escape(quoted(e.goal)[0])}"'
    for which in range(6):
        if re.search(word, await e.text()):
            break
        await e.click(r'link "(?:Tab #)?\d"', which)
    await e.click(word[9:])


@oracle("click-tab")
async def tab(e: Episode) -> None:
    number = re.findall(r"#(\d)", e.goal)[0]
    await e.click(f'link "Tab #{number}"')


COLOURS = {"aqua": "00ffff", "cyan": "00ffff", "black": "000000", "blue": "0000ff", "grey": "808080", "gray": "808080", "lime": "00ff00", "magenta": "ff00ff", "olive": "808000", "orange": "ffa500", "pink": "ffc0cb", "purple": "800080", "red": "ff0000", "white": "ffffff", "yellow": "ffff00", "green": "008000"}  # fmt: skip


@oracle("click-color")
async def colour(e: Episode) -> None:
    found = re.search(r"the (\w+) colored", e.goal)
    assert found
    await e.click(rf"div .color #{COLOURS[found[1]]}")


@oracle("click-shades")
async def shades(e: Episode) -> None:
    wanted = {"red": 0.0, "green": 1 / 3, "blue": 2 / 3}[re.findall(r"shades of (\w+)", e.goal)[0]]
    for number, tint in re.findall(r"\[(\d+)\]span #(\w{6})", await e.text()):
        hue = colorsys.rgb_to_hsv(*(int(tint[at : at + 2], 16) / 255 for at in (0, 2, 4)))[0]
        if min(abs(hue - wanted), 1 - abs(hue - wanted)) < 0.1:
            await actions.click(e.session, int(number))
    await submit(e)


@oracle("click-dialog")
async def dialog(e: Episode) -> None:
    await e.click('button "Close"')


@oracle("click-dialog-2")
async def dialog_button(e: Episode) -> None:
    word = quoted(e.goal)[0]
    await e.click('button "Close"' if word == "x" else f'button "{word}"')


@oracle("click-menu")
async def path(e: Episode) -> None:
    steps = e.goal.removeprefix("Select ").split(">")
    for word in steps[:-1]:
        await actions.hover(e.session, await e.number(f'menuitem "{word}"'))
        await asyncio.sleep(0.6)
    await e.click(f'menuitem "{steps[-1]}"')


@oracle("click-widget")
async def widget(e: Episode) -> None:
    kind = {"text": "textbox"}.get(quoted(e.goal)[0], quoted(e.goal)[0])
    await e.click(kind)


@oracle("copy-paste")
async def copy(e: Episode) -> None:
    found = re.search(r'textarea "to-copy" value="([^"]*)"', await e.text())
    assert found
    await e.write(found[1], 'textbox "answer-input"')
    await submit(e)


@oracle("copy-paste-2")
async def copy_one(e: Episode) -> None:
    found = re.search(rf'textarea "text-{ordinal(e.goal)}" value="([^"]*)"', await e.text())
    assert found
    await e.write(found[1], 'textbox "answer-input"')
    await submit(e)


@oracle("enter-text", "enter-text-dynamic")
async def enter(e: Episode) -> None:
    await e.write(quoted(e.goal)[0])
    await submit(e)


@oracle("enter-text-2")
async def cased(e: Episode) -> None:
    word = quoted(e.goal)[0]
    await e.write(word.upper() if "upper" in e.goal else word.lower())
    await submit(e)


@oracle("text-transform")
async def transformed(e: Episode) -> None:
    lines = await e.lines()
    place = next(at for at, line in enumerate(lines) if "textbox" in line)
    await e.write(lines[place - 1])
    await submit(e)


@oracle("enter-date")
async def enter_date(e: Episode) -> None:
    month, day, year = re.findall(r"\d+", e.goal)[:3]
    await e.write(f"{year}-{month}-{day}")
    await submit(e)


@oracle("enter-time")
async def enter_time(e: Episode) -> None:
    found = re.search(r"(\d+):(\d+) (AM|PM)", e.goal)
    assert found
    await e.write(f"{int(found[1]) % 12 + 12 * (found[3] == 'PM'):02}:{found[2]}")
    await submit(e)


@oracle("enter-password")
async def passwords(e: Episode) -> None:
    for which in (0, 1):
        await e.write(quoted(e.goal)[0], "password", which)
    await submit(e)


@oracle("login-user")
async def login(e: Episode) -> None:
    name, password = quoted(e.goal)[:2]
    await e.write(name, "textbox")
    await e.write(password, "password")
    await e.click('button "(?:Login|OK)"')


@oracle("find-word")
async def nth_word(e: Episode) -> None:
    lines = await e.lines()
    place = next(at for at, line in enumerate(lines) if "]textbox" in line)
    words = " ".join([*lines[1:place], lines[place].partition("[")[0]]).split()
    await e.write(words[ordinal(e.goal) - 1].strip(".,"))
    await submit(e)


@oracle("find-greatest")
async def greatest(e: Episode) -> None:
    cards = re.findall(r'\[(\d+)\]div "(\d+)"', await e.text())
    await actions.click(e.session, int(max(cards, key=lambda card: int(card[1]))[0]))
    await submit(e)


@oracle("focus-text")
async def focus(e: Episode) -> None:
    await e.click("textbox")


@oracle("focus-text-2")
async def focus_one(e: Episode) -> None:
    await e.click("textbox", ordinal(e.goal) - 1)


@oracle("form-sequence-2")
async def form(e: Episode) -> None:
    first, second = map(int, re.findall(r"(\d)(?:st|nd|rd)", e.goal))
    await e.click("radio", first - 1)
    await e.write(quoted(e.goal)[0], "textbox", second - 1)
    await submit(e)


@oracle("form-sequence-3")
async def combo(e: Episode) -> None:
    found = re.search(r'Choose (.+?) from the dropdown, then click the button labeled "(.+?)"', e.goal)
    assert found
    text = await e.text()
    if "]select" in text:
        await actions.select_option(e.session, await e.number("select"), [found[1]])
    else:
        await e.click('div "▾"')
        await e.click(rf'\w+ "{re.escape(found[1])}"')
    await e.click(f'button "{found[2]}"')


@oracle("form-sequence")
async def slider_form(e: Episode) -> None:
    found = re.search(r"Select (-?\d+) with the slider, click the (\d)", e.goal)
    assert found
    await slide(e, int(found[1]), 0)
    await e.click("checkbox", int(found[2]) - 1)
    await submit(e)


async def slide(e: Episode, wanted: int, which: int) -> None:
    await e.click(r"span \.ui-slider-handle", which)
    for _ in range(250):
        shown = re.findall(r"ui-slider-handle[^\n]*\n(-?\d+)", await e.text())
        away = wanted - int(shown[which])
        if not away:
            return
        key = "ArrowRight" if away > 0 else "ArrowLeft"
        await actions.send_keys(e.session, " ".join([key] * min(abs(away), 40)))


@oracle("use-slider")
async def one_slider(e: Episode) -> None:
    await slide(e, int(re.findall(r"-?\d+", e.goal)[0]), 0)
    await submit(e)


@oracle("use-slider-2")
async def sliders(e: Episode) -> None:
    for which, wanted in enumerate(re.findall(r"\d+", e.goal)):
        await slide(e, int(wanted), which)
    await submit(e)


@oracle("use-spinner")
async def spinner(e: Episode) -> None:
    wanted = int(re.findall(r"-?\d+", e.goal)[0])
    for _ in range(abs(wanted)):
        await e.click(r"button \.ui-button", 0 if wanted > 0 else 1)
    await submit(e)


@oracle("generate-number")
async def generate(e: Episode) -> None:
    found = re.search(r"(less|greater) than (\d+)|(even|odd)", e.goal)
    assert found
    for _ in range(60):
        await e.click('button "Generate"')
        shown = re.search(r"^(\d+)$", await e.text(), re.MULTILINE)
        value = int(shown[1]) if shown else -1
        fits = (
            value % 2 == (found[3] == "odd")
            if found[3]
            else value < int(found[2])
            if found[1] == "less"
            else value > int(found[2])
        )
        if shown and fits:
            break
    await submit(e)


@oracle("grid-coordinate")
async def grid(e: Episode) -> None:
    found = re.search(r"\((-?\d),(-?\d)\)", e.goal)
    assert found
    await e.click(rf"circle #\({found[1]},{found[2]}\)")


@oracle("guess-number")
async def guess(e: Episode) -> None:
    low, high = 0, 9
    while low <= high:
        middle = (low + high) // 2
        await e.write(str(middle), "number")
        await submit(e)
        text = await e.text()
        if "higher than" in text:
            low = middle + 1
        elif "lower than" in text:
            high = middle - 1
        else:
            return


@oracle("multi-orderings")
async def movies(e: Episode) -> None:
    found = re.search(r"Search for (.+) movies directed by (.+) from year (\d+)", e.goal)
    assert found
    fields = re.findall(r"(\w+)[^\n\[]*[\n ]+\[(\d+)\]textbox", await e.text())
    for label, number in fields:
        name = label.lower()
        value = found[3] if name in ("year", "released", "date") else found[2] if name == "director" else found[1]
        await actions.input_text(e.session, int(number), value)
    await e.click(r'\w+ "(?:Submit|Search|Go!?)"')


@oracle("navigate-tree")
async def tree(e: Episode) -> None:
    word = rf'\[(\d+)\]\w+ "{re.escape(quoted(e.goal)[0])}"'
    tried: set[str] = set()
    for _ in range(15):
        text = await e.text()
        if re.search(word, text):
            break
        folder = next(name for name in re.findall(r'\]span "(\w+)"', text) if name not in tried)
        tried.add(folder)
        await e.click(f'span "{folder}"')
        await asyncio.sleep(0.3)
    await e.click(word[9:])


@oracle("odd-or-even")
async def parity(e: Episode) -> None:
    rows = re.findall(r'\[(\d+)\]button "Odd"[^\n]*\n(-?\d+)\n\[(\d+)\]button "Even"', await e.text())
    for odd, value, even in rows:
        await actions.click(e.session, int(odd if int(value) % 2 else even))
    await submit(e)


@oracle("phone-book")
async def contact(e: Episode) -> None:
    found = re.search(r"Find (\w+) in the contact book and click on their (phone|email|address)", e.goal)
    assert found
    for _ in range(12):
        if re.search(rf"^## {found[1]}$", await e.text(), re.MULTILINE):
            break
        await e.click('link ">"')
    text = await e.text()
    number = re.findall(rf"{found[2].capitalize()}: \[(\d+)\]link", text)[0]
    await actions.click(e.session, int(number))


@oracle("read-table")
async def cell(e: Episode) -> None:
    found = re.search(r"the value of (.+) into", e.goal)
    assert found
    await e.write(re.findall(rf"^{found[1]} \| (.+)$", await e.text(), re.MULTILINE)[0])
    await submit(e)


@oracle("read-table-2")
async def cells(e: Episode) -> None:
    text = await e.text()
    for label, number in re.findall(r"([^\n\]]+):\s+\[(\d+)\]textbox", text):
        value = re.findall(rf"^{label} \| (.+)$", text, re.MULTILINE)[0]
        await actions.input_text(e.session, int(number), value)
    await submit(e)


@oracle("scroll-text")
async def last_word(e: Episode) -> None:
    number = await e.number('textarea "text-area"')
    await actions.scroll(e.session, pages=50, index=number)
    found = re.search(r'textarea "text-area" value="([^"]*)"', await e.text())
    assert found
    await e.write(re.findall(r"\w+", found[1])[-1], 'textbox "answer-input"')
    await submit(e)


@oracle("search-engine")
async def results(e: Episode) -> None:
    await e.write(quoted(e.goal)[0])
    await e.click('button "Search"')
    wanted = ordinal(e.goal) - 1
    while wanted >= 3:
        await e.click('link "&gt;"|link ">"')
        wanted -= 3
    await e.click(r'link "[A-Z][^"]*"', wanted)


@oracle("simple-arithmetic")
async def arithmetic(e: Episode) -> None:
    found = re.search(r"(\d+) ([-+x*]) (\d+) =", await e.text())
    assert found
    left, right = int(found[1]), int(found[3])
    await e.write(str({"+": left + right, "-": left - right}.get(found[2], left * right)))
    await submit(e)


@oracle("simple-algebra")
async def algebra(e: Episode) -> None:
    found = re.search(r"^(x|\d+) ([-+]) (x|\d+) = (-?\d+)", await e.text(), re.MULTILINE)
    assert found
    left, sign, right, total = found.groups()
    if left == "x":
        value = int(total) - int(right) if sign == "+" else int(total) + int(right)
    else:
        value = int(total) - int(left) if sign == "+" else int(left) - int(total)
    await e.write(str(value))
    await submit(e)


KINDS = {"Reply": "reply", "Retweet": "retweet", "Like": "like", "Share": "share"}


@oracle("social-media-all", "social-media-some")
async def posts(e: Episode) -> None:
    found = re.search(r'"(\w+)" button on (all|\d+) posts? by (@\w+)', e.goal)
    assert found
    left = 99 if found[2] == "all" else int(found[2])
    pressed: set[str] = set()
    for _ in range(12):
        text = await e.text()
        rows = re.findall(rf"{found[3]}\b[^\[]*((?:\[\d+\]span \.\w+[^\n]*\n?)+)", text)
        numbers = [re.findall(rf"\[(\d+)\]span \.{KINDS[found[1]]}", row)[0] for row in rows if KINDS[found[1]] in row]
        fresh = [number for number in numbers if number not in pressed][:left]
        for number in fresh:
            await actions.click(e.session, int(number))
            pressed.add(number)
            left -= 1
        said = await actions.scroll(e.session, dy=50, index=await e.number("scroll"))
        if left <= 0 or "nothing moved" in said:
            break
    await actions.scroll(e.session, pages=50, index=await e.number("scroll"))
    await submit(e)


@oracle("use-autocomplete", "use-autocomplete-nodelay")
async def completion(e: Episode) -> None:
    words = quoted(e.goal)
    await e.write(words[0], "textbox", slowly=True)
    await asyncio.sleep(1.2)
    end = re.escape(words[1]) if len(words) > 1 else ""
    await e.click(rf'\w+ "{re.escape(words[0])}[^"]*{end}"')
    await submit(e)


@oracle("email-inbox-delete", "email-inbox-important")
async def email(e: Episode) -> None:
    found = re.search(r"email by (\w+) and click the (trash|star)", e.goal)
    assert found
    text = await e.text()
    row = re.findall(rf"\n{found[1]}\b.*?(?=\n\[\d+\]div:|\Z)", text, re.DOTALL)[0]
    await actions.click(e.session, int(re.findall(rf"\[(\d+)\]span[^\[\n]*\.{found[2]}", row)[0]))


@oracle("email-inbox-forward")
async def forward(e: Episode) -> None:
    found = re.search(r"email by (\w+) and forward that email to (\w+)", e.goal)
    assert found
    sender, to = found.groups()
    await actions.click(e.session, int(re.findall(rf"\[(\d+)\]div:[^\[]*?\n{sender}\b", await e.text())[0]))
    await e.click(r"span[^\[\n]*forward|\w+ \"Forward\"")
    await e.write(to, "textbox|textarea")
    await e.click(r"span[^\[\n]*send")


@oracle("drag-box")
async def drag_box(e: Episode) -> None:
    await actions.drag(e.session, await e.number('div "s"'), to_index=await e.number('div "L"'))
    await submit(e)


@oracle("drag-circle", "drag-single-shape")
async def drag_shape(e: Episode) -> None:
    way = {"left": (-30, 0), "right": (30, 0), "up": (0, -30), "down": (0, 30)}
    found = re.search(r"(left|right|up|down)", e.goal)
    assert found
    dx, dy = way[found[1]]
    await actions.drag(e.session, await e.number(r"\w+ \.black-"), dx=dx, dy=dy)
    await submit(e)


@oracle("drag-shapes")
async def drag_all(e: Episode) -> None:
    kinds = {"circles": "circle", "rectangles": "rect", "squares": "rect", "triangles": "polygon"}
    kind = next(kinds[word] for word in kinds if word in e.goal)
    box = await e.number(r"rect #shape-container")
    for number in re.findall(rf"\[(\d+)\]{kind} (?!#shape)", await e.text()):
        await actions.drag(e.session, int(number), to_index=box)
    await submit(e)
