"""The software agent: its tools, one call a turn, what it sees, and what the project asks for."""

import os
from pathlib import Path

import pytest

import handloom
from handloom.agents.instructions import MOST_BYTES, read_instructions
from handloom.messages import Message
from handloom.testing.models import ScriptedModel, calls, finish

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with instructions at its root and in a folder of it."""
    folder = tmp_path / "repo" / "部分"
    folder.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("not of this repository")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "AGENTS.md").write_text("Write tests.", encoding="utf-8")
    (folder / "AGENTS.md").write_text("用中文写注释。", encoding="utf-8")
    (folder / "calc.py").write_text("x = 1\n")
    return folder


def test_instructions_are_read_from_the_root_of_the_repository_down(project: Path) -> None:
    text = read_instructions(project)
    assert text.index("Write tests.") < text.index("用中文写注释。")
    assert "not of this repository" not in text
    assert read_instructions(project.parent.parent / "nowhere") == ""


def test_of_long_instructions_the_nearest_are_kept(project: Path) -> None:
    (project / "AGENTS.md").write_text("近" * MOST_BYTES, encoding="utf-8")
    text = read_instructions(project)
    assert len(text.encode()) < MOST_BYTES + 500
    assert "left out" in text
    assert "Write tests." not in text


def test_instructions_are_read_from_within_the_repository_alone(project: Path) -> None:
    root = project.parent
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("../../AGENTS.md")
    assert "not of this repository" not in read_instructions(project)
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("../CLAUDE.md")
    (root / "CLAUDE.md").write_text("Say please.")
    assert "Say please." in read_instructions(project)
    (root / "CLAUDE.md").unlink()
    os.mkfifo(root / "CLAUDE.md")
    assert "Write tests." in read_instructions(project), "nobody waits for what a pipe will say"


async def test_it_works_with_a_shell_and_an_editor_one_call_at_a_time(project: Path) -> None:
    two = calls(("bash", {"command": "mkdir inner; cd inner; pwd"}), ("bash", {"command": "echo second"}))
    edit = calls(("str_replace_editor", {"command": "view", "path": "calc.py"}))
    model = ScriptedModel([two, edit, finish("seen")])
    store = handloom.MemoryStore()
    result = await handloom.run("look", model=model, agent="swe", workspace=project, store=store)
    assert result.answer == "seen"
    assert [tool.name for tool in model.requests[0].tools] == ["bash", "str_replace_editor", "terminate"]
    assert "Write tests." in model.requests[0].system
    assert "用中文写注释。" in model.requests[0].system
    said = [message for message in model.requests[-1].messages if message.role == "tool"]
    assert len(said) == 2, "of two calls in one reply the first was made"
    assert "部分/inner" in said[0].text

    def next_step(place: int) -> str:
        return next(
            message.text for message in reversed(model.requests[place].messages) if message.origin == "next_step"
        )

    assert (f"Directory: {project}. Open file: none." in next_step(0), "部分/inner. Open" in next_step(1)) == (
        True,
        True,
    )
    assert "Open file: calc.py." in next_step(2)


async def test_a_resumed_run_keeps_the_instructions_it_began_with(project: Path) -> None:
    store = handloom.MemoryStore()
    model = ScriptedModel([calls(("bash", {"command": "true"}))])
    limits = handloom.Limits(turns=1)
    first = await handloom.run("look", model=model, agent="swe", workspace=project, store=store, limits=limits)
    assert first.cause == "limit"
    (project / "AGENTS.md").write_text("something else", encoding="utf-8")
    model = ScriptedModel([finish("ok")])
    await handloom.resume(first.run, model=model, store=store)
    assert "用中文写注释。" in model.requests[0].system
    assert "something else" not in model.requests[0].system
    assert isinstance(model.requests[0].messages[0], Message)
