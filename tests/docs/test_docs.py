"""The documentation is true: its code runs, and the commands, events, settings and pages that it names are there."""

import asyncio
import inspect
import json
import os
import re
import shlex
import sys
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
import typer
from pydantic import BaseModel
from pytest_examples import CodeExample, EvalExample, find_examples

from handloom import config
from handloom.cli import codes
from handloom.cli.app import app
from handloom.events import Envelope, Event
from handloom.llm.profiles import ToolMode
from handloom.testing.network import forbid_network
from handloom.testing.server import ScriptedServer, Step, reply

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, *languages: str) -> list[str]:
    return [body for info, body in FENCE.findall(read(path)) if info.split(" ")[0] in languages]


def prose(path: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", read(path)))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Code

DAYS = "from datetime import date\nprint((date(2026, 11, 30) - date(2024, 2, 10)).days)"
CARD = {"command": "create", "path": "card.txt", "file_text": "Happy birthday, Mia!"}


def finish(answer: object) -> tuple[str, dict[str, object]]:
    return "terminate", {"status": "success", "answer": answer}


# What the service that the pages take for granted says: the calls of each turn, by the words of the task.
CONVERSATIONS: dict[str, list[tuple[str, dict[str, object]]]] = {
    "How many days are there between 2024-02-10 and 2026-11-30?": [
        ("python_execute", {"code": DAYS}),
        finish("1024"),
    ],
    "Who wrote the first program, and in which year?": [finish({"name": "Ada Lovelace", "year": 1843})],
    "How many words are there in notes.txt?": [("count_words", {"name": "notes.txt"}), finish("There are 5 words.")],
    "Write a birthday card for my sister into card.txt.": [
        ("ask_human", {"question": "What is her name?"}),
        ("str_replace_editor", CARD),
        finish("The card for Mia is in card.txt."),
    ],
    "Count to three, one call at a time.": [
        ("python_execute", {"code": "1"}),
        ("python_execute", {"code": "2"}),
        ("python_execute", {"code": "3"}),
        finish("one, two, three"),
    ],
}


def service(body: dict[str, Any]) -> Step:
    """The turn that comes next in a conversation."""
    messages: list[dict[str, Any]] = body["messages"]
    turns = next(CONVERSATIONS[m["content"]] for m in messages if m["role"] == "user" and m["content"] in CONVERSATIONS)
    return reply(calls=[turns[sum(message["role"] == "assistant" for message in messages)]])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader of the pages sits: a home and a folder of their own, and settings that name a model."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # examples take its place
    for name in [name for name in os.environ if name.startswith("HANDLOOM_")]:
        monkeypatch.delenv(name)
    with ScriptedServer(service) as server, forbid_network():
        monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HANDLOOM_LLM__MODEL", "scripted")
        monkeypatch.setenv("HANDLOOM_LLM__BASE_URL", server.base_url)
        monkeypatch.setenv("HANDLOOM_LLM__TOOL_MODE", "native")
        yield folder
    assert server.faults == []


def run(example: CodeExample, eval_example: EvalExample) -> dict[str, Any]:
    """The names that an example leaves behind. A failing one raises with made-up frames, which nothing can print, so it is told in words."""
    eval_example.set_config(line_length=120)
    # The formatter writes `# > ` before what is printed, pytest-examples looks for `#> `.
    shown = re.sub(r"^( *)# > ", r"\1#> ", example.source, flags=re.MULTILINE)
    try:
        return eval_example.run_print_check(replace(example, source=shown))
    except Exception as error:  # noqa: BLE001  # whatever an example raises is its fault to tell
        said = "".join(traceback.format_exception_only(error))
    return pytest.fail(f"{named(example.path)}:{example.start_line}: {said}", pytrace=False)


EXAMPLES = list(find_examples(*PAGES))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{named(example.path)}:{example.start_line}")
def test_python_code_runs_and_prints_what_it_says(example: CodeExample, eval_example: EvalExample, desk: Path) -> None:
    if example.prefix_settings().get("test") == "skip":
        pytest.skip("needs a hosted service")
    for name, test in run(example, eval_example).items():
        if name.startswith("test_") and inspect.isfunction(test):
            given = {"tmp_path": desk} if "tmp_path" in inspect.signature(test).parameters else {}
            outcome = test(**given)
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)


def test_few_examples_are_left_out() -> None:
    assert len(EXAMPLES) > 20
    assert sum(example.prefix_settings().get("test") == "skip" for example in EXAMPLES) == 0


TOML = [(path, block) for path in PAGES for block in blocks(path, "toml")]


@pytest.mark.parametrize(("path", "block"), TOML, ids=[f"{named(path)}-{at}" for at, (path, _) in enumerate(TOML)])
def test_settings_that_are_shown_load(path: Path, block: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(block, encoding="utf-8")
    assert config.load(folder=tmp_path, environment={"HANDLOOM_HOME": str(tmp_path)}).files, path


# Commands

COMMAND = typer.main.get_command(app)


def commands(command: Any = COMMAND, path: str = "") -> Iterator[tuple[str, Any]]:
    """(name, command) of each command that does something: `runs list`."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from commands(below, f"{path} {name}".strip())


def options(command: Any) -> list[str]:
    return [option for param in command.params if param.param_type_name == "option" for option in param.opts]


def sections(path: Path, level: str) -> dict[str, str]:
    """The text under each heading of a level, by the heading without its code marks."""
    parts = re.split(rf"^{level} (.+)$", read(path), flags=re.MULTILINE)
    return {heading.replace("`", ""): text for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_page_of_commands_names_each_command_with_its_options_and_no_other() -> None:
    page = {
        re.sub(r" [A-Z\[].*", "", heading).removeprefix("handloom "): text
        for heading, text in sections(DOCS / "reference" / "cli.md", "##").items()
        if heading.startswith("handloom ")
    }
    assert sorted(page) == sorted(name for name, _ in commands())
    missing = [
        (name, option)
        for name, command in commands()
        for option in options(command)
        if not re.search(rf"`{option}[` ]", page[name])
    ]
    assert missing == []


def test_the_page_of_commands_names_each_exit_code() -> None:
    shown = set(re.findall(r"^\| (\d+) \|", read(DOCS / "reference" / "cli.md"), re.MULTILINE))
    assert shown == {str(value) for name, value in vars(codes).items() if name.isupper()}


def invocations(text: str) -> Iterator[list[str]]:
    """The words after `handloom` in each line of a shell block."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if "handloom" in words:
            yield list(takewhile(lambda word: word not in ("|", ">", "&&", ";"), words[words.index("handloom") + 1 :]))


SHELL = sorted(
    {(named(path), *words) for path in PAGES for block in blocks(path, "sh") for words in invocations(block)}
)


@pytest.mark.parametrize("line", SHELL, ids=" ".join)
def test_commands_that_are_shown_parse(line: tuple[str, ...]) -> None:
    words, command = list(line[1:]), COMMAND
    if words and words[0] in ("--help", "--version"):
        return
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("handloom", words)


# Reference


def test_the_page_of_events_names_each_kind_with_its_fields_and_no_other() -> None:
    page = sections(DOCS / "reference" / "events.md", "###")
    kinds = {kind.__struct_config__.tag: kind for kind in get_args(Event)}
    assert sorted(page) == sorted(kinds)
    envelope = {field.name for field in msgspec.structs.fields(Envelope)}
    for name, kind in kinds.items():
        fields = {field.name for field in msgspec.structs.fields(kind)} - envelope
        assert set(re.findall(r"^\| `(\w+)`", page[name], re.MULTILINE)) == fields, name
        assert page[name].strip().startswith("Live only.") is not kind.durable, name


def tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """(heading, section) of each table of the settings file."""
    yield "Top level", config.Settings
    for name, field in config.Settings.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        section = next((k for k in kinds if inspect.isclass(k) and issubclass(k, BaseModel)), None)
        if section is not None:
            yield f"[{name}.NAME]" if get_origin(field.annotation) is dict else f"[{name}]", section


def default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    return "none" if value is None else f"`{json.dumps(value)}`"


@pytest.mark.parametrize(("heading", "section"), list(tables()))
def test_the_page_of_settings_names_each_one_with_its_default_and_no_other(
    heading: str, section: type[BaseModel]
) -> None:
    page = sections(DOCS / "reference" / "config.md", "##")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", page[heading], re.MULTILINE)
    below = {heading.strip("[]").split(".")[0] for heading, _ in tables()}
    expected = {
        field.alias or name: default(field)
        for name, field in section.model_fields.items()
        if section is not config.Settings or name not in below
    }
    assert dict(rows) == expected


def test_the_page_of_models_names_each_tool_mode() -> None:
    section = sections(DOCS / "how-to" / "models.md", "##")["How tools reach the model"]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert rows[0] == "tool_mode"
    assert sorted(rows[1:]) == sorted(get_args(ToolMode))


# Development


def test_the_page_of_rules_names_each_recipe_and_no_other() -> None:
    recipes = set(re.findall(r"^([\w-]+)(?: \*args)?:(?!=)", read(ROOT / "justfile"), re.MULTILINE)) - {"default"}
    assert set(re.findall(r"^\| `just ([\w-]+)`", read(ROOT / "AGENTS.md"), re.MULTILINE)) == recipes


def test_the_map_draws_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    checked = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = next(block for block in blocks(DOCS / "architecture.md", "text") if block.startswith("__main__"))
    assert [line.split("  ")[0] for line in drawn.splitlines()] == checked


def test_the_map_names_each_module() -> None:
    tree = next(block for block in blocks(DOCS / "architecture.md", "text") if block.startswith("src/handloom/"))
    names = set(re.findall(r"\w+", tree))
    modules = {path.stem for path in (ROOT / "src" / "handloom").rglob("*.py")} - {"__init__"}
    assert sorted(modules - names) == []


# Pages


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", read(path)), re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        page = (path.parent / target).resolve() if target else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(link)
    assert broken == []


def test_each_page_can_be_reached_from_the_readme() -> None:
    found, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(page))
        waiting += [(page.parent / link).resolve() for link in links if ":" not in link]
    assert set(PAGES) - found == set()


def test_both_readmes_show_the_same_code() -> None:
    assert FENCE.findall(read(ROOT / "README.md")) == FENCE.findall(read(ROOT / "README.zh.md"))
