"""find_files: by name, by text, within bounds."""

import os
from pathlib import Path

import pytest

from handloom.errors import ToolError
from handloom.testing.tools import FakeContext
from handloom.toolbox.find import MOST_LINES, find_files

pytestmark = pytest.mark.anyio


async def found(workspace: Path, **arguments: object) -> str:
    async with FakeContext(workspace) as context:
        return (await find_files.run(arguments, context)).text


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in {
        "a.py": "x = 1\nprint(x)\n",
        "目录/b.py": "# 你好，世界\n",
        "目录/c.txt": "x = 2\n",
        "node_modules/d.py": "x = 3\n",
        ".git/e.py": "x = 4\n",
        "-f.py": "y\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "binary.py").write_bytes(b"x = \0\1")
    return tmp_path


async def test_files_are_found_by_name(workspace: Path) -> None:
    assert (await found(workspace, name="*.py")).split("\n") == ["-f.py", "a.py", "binary.py", "目录/b.py"]
    assert await found(workspace, name="*.py", path="目录") == "目录/b.py"


async def test_lines_are_found_by_text(workspace: Path) -> None:
    assert await found(workspace, text="^x = [0-9]") == "a.py:1:x = 1\n目录/c.txt:1:x = 2"
    assert await found(workspace, text="世界", name="*.py") == "目录/b.py:1:# 你好，世界"
    assert await found(workspace, text="-e") == "nothing found: no line like '-e' below ."
    assert await found(workspace, text="x", path="node_modules") == "node_modules/d.py:1:x = 3", "who names it means it"
    os.mkfifo(workspace / "目录/pipe")
    assert await found(workspace, text="x", path="目录/pipe") == "nothing found: no line like 'x' below 目录/pipe"


async def test_what_cannot_be_looked_for_is_an_error(workspace: Path) -> None:
    for arguments, said in (
        ({}, "give name"),
        ({"text": "("}, "grep"),
        ({"name": "a/*.py"}, "in path"),
        ({"name": "a\nb"}, "single lines"),
        ({"name": "*", "path": "nowhere"}, "nowhere"),
        ({"text": "x", "path": "nowhere"}, "nowhere"),
    ):
        with pytest.raises(ToolError, match=said):
            await found(workspace, **arguments)


async def test_f9_an_expression_that_explodes_elsewhere_ends_and_many_hits_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 5_000 + "!\n")
    assert "nothing found" in await found(tmp_path, text="(a+)+$")
    for number in range(MOST_LINES + 50):
        (tmp_path / f"n{number:03d}.txt").write_text("long " * 1_000)
    text = await found(tmp_path, name="**")
    assert text.endswith("[... 51 more left out; give a narrower path, name or text ...]")
    assert max(map(len, (await found(tmp_path, text="long")).splitlines())) < 400


async def test_it_sees_nothing_outside_the_workspace(workspace: Path) -> None:
    (workspace.parent / "outside.txt").write_text("secret words\n")
    (workspace / "link").symlink_to(workspace.parent / "outside.txt")
    assert "nothing found" in await found(workspace, text="secret words")
    with pytest.raises(ToolError):
        await found(workspace, text="secret words", path="../outside.txt")
