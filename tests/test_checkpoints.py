"""States of a workspace are kept and brought back, and the person's own repository is left alone."""

import os
import subprocess
import sys
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


def test_a_run_is_shown_as_a_patch_and_taken_back(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "工作"
    write(folder, {"old.txt": b"one\n"})
    edits = [
        ("str_replace_editor", {"command": "create", "path": "new.txt", "file_text": "新\n"}),
        ("python_execute", {"code": "open('old.txt', 'w').write('two\\n')"}),
    ]
    end = ("terminate", {"status": "success", "answer": "ok"})
    with ScriptedServer([reply(calls=[call]) for call in (*edits, end)]) as server:
        environment = {
            "PATH": os.environ["PATH"],
            "HANDLOOM_HOME": str(home),
            "HANDLOOM_LLM__MODEL": "m",
            "HANDLOOM_LLM__BASE_URL": server.base_url,
            "HANDLOOM_LLM__TOOL_MODE": "native",
        }

        def handloom(*words: str) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, "-m", "handloom", *words]
            return subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

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
