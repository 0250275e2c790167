"""States of a workspace are kept and brought back, and the person's own repository is left alone."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handloom.checkpoints import Checkpoints
from handloom.testing.server import ScriptedServer, reply

names = st.sampled_from(["a.txt", "b", "目录/c.txt", "目录/深/d", "e f.md", "-x"])
trees = st.dictionaries(names, st.binary(max_size=20), max_size=5)


def write(folder: Path, tree: dict[str, bytes]) -> None:
    for name, data in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def read(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.anyio
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=trees, second=trees)
async def test_any_state_is_brought_back(
    first: dict[str, bytes], second: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    workspace, store = tmp_path_factory.mktemp("w"), tmp_path_factory.mktemp("s")
    kept = Checkpoints.of(workspace, store)
    write(workspace, first)
    before = await kept.take("one")
    for path in sorted(workspace.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    write(workspace, second)
    after = await kept.restore(before, "two")
    assert read(workspace) == first
    await kept.restore(after, "three")
    assert read(workspace) == second


@pytest.mark.anyio
async def test_links_modes_and_ignored_files_are_as_they_were(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    write(workspace, {"run.sh": b"#!/bin/sh\n", ".gitignore": b"build/\n", "build/out": b"1"})
    (workspace / "run.sh").chmod(0o755)
    (workspace / "link").symlink_to("run.sh")
    kept = Checkpoints.of(workspace, tmp_path / "s")
    state = await kept.take("one")
    (workspace / "link").unlink()
    (workspace / "run.sh").chmod(0o644)
    (workspace / "build" / "out").write_bytes(b"2")
    await kept.restore(state, "two")
    assert (workspace / "link").readlink() == Path("run.sh")
    assert os.access(workspace / "run.sh", os.X_OK)
    assert (workspace / "build" / "out").read_bytes() == b"2", "what .gitignore leaves out is not touched"


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.anyio
async def test_the_persons_repository_and_its_index_are_left_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    write(workspace, {"a": b"1", "b": b"1"})
    git(workspace, "init", "-q")
    git(workspace, "add", "a")
    git(workspace, "commit", "-qm", "one")
    write(workspace, {"a": b"2"})
    before = {path: path.read_bytes() for path in (workspace / ".git").rglob("*") if path.is_file()}
    kept = Checkpoints.of(workspace, tmp_path / "s")
    state = await kept.take("one")
    write(workspace, {"a": b"3", "c": b"1"})
    assert "+3" in await kept.diff(state, await kept.take("two"))
    await kept.restore(state, "three")
    assert {path: path.read_bytes() for path in (workspace / ".git").rglob("*") if path.is_file()} == before
    assert read(workspace) == {"a": b"2", "b": b"1"}


@pytest.mark.anyio
async def test_filters_and_hooks_of_the_workspace_are_not_run(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    write(workspace, {"a": b"1", ".gitattributes": b"* filter=evil\n"})
    git(workspace, "init", "-q")
    git(workspace, "config", "filter.evil.clean", f"touch {tmp_path}/ran")
    kept = Checkpoints.of(workspace, tmp_path / "s")
    await kept.restore(await kept.take("one"), "two")
    assert not (tmp_path / "ran").exists()


def test_a_workspace_that_is_too_large_is_said(tmp_path: Path) -> None:
    write(tmp_path, {f"f{number}": b"" for number in range(12)})
    assert "more than 10 files" in Checkpoints.of(tmp_path, tmp_path / "s", most_files=10).problem()
    assert Checkpoints.of(tmp_path, tmp_path / "s").problem() == ""


@pytest.mark.anyio
async def test_what_is_not_counted_is_not_kept(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    noise = ["node_modules/a.js", "node_modules/deep/b.js", "src/__pycache__/c.pyc", "venv/d", ".venv/e"]
    write(workspace, {"src/a.py": b"1", **dict.fromkeys(noise, b"1")})
    kept = Checkpoints.of(workspace, tmp_path / "s", most_files=1)
    assert kept.problem() == ""
    before = await kept.take("one")
    write(workspace, {"src/a.py": b"2", "src/node_modules/f.js": b"2", **dict.fromkeys(noise, b"2")})
    (workspace / "node_modules/deep/b.js").unlink()
    assert "node_modules" not in await kept.diff(before, await kept.take("two"))
    now = read(workspace)
    await kept.restore(before, "three")
    assert read(workspace) == {**now, "src/a.py": b"1"}


@pytest.mark.anyio
@pytest.mark.parametrize("commits", [False, True])
async def test_a_repository_inside_the_workspace_is_left_alone_and_the_rest_is_kept(
    tmp_path: Path, *, commits: bool
) -> None:
    workspace = tmp_path / "w"
    write(workspace, {"a": b"1", "old/里/x": b"1"})
    git(workspace / "old" / "里", "init", "-q")
    kept = Checkpoints.of(workspace, tmp_path / "s")
    before = await kept.take("one")
    write(workspace, {"a": b"2", "old/里/x": b"2", "new/y": b"2"})
    for folder in (workspace / "old" / "里", workspace / "new"):
        git(folder, "init", "-q")
        if commits:
            git(folder, "add", ".")
            git(folder, "commit", "-qm", "one")
    assert "+2" in await kept.diff(before, await kept.take("two"))
    await kept.restore(before, "three")
    assert read(workspace) == {"a": b"1", "old/里/x": b"2", "new/y": b"2"}


@pytest.mark.anyio
async def test_a_folder_that_becomes_a_repository_is_brought_back_all_the_same(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    write(workspace, {"src/a": b"1"})
    kept = Checkpoints.of(workspace, tmp_path / "s")
    before = await kept.take("one")
    git(workspace / "src", "init", "-q")
    write(workspace, {"src/a": b"2", "src/b": b"2"})
    await kept.restore(before, "two")
    assert read(workspace) == {"src/a": b"1"}


Command = Callable[..., "subprocess.CompletedProcess[str]"]


def command(home: Path, folder: Path, url: str) -> Command:
    """handloom as a person runs it in the folder."""
    environment = {
        "PATH": os.environ["PATH"],
        "HANDLOOM_HOME": str(home),
        "HANDLOOM_LLM__MODEL": "m",
        "HANDLOOM_LLM__BASE_URL": url,
        "HANDLOOM_LLM__TOOL_MODE": "native",
    }

    def handloom(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "handloom", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
            check=False,
        )

    return handloom


def test_a_run_is_shown_as_a_patch_and_taken_back(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "工作"
    write(folder, {"old.txt": b"one\n"})
    edits = [
        ("str_replace_editor", {"command": "create", "path": "new.txt", "file_text": "新\n"}),
        ("python_execute", {"code": "open('old.txt', 'w').write('two\\n')"}),
    ]
    end = ("terminate", {"status": "success", "answer": "ok"})
    with ScriptedServer([reply(calls=[call]) for call in (*edits, end)]) as server:
        handloom = command(home, folder, server.base_url)
        assert handloom("run", "edit").stdout == "ok\n"
        patch = handloom("runs", "diff").stdout
        assert "+新" in patch
        assert "-one\n+two" in patch
        run = handloom("runs", "list").stdout.split()[0]
        assert handloom("runs", "restore", run, "--turn", "2").returncode == 0
        assert read(folder) == {"old.txt": b"one\n", "new.txt": "新\n".encode()}
        assert handloom("runs", "restore", run).returncode == 0
        assert read(folder) == {"old.txt": b"one\n"}
        late = handloom("runs", "restore", run, "--turn", "9")
        assert (late.returncode, "no state before turn 9" in late.stderr) == (2, True)


@pytest.mark.parametrize("looks_first", [False, True])
def test_what_a_person_wrote_between_two_tasks_is_there_before_the_second(tmp_path: Path, *, looks_first: bool) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()

    def edit(name: str) -> tuple[str, dict[str, str]]:
        return "str_replace_editor", {"command": "create", "path": name, "file_text": name}

    end = ("terminate", {"status": "success", "answer": "ok"})
    look = [("find_files", {"text": "x"})] if looks_first else []
    steps = [edit("one.txt"), end, *look, edit("two.txt"), end]
    with ScriptedServer([reply(calls=[step]) for step in steps]) as server:
        handloom = command(home, folder, server.base_url)
        assert handloom("run", "one").stdout == "ok\n"
        write(folder, {"mine.txt": b"my own words"})
        assert handloom("run", "-c", "two").stdout == "ok\n"
        run = handloom("runs", "list").stdout.split()[0]
        assert handloom("runs", "restore", run, "--turn", "3").returncode == 0
    assert set(read(folder)) == {"one.txt", "mine.txt"}


def test_a_patch_that_is_shown_on_a_terminal_cannot_move_it(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    write(folder, {"a.txt": b"old\n"})
    edit = ("python_execute", {"code": "open('a.txt', 'wb').write(b'new \\x1b[2J text caf\\xe9\\n')"})
    end = ("terminate", {"status": "success", "answer": "ok"})
    with ScriptedServer([reply(calls=[call]) for call in (edit, end)]) as server:
        handloom = command(home, folder, server.base_url)
        handloom("run", "edit")
        patch = handloom("runs", "diff").stdout
        assert "+new \x1b[2J text caf\udce9\n" in patch, "a patch in a file is exact"
        words = [sys.executable, "-c", "import pty, sys; pty.spawn([sys.executable, '-m', 'handloom', 'runs', 'diff'])"]
        shown = subprocess.run(
            words,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HANDLOOM_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
    assert "+new  text caf?" in shown
    assert "\x1b[2J" not in shown
