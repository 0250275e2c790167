"""What is decided before a program starts, and what is tidied when all have ended."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import ran

from handloom.sandbox import SandboxSettings, open_sandbox
from handloom.sandbox.environment import environment
from handloom.sandbox.hooks import disarm
from handloom.sandbox.mounts import Mount, guarded, outermost, plan, toolchains
from handloom.sandbox.placeholders import Placeholders, is_placeholder
from handloom.sandbox.settings import PROTECTED, Host

paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: Path("/x", *parts))


@given(st.lists(paths))
def test_the_outermost_paths_hold_all_and_none_holds_another(found: list[Path]):
    kept = outermost(found)
    assert all(any(path.is_relative_to(other) for other in kept) for path in found)
    assert not any(one != other and one.is_relative_to(other) for one in kept for other in kept)


def test_the_running_interpreter_is_among_the_tools_and_the_home_folder_is_not():
    tools = toolchains()
    for needed in (sys.prefix, sys.base_prefix):
        assert any(Path(needed).is_relative_to(tool) for tool in [*tools, Path("/usr")])
    assert not any(Path.home().is_relative_to(tool) for tool in tools)


def test_tools_inside_the_workspace_stay_read_only_over_it(tmp_path: Path):
    tool = tmp_path / ".venv"
    laid = plan(tmp_path, [tool, Path("/elsewhere")], (), Path("/home/ada"))
    assert laid == [Mount("read", Path("/elsewhere")), Mount("write", tmp_path), Mount("read", tool)]


def test_protected_paths_are_held_with_the_folder_above_them(tmp_path: Path):
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / "real").touch()
    (tmp_path / ".envrc").symlink_to("real")
    laid = guarded(tmp_path, (".git/hooks", ".git/config", ".envrc", ".vscode", "no/such"))
    assert laid == [
        Mount("write", tmp_path / ".git"),
        Mount("read", tmp_path / ".git/hooks"),
        Mount("forbid", tmp_path / ".git/config"),
        Mount("read", tmp_path / "real"),
        Mount("forbid", tmp_path / ".vscode"),
    ]
    (worktree := tmp_path / "worktree").mkdir()
    (worktree / ".git").write_text("gitdir: elsewhere\n")
    assert set(guarded(worktree, (".git/hooks", ".git/config"))) == {Mount("read", worktree / ".git")}


def test_repositories_below_the_workspace_are_protected_too(tmp_path: Path):
    for name in ("libs/织机/.git/hooks", "node_modules/left-pad/.git/hooks", "a/b/c/d/.git/hooks"):
        (tmp_path / name).mkdir(parents=True)
    repository = tmp_path / "libs/织机/.git"
    assert guarded(tmp_path, (".git/hooks", ".git/config", ".envrc")) == [
        Mount("forbid", tmp_path / ".envrc"),
        Mount("write", repository),
        Mount("read", repository / "hooks"),
        Mount("forbid", repository / "config"),
    ]


def test_placeholders_go_when_the_last_sandbox_does_and_files_of_others_stay(tmp_path: Path):
    (tmp_path / ".envrc").touch()
    first, second = Placeholders(tmp_path), Placeholders(tmp_path)
    wanted = [tmp_path / ".envrc", tmp_path / ".mcp.json"]
    assert first.hold(wanted) == second.hold(wanted) == [tmp_path / ".mcp.json"]
    first.close()
    assert is_placeholder(tmp_path / ".mcp.json")
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == [".envrc"]


@pytest.mark.anyio
async def test_hooks_of_a_repository_that_was_made_inside_cannot_be_run(tmp_path: Path):
    (workspace := tmp_path / "ws").mkdir()
    sandbox = await open_sandbox(workspace, SandboxSettings(cache=tmp_path / "cache"))
    code, _ = await ran(sandbox, "git init -q . && echo evil > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit")
    assert code == 0
    await sandbox.aclose()
    hook = workspace / ".git/hooks/pre-commit"
    assert (hook.read_text(), os.access(hook, os.X_OK)) == ("evil\n", False)


def test_hooks_are_not_reached_through_links(tmp_path: Path):
    (outside := tmp_path / "outside").mkdir()
    (program := outside / "program").write_text("x")
    program.chmod(0o755)
    (tmp_path / "ws/.git").mkdir(parents=True)
    (tmp_path / "ws/.git/hooks").symlink_to(outside)
    assert disarm(tmp_path / "ws") == []
    (tmp_path / "ws/.git/hooks").unlink()
    (tmp_path / "ws/.git/hooks").mkdir()
    (tmp_path / "ws/.git/hooks/post-merge").symlink_to(program)
    assert disarm(tmp_path / "ws") == []
    assert os.access(program, os.X_OK)


@given(st.dictionaries(st.text("ABCDEFKPTHY_", min_size=1), st.text("ab/:")))
def test_only_listed_names_of_our_environment_go_inside(ours: dict[str, str]):
    inside = environment(ours | {"MY_API_KEY": "canary", "LC_ALL": "C", "PATH": "/bin"})
    assert "canary" not in inside.values()
    assert (inside["LC_ALL"], inside["PATH"].endswith("/bin")) == ("C", True)


@pytest.mark.parametrize(
    ("rule", "name", "covered"),
    [
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "a.example.org", False),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "badexample.org", False),
    ],
)
def test_a_host_covers_itself_or_all_below_it(rule: str, name: str, *, covered: bool):
    assert Host(name=rule).covers(name) is covered


def test_what_the_person_side_obeys_is_protected_by_default():
    assert {".git/hooks", ".git/config", ".vscode", ".idea", ".envrc", ".mcp.json", ".handloom"} <= set(PROTECTED)
