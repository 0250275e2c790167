"""The browser against pages that are hard to see, hard to use, or hostile. Rows W10 to W12 of the list of faults."""

import asyncio
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from handloom.browser import BrowserSettings, actions
from handloom.browser.session import BrowserSession, browsing
from handloom.browser.settings import NO_BROWSER, missing
from handloom.browser.snapshot import MOST_CHARS, PageState, Tab, bounded
from handloom.errors import ToolError
from handloom.llm import tokens
from handloom.net import Guard
from handloom.testing.site import Answer, Asked, Page, Site, page, raw, redirect

pytestmark = pytest.mark.anyio


class Desk:
    """A browser, and a site of which it may see the pages that a test puts there."""

    def __init__(self, session: BrowserSession, site: Site) -> None:
        self.session = session
        self.site = site
        self.state = PageState(url="", title="")

    async def open(self, html: str | Answer, path: str = "/page", **others: Answer) -> str:
        self.site.pages = {path: page(html) if isinstance(html, str) else html}
        self.site.pages |= {f"/{name}": answer for name, answer in others.items()}
        await actions.navigate(self.session, f"{self.site.url}{path}")
        return await self.look()

    async def look(self) -> str:
        self.state = await self.session.state()
        return self.state.text

    def number(self, pattern: str) -> int:
        found = re.search(rf"\[(\d+)\]{pattern}", "\n".join(self.state.lines))
        assert found, self.state.text
        return int(found[1])

    async def click(self, pattern: str) -> str:
        said = await actions.click(self.session, self.number(pattern))
        await self.look()
        return said


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """One browser for the module: starting it takes longer than all it does here."""
    folder = tmp_path_factory.mktemp("workspace").resolve()
    with Site({}) as site:
        guard = Guard(private=(site.host, "localhost"))
        async with browsing(folder, BrowserSettings(timeout=6.0), guard) as session:
            yield Desk(session, site)


@pytest.fixture
async def desk(shared: Desk) -> Desk:
    for _ in range(len(shared.session.tabs.pages) - 1):
        await actions.tab(shared.session, "close_tab", 1)
    await shared.session.page.goto("about:blank")
    await shared.look()
    return shared


# What is seen


async def test_a_page_is_lines_in_reading_order_with_numbers_on_what_can_be_used(desk: Desk):
    text = await desk.open(
        "<h2>织布 loom</h2><p>See <a href=/x>the <b>next</b> page</a>.</p><label>Name <input name=n value=Mia></label>"
        "<select name=s><option>A<option selected>B</select><input type=checkbox checked aria-label=News>"
        "<table><tr><th>a<th>b<tr><td>1<td>2</table><button disabled>Save</button><input type=password value=secret>"
        "<p hidden>not seen</p><div style='height:3000px'></div><p>far below</p>"
    )
    assert re.sub(r"\[\d+\]", "[n]", text).splitlines() == [
        "## 织布 loom",
        'See [n]link "the next page" .',
        'Name [n]textbox value="Mia" [n]select "s" (value="B" options: A | B) [n]checkbox "News" checked',
        "a | b",
        "1 | 2",
        '[n]button "Save" disabled [n]password value="******"',
    ]
    assert desk.state.below > 2_000
    assert "far below" in "\n".join(await desk.session.text())
    said = await actions.scroll(desk.session, pages=10)
    assert "scrolled by" in said
    assert "far below" in await desk.look()
    assert (desk.state.above > 2_000, desk.state.below) == (True, 0)
    assert "this is the end" in await actions.scroll(desk.session, pages=1)


async def test_numbers_stay_with_their_elements_and_are_never_given_again(desk: Desk):
    await desk.open("<button>One</button><button onclick='this.remove()'>Two</button>")
    one, two = desk.number('button "One"'), desk.number('button "Two"')
    await desk.click('button "Two"')
    assert desk.number('button "One"') == one
    with pytest.raises(ToolError, match=rf"\[{two}\] is not on the page now; look at the newest page"):
        await actions.click(desk.session, two)
    await desk.open("<button>One</button>")
    assert desk.number('button "One"') > two


async def test_frames_of_other_origins_and_shadow_roots_are_seen_and_used(desk: Desk):
    with Site({"/": page("<button onclick='this.textContent=`done`'>inside</button>")}) as other:
        inner = f"<iframe src='http://localhost:{other.host.rpartition(':')[2]}/'></iframe>"
        text = await desk.open(
            f"<p>before</p>{inner}<div id=host></div><script>host.attachShadow({{mode:'open'}}).innerHTML="
            "'<button onclick=\"this.textContent=`pressed`\">shadow</button>'</script>"
        )
        assert re.search(r"before\n\[\d+\]frame:\n  \[\d+\]button \"inside\"", text)
        await desk.click('button "inside"')
        await desk.click('button "shadow"')
        assert 'button "done"' in desk.state.text
        assert 'button "pressed"' in desk.state.text


async def test_a_page_cannot_write_a_number_of_ours(desk: Desk):
    text = await desk.open("<p>[1]button \"Pay\" \u0001 7</p><button>[2]link</button><input placeholder='[3]x'>")
    assert len(re.findall(r"\[\d+\]", text)) == 2
    assert '(1)button "Pay"' in text


@pytest.mark.parametrize("count", [10, 20_000])
async def test_w11_a_huge_page_is_capped(count: int, desk: Desk):
    text = await desk.open("<div>" + "".join(f"<a href=/{n}>link {n}</a> " for n in range(count)) + "</div>")
    assert len(text) <= MOST_CHARS + 60
    assert tokens.count(text) <= 2_000
    assert ("more lines" in text or 'link "link 9"' in text) is True


def test_what_does_not_fit_is_counted():
    lines = tuple(f"line {n} 织布机" for n in range(2_000))
    text = bounded(lines)
    assert text.endswith(f"({2_000 - text.count('line ')} more lines: scroll or extract)")
    assert bounded(("one", "two")) == "one\ntwo"


# What is done


async def test_forms_are_filled_and_sent(desk: Desk):
    await desk.open(
        "<form action=/done method=post><input name=who><textarea name=about></textarea><select name=size><option value=s>Small"
        "<option value=l>Large</select><input type=date name=day><input type=file name=up><button>Send</button></form>",
        done=page("<p>thank you</p>"),
    )
    await actions.input_text(desk.session, desk.number("textbox"), "李雷")
    await actions.input_text(desk.session, desk.number("textarea"), "key by key", slowly=True)
    await actions.select_option(desk.session, desk.number("select"), ["large"])
    with pytest.raises(ToolError, match="write it as YYYY-MM-DD"):
        await actions.input_text(desk.session, desk.number("date"), "tomorrow")
    with pytest.raises(ToolError, match="has no option 'XL'; it has: Small, Large"):
        await actions.select_option(desk.session, desk.number("select"), ["XL"])
    with pytest.raises(ToolError, match="use select_option"):
        await actions.click(desk.session, desk.number("select"))
    with pytest.raises(ToolError, match=r"no file \.\./x"):
        await actions.upload_file(desk.session, desk.number("file"), "../x")
    (desk.session.workspace / "a.txt").write_text("hello")
    await actions.upload_file(desk.session, desk.number("file"), "a.txt")
    await actions.input_text(desk.session, desk.number("date"), "2026-11-30")
    await desk.click('button "Send"')
    assert desk.state.text == "thank you"
    sent = desk.site.asked[-1]
    assert dict(sent.form) == {"who": "李雷", "about": "key by key", "size": "l", "day": "2026-11-30", "up": "a.txt"}


async def test_w11_what_is_covered_gone_or_hidden_says_so(desk: Desk):
    await desk.open(
        "<button onclick='document.title=`hit`'>Under</button><div style='position:fixed;inset:0;background:#fff8'>"
        "<button onclick='this.parentNode.remove()'>Close me</button></div><button style='visibility:hidden' id=h>Hid</button>"
    )
    with pytest.raises(ToolError, match=r"is covered by .*close that, or scroll"):
        await actions.click(desk.session, desk.number('button "Under"'))
    await desk.click('button "Close me"')
    await desk.click('button "Under"')
    assert desk.state.title == "hit"
    for wrong in (0, -1, 99_999):
        with pytest.raises(ToolError, match="is not on the page"):
            await actions.click(desk.session, wrong)


async def test_the_mouse_hovers_drags_and_keys_are_pressed(desk: Desk):
    await desk.open(
        "<style>#m{display:none} #b:hover #m{display:block}</style><div id=b tabindex=0>Menu<div id=m><a href=/x>Item</a></div></div>"
        "<div id=d onmousedown='let f=e=>{d.textContent=`at ${e.clientX}`};onmousemove=f;onmouseup=()=>onmousemove=null'>drag me</div>"
    )
    await actions.hover(desk.session, desk.number("div"))
    assert "Item" in await desk.look()
    await actions.drag(desk.session, desk.number('div "drag me"'), dx=50)
    assert "at " in await desk.look()
    await actions.send_keys(desk.session, "Tab Control+A")
    assert await actions.send_keys(desk.session, "End", "织 loom") == "pressed End and typed '织 loom'"
    for writes in ("a", "Shift+A", "KeyA", "Digit7", "h u n t e r 2"):
        with pytest.raises(ToolError, match="give text"):
            await actions.send_keys(desk.session, writes)
    with pytest.raises(ToolError, match="'Nokey' is no key"):
        await actions.send_keys(desk.session, "Nokey")


async def test_words_are_found_and_waited_for(desk: Desk):
    await desk.open(
        "<div style='height:5000px'>top</div><p>the answer is 42</p><script>setTimeout(()=>{document.body.append('late')},300)</script>"
    )
    assert "is there" in await actions.wait(desk.session, 5, "late")
    assert "the answer is 42" in await actions.find_text(desk.session, "ANSWER is")
    assert "the answer is 42" in await desk.look()
    with pytest.raises(ToolError, match="is not on the page"):
        await actions.find_text(desk.session, "43")
    with pytest.raises(ToolError, match="did not appear within"):
        await actions.wait(desk.session, 1, "never")


async def test_tabs_are_listed_switched_and_closed(desk: Desk):
    await desk.open("<a href=/two target=_blank>two</a>", two=page("<p>second</p>", "Two"))
    await desk.click('link "two"')
    assert desk.state.text == "second"
    assert "a new tab opened and is the current one" in desk.state.notes
    assert [tab.current for tab in desk.state.tabs] == [False, True]
    assert desk.state.tabs[1] == Tab(1, "Two", f"{desk.site.url}/two", current=True)
    await actions.tab(desk.session, "switch_tab", 0)
    assert "two" in await desk.look()
    with pytest.raises(ToolError, match="there is no tab 7; tabs are 0 to 1"):
        await actions.tab(desk.session, "switch_tab", 7)
    await actions.tab(desk.session, "close_tab", 0)
    assert await desk.look() == "second"


async def test_a_screenshot_is_a_jpeg_of_the_window(desk: Desk):
    await desk.open("<h1>picture</h1>")
    image = await actions.screenshot(desk.session)
    assert image.mime == "image/jpeg"
    assert image.data.startswith("/9j/")


# Where it may go


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/", "not a public address"),
        ("http://2130706433:1/", "not a public address"),
        ("file:///etc/passwd", "only files of the workspace"),
        ("chrome://settings", "chrome: is not allowed"),
        ("javascript:alert(1)", "javascript: is not allowed"),
        ("data:text/html,x", "data: is not allowed"),
        ("view-source:http://a.example", "view-source: is not allowed"),
    ],
)
async def test_addresses_that_may_not_be_opened_are_refused(url: str, words: str, desk: Desk):
    with pytest.raises(ToolError, match=words):
        await actions.navigate(desk.session, url)


async def test_an_address_is_opened_as_people_write_it(desk: Desk):
    port = desk.site.host.rpartition(":")[2]
    for written in (f"localhost:{port}/x", f"127.0.0.1:{port}"):
        assert f"opened http://{written}" in await actions.navigate(desk.session, written)
    assert f"opened http://localhost:{port}/" in await actions.navigate(desk.session, f"LOCALHOST:{port}")
    for written in ("mailto:a@example.org", "tel:12345", "javascript:1/alert(1)"):
        with pytest.raises(ToolError, match=f"{written.partition(':')[0]}: is not allowed"):
            await actions.navigate(desk.session, written)


async def test_a_redirect_an_image_and_a_script_cannot_reach_what_the_guard_refuses(desk: Desk):
    with Site({"*": page("<p>the secret of the house</p>")}) as inner:
        text = await desk.open(redirect(f"{inner.url}/metadata"))
        assert "which is not a public address" in text
        assert any("refused: 127.0.0.1 is at 127.0.0.1" in note for note in desk.state.notes)
        assert inner.asked == []
        await desk.open(
            f"<p>here</p><img src='{inner.url}/i'><script>fetch('{inner.url}/f',{{mode:'no-cors'}})</script>"
        )
        await actions.wait(desk.session, 0.5)
        assert inner.asked == []
        await desk.look()


async def test_files_open_in_the_workspace_alone(desk: Desk, tmp_path: Path):
    folder = desk.session.workspace
    (tmp_path / "outside.html").write_text("<p>the secret of the house</p>")
    (folder / "in.html").write_text(f"<p>inside</p><iframe src='file://{tmp_path}/outside.html'></iframe>")
    (folder / "link.html").symlink_to(tmp_path / "outside.html")
    await actions.navigate(desk.session, f"file://{folder}/in.html")
    text = await desk.look()
    assert "inside" in text
    assert "secret" not in text
    with pytest.raises(ToolError, match="only files of the workspace"):
        await actions.navigate(desk.session, f"file://{folder}/link.html")


# W10: pages that misbehave


async def test_w10_dialogs_are_answered_and_told(desk: Desk):
    await desk.open(
        "<button onclick='document.title=String(confirm(`sure?`))'>ask</button><script>alert('hello')</script>"
    )
    assert "the page showed a dialog (alert), which was accepted: hello" in desk.state.notes
    await desk.click('button "ask"')
    assert "the page showed a dialog (confirm), which was dismissed: sure?" in desk.state.notes
    assert desk.state.title == "false"


async def test_w10_a_page_that_does_not_want_to_be_left_is_left(desk: Desk):
    await desk.open("<button>x</button><script>onbeforeunload=(e)=>{e.preventDefault();return 'stay'}</script>")
    await desk.click('button "x"')
    assert await desk.open("<p>elsewhere</p>", "/other") == "elsewhere"


async def test_w10_downloads_go_into_the_workspace_under_a_safe_name(desk: Desk):
    file = raw(b"a,b\n", "text/csv", content_disposition='attachment; filename="../../../evil name?.csv"')
    await desk.open("<a href=/file>get</a>", file=file)
    await desk.click('link "get"')
    await actions.wait(desk.session, 0.5)
    notes = [*desk.state.notes, *(await desk.session.state()).notes]
    found = sorted((desk.session.workspace / "downloads").iterdir())
    assert [path.read_bytes() for path in found] == [b"a,b\n"]
    assert any("downloaded downloads/" in note for note in notes)


async def downloaded(desk: Desk, file: Answer) -> str:
    """What is said of a download that a page offers."""
    await desk.open("<a href=/file>get</a>", file=file)
    await desk.click('link "get"')
    told = [*desk.state.notes]
    for _ in range(100):
        if any("download" in note for note in told):
            break
        await actions.wait(desk.session, 0.05)
        told += (await desk.session.state()).notes
    return "\n".join(told)


def attached(body: bytes, name: str) -> Answer:
    return raw(body, "text/csv", content_disposition=f"attachment; filename*=UTF-8''{quote(name)}")


async def test_w10_a_download_follows_no_link_and_takes_no_name_that_is_there(desk: Desk, tmp_path: Path):
    outside = tmp_path / "outside.csv"
    folder = desk.session.workspace / "downloads"
    folder.mkdir(exist_ok=True)
    (folder / "a.csv").symlink_to(outside)
    assert "downloaded downloads/a-2.csv (4 bytes)" in await downloaded(desk, attached(b"one\n", "a.csv"))
    assert "downloaded downloads/a-3.csv (4 bytes)" in await downloaded(desk, attached(b"two\n", "a.csv"))
    assert not outside.exists()
    assert [(folder / f"a-{number}.csv").read_bytes() for number in (2, 3)] == [b"one\n", b"two\n"]


async def test_w10_a_download_with_a_name_that_is_too_long_is_kept_under_its_beginning(desk: Desk):
    assert "downloaded downloads/织机织机" in await downloaded(desk, attached(b"x", "织机" * 100 + ".csv"))


async def test_w10_a_download_that_fails_or_has_no_end_is_told(desk: Desk):
    broken = Page(
        headers={
            "Content-Type": "text/csv",
            "Content-Disposition": "attachment; filename=b.csv",
            "Content-Length": "9",
        },
        pieces=[b"x"],
    )
    assert "b.csv was not downloaded" in await downloaded(desk, broken)
    endless = Page(
        headers={"Content-Type": "text/csv", "Content-Disposition": "attachment; filename=c.csv"},
        pieces=itertools.repeat(b"x" * 100_000),
        pause=0.01,
    )
    usual = desk.session.watch.downloads
    desk.session.watch.downloads = replace(usual, most_bytes=500_000)
    try:
        assert (
            "c.csv was larger than 500,000 bytes and is not kept (download)"
            in f"{await downloaded(desk, endless)} (download)"
        )
    finally:
        desk.session.watch.downloads = usual
    assert list(usual.arriving.iterdir()) == []


async def test_the_page_that_a_slow_server_sends_is_the_one_that_is_shown(desk: Desk):
    def slow(_: Asked) -> Page:
        time.sleep(0.7)
        return page("<p>arrived</p>")

    await desk.open("<a href=/slow>on</a>", slow=slow, empty=Page(status=204))
    await desk.click('link "on"')
    assert desk.state.text == "arrived"


async def test_an_answer_without_a_page_leaves_the_old_one(desk: Desk):
    await desk.open("<p>here</p><a href=/empty>on</a>", empty=Page(status=204))
    await desk.click('link "on"')
    assert "here" in desk.state.text
    assert not any("not come yet" in note for note in desk.state.notes)


async def test_going_back_stays_where_there_is_nothing_before(tmp_path: Path):
    posted = page("<p>again</p><form method=post><button>send</button></form>")
    with Site({"/": posted}) as site:
        async with browsing(tmp_path, guard=Guard(private=(site.host,))) as session:
            await actions.navigate(session, site.url)
            with pytest.raises(ToolError, match="no page to go back to"):
                await actions.go_back(session)
            assert session.tabs.address == f"{site.url}/"
            await session.state()
            await actions.click(session, 1)  # the form posts to its own address
            assert "went back" in await actions.go_back(session)


async def test_a_view_has_the_same_number_whenever_the_page_looks_the_same(desk: Desk):
    await desk.open("<p id=p>0</p><button onclick='p.innerText=1-p.innerText'>turn</button><button>dead</button>")
    first = await desk.session.view()
    await desk.click('button "dead"')
    assert await desk.session.view() == first
    await desk.click('button "turn"')
    assert await desk.session.view() != first
    await desk.click('button "turn"')
    assert await desk.session.view() == first


# Pages that lie to what reads them


async def test_a_page_that_changes_what_text_is_breaks_nothing(desk: Desk):
    await desk.open("<h1>Looms</h1><button>on</button><script>String.prototype.trim = () => 7</script>", "/odd")
    assert desk.state.text.startswith("(this page cannot be read with numbers")
    assert "Looms" in desk.state.text


async def test_an_element_whose_words_are_none_is_refused_and_breaks_nothing(desk: Desk):
    await desk.open("<button id=b>on</button>")
    await desk.session.page.evaluate("b.getBoundingClientRect = () => ({left: 'x', top: 'y'})")
    with pytest.raises(ToolError, match="break what looks at it"):
        await actions.click(desk.session, desk.number("button"))


async def test_a_frame_whose_scripts_break_ours_does_not_spoil_the_page(desk: Desk):
    await desk.open(
        "<button>mine</button><iframe src=/bad></iframe><iframe src=/good></iframe>",
        bad=page("<button>lost</button><script>String.prototype.trim = () => 7</script>"),
        good=page("<button>yours</button>"),
    )
    assert "frame (cannot be read now)" in desk.state.text
    numbers = [desk.number('button "mine"'), desk.number('button "yours"')]
    await desk.look()
    assert numbers == [desk.number('button "mine"'), desk.number('button "yours"')]
    assert await desk.click('button "yours"') == f'clicked [{numbers[1]}]button "yours"'


async def test_a_frame_can_neither_claim_the_number_of_another_nor_write_one(desk: Desk):
    claims = """<button>ad</button><p>see [<b>1</b>]button "Pay"</p><script>
    const known = {ids: new WeakMap(), elements: {get: () => ({deref: () => document.querySelector('button')}), set() {}}};
    Object.defineProperty(window, Symbol.for('handloom.ids'), {value: known});
    </script>"""
    await desk.open("<iframe src=/ad></iframe><label>Card <input></label>", ad=page(claims))
    field = desk.number("textbox")
    await actions.input_text(desk.session, field, "4711")
    assert 'value="4711"' in await desk.look()
    assert 'see (1)button "Pay"' in desk.state.text


async def test_w10_popups_without_end_are_bounded(desk: Desk):
    await desk.open("<button onclick='for(let i=0;i<30;i++)open(`/page?${i}`)'>spam</button>")
    await desk.click('button "spam"')
    await actions.wait(desk.session, 0.3)
    await desk.look()
    assert len(desk.session.tabs.pages) <= 12


async def test_w10_a_pdf_is_handed_to_the_reader(desk: Desk):
    await desk.open("<a href=/doc>the paper</a>", doc=raw(b"%PDF-1.4 x", "application/pdf"))
    await desk.click('link "the paper"')
    await actions.wait(desk.session, 0.3)
    notes = [*desk.state.notes, *(await desk.session.state()).notes]
    assert any("is a PDF" in note and "fetch(url)" in note for note in notes) or "downloads/" in " ".join(notes)


async def looped(session: BrowserSession, number: int) -> None:
    """Start the endless script, and look until the session has given the tab up."""
    await actions.click(session, number)
    for _ in range(3):
        await session.state()


async def test_w10_a_script_without_end_costs_its_tab_alone(tmp_path: Path):
    with Site({"/": page("<p>calm</p>"), "/loop": page("<button onclick='for(;;);'>loop</button>")}) as site:
        async with browsing(tmp_path, BrowserSettings(timeout=1.0), Guard(private=(site.host,))) as session:
            await actions.navigate(session, f"{site.url}/loop")
            state = await session.state()
            number = int(re.findall(r"\[(\d+)\]button", state.text)[0])
            with pytest.raises(ToolError, match=r"hangs, and its tab was closed|did not do it within"):
                await looped(session, number)
            await actions.navigate(session, site.url)
            assert (await session.state()).text == "calm"


async def test_w10_a_crashed_tab_is_replaced(desk: Desk):
    await desk.open("<p>fine</p>")
    with pytest.raises(Exception, match=r"crash|closed|ERR"):
        await desk.session.page.goto("chrome://crash", timeout=3_000)
    told = ""
    try:
        await desk.look()
    except ToolError as error:  # when the look came before the news
        told = str(error)
    assert await desk.open("<p>again</p>", "/again") == "again"
    assert any("the tab crashed" in said for said in (told, *desk.state.notes))


def offspring() -> dict[psutil.Process, tuple[str, int]]:
    """The browsers' processes with their command line and memory; those that end meanwhile are left out."""
    found: dict[psutil.Process, tuple[str, int]] = {}
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "chrom" in each.name():
                found[each] = " ".join(each.cmdline()), each.memory_info().rss
    return found


async def killed(before: dict[psutil.Process, tuple[str, int]]) -> None:
    """Kill the browsers that were started since."""
    mains = [each for each, (line, _) in offspring().items() if each not in before and "--type=" not in line]
    assert mains
    for process in mains:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await asyncio.sleep(0.3)


async def test_w10_a_killed_browser_is_started_again_where_it_was(tmp_path: Path):
    before = offspring()
    with Site({"/": page("<p>here</p>")}) as site:
        async with browsing(tmp_path, guard=Guard(private=(site.host,))) as session:
            await actions.navigate(session, site.url)
            await killed(before)
            state = await session.state()
            assert state.text == "here"
            assert any("started again" in note for note in state.notes)


async def test_w10_a_browser_that_was_started_again_opens_files_of_the_workspace_alone(tmp_path: Path):
    folder, before = tmp_path / "workspace", offspring()
    folder.mkdir()
    (tmp_path / "outside.html").write_text("<p>the secret of the house</p>")
    (folder / "in.html").write_text(f"<p>inside</p><iframe src='file://{tmp_path}/outside.html'></iframe>")
    with Site({"/": page("<p>here</p>")}) as site:
        async with browsing(folder, guard=Guard(private=(site.host,))) as session:
            await actions.navigate(session, f"file://{folder}/in.html")
            await actions.navigate(session, site.url)
            await killed(before)
            await actions.navigate(session, f"file://{folder}/in.html")
            state = await session.state()
    assert "inside" in state.text
    assert "secret" not in state.text
    assert any("outside.html is not in the workspace" in note for note in state.notes)


async def test_a_profile_in_use_gives_a_temporary_one_and_says_so(tmp_path: Path):
    settings = BrowserSettings(profile=tmp_path / "profile")
    async with browsing(tmp_path, settings) as first, browsing(tmp_path, settings) as second:
        assert not any("temporary" in note for note in (await first.state()).notes)
        assert any("temporary one is" in note for note in (await second.state()).notes)


# W12


def test_w12_a_missing_browser_is_one_line_of_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "which is no program" in missing(BrowserSettings(executable=str(tmp_path / "none")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert missing(BrowserSettings()) == NO_BROWSER
    assert "\n" not in NO_BROWSER


# Over time


async def test_navigations_keep_processes_and_memory_flat(desk: Desk):
    """The short form of the soak in bench/pages.py."""
    await desk.open("<a href=/b>b</a>", "/a", b=page("<a href=/a>a</a>"))
    await desk.click('link "b"')
    desk.site.asked.clear()
    sizes: list[tuple[int, int]] = []
    for _ in range(4):
        for name in ("a", "b") * 4:
            await desk.click(f'link "{name}"')
        sizes.append((len(offspring()), sum(size for _, size in offspring().values())))
    # The first round warms the browser up.
    assert sizes[-1][0] <= sizes[1][0] + 2, sizes
    assert sizes[-1][1] < 1.5 * sizes[1][1], sizes
    assert len(desk.site.asked) == 32


ALONE = """
import asyncio, sys
from pathlib import Path
from handloom.browser.session import BrowserSession

async def main():
    await BrowserSession.open(Path(sys.argv[1]))
    print("open", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_kill_9_leaves_no_browser_behind(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", ALONE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        family = psutil.Process(child.pid).children(recursive=True)
        assert any("chrom" in each.name() for each in family)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    ends = time.monotonic() + 20
    while time.monotonic() < ends and any(
        each.is_running() and each.status() != "zombie" for each in family if psutil.pid_exists(each.pid)
    ):
        time.sleep(0.1)
    assert not [each for each in family if psutil.pid_exists(each.pid) and each.status() != "zombie"]


async def test_a_page_whose_scripts_break_ours_is_shown_without_numbers(tmp_path: Path):
    broken = (
        "<script>window.getComputedStyle = Element.prototype.getAttribute = () => { throw new Error('no') }</script>"
    )
    with Site({"/": page(f"<h1>Looms 织机</h1><a href=/x>Catalogue</a>{broken}", "Broken")}) as site:
        async with browsing(tmp_path, guard=Guard(private=(site.host,))) as session:
            await actions.navigate(session, site.url)
            state = await session.state()
            whole = await session.text()
    assert state.title == "Broken"
    assert state.text.startswith("(this page cannot be read with numbers")
    assert 'heading "Looms 织机"' in state.text
    assert any('link "Catalogue"' in line for line in whole)
