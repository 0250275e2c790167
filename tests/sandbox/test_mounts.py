"""What is decided before a program starts, and what is tidied when all have ended."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import ran

from handloom.sandbox import SandboxSettings, open_sandbox
from handloom.sandbox.environment import environment
from handloom.sandbox.mounts import Mount, guarded, outermost, plan, toolchains
from handloom.sandbox.placeholders import Placeholders, is_placeholder
from handloom.sandbox.repositories import disarm, found
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
    known = found(tmp_path)
    assert set(known) == {repository, tmp_path / "node_modules/left-pad/.git", tmp_path / "a/b/c/d/.git"}
    assert guarded(tmp_path, (".git/hooks", ".git/config", ".git/commondir", ".envrc"), [repository]) == [
        Mount("forbid", tmp_path / ".envrc"),
        Mount("write", repository),
        Mount("read", repository / "hooks"),
        Mount("forbid", repository / "config"),
        Mount("hold", repository / "commondir"),
    ]


def git(folder: Path, *words: str) -> str:
    """What the person's git says, with the files of the workspace alone."""
    own = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *named, *words], cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (folder := tmp_path / "ws").mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_git_goes_on_as_usual_while_its_folder_is_held(repository: Path):
    held = Placeholders(repository)
    held.hold([repository / ".git" / name for name in ("commondir", "config.worktree")])
    (repository / "f").write_text("x")
    git(repository, "add", "f")
    git(repository, "commit", "-q", "-m", "y")
    git(repository, "worktree", "add", "-q", "../other")
    git(repository, "gc", "-q")
    assert git(repository / "../other", "log", "--format=%s") == "y\nx\n"
    held.close()
    assert not {"commondir", "config.worktree"} & {path.name for path in (repository / ".git").iterdir()}


def evil(config: str) -> str:
    """The command that writes settings by which git runs a program."""
    setting = f"git config --file {config}"
    return f'{setting} core.repositoryformatversion 0; {setting} core.fsmonitor "touch {{owned}}; false"'


HOOK = "printf '#!/bin/sh\\ntouch {owned}\\n'"
INIT = "git init -q a; "
# How a program inside might make the person's git run something. Each leaves a repository that git takes for one.
WAYS = {
    "another common folder": f"cp -r .git evil; rm -f evil/config; {evil('evil/config')}; echo ../evil > .git/commondir",
    "the settings of a submodule": evil(".git/modules/sub/config"),
    "a hook of a submodule": f"{HOOK} > .git/modules/sub/hooks/post-commit; chmod +x .git/modules/sub/hooks/*",
    "a submodule that is elsewhere": f"cp -r .git/modules/sub evil; rm -f evil/config; {evil('evil/config')}; echo 'gitdir: ../evil' > sub/.git",
    "a repository made inside": INIT + evil("a/.git/config"),
    "a hook of one made inside": f"{INIT}{HOOK} > a/.git/hooks/post-commit; chmod +x a/.git/hooks/*",
    "hooks elsewhere": f"{INIT}mkdir a/h; {HOOK} > a/h/post-commit; chmod +x a/h/*; git config --file a/.git/config core.hooksPath h",
    "another file of settings": f"{INIT}git config --file a/.git/config include.path more; {evil('a/.git/more')}",
    "settings of a work tree": f"{INIT}git config --file a/.git/config extensions.worktreeConfig true; {evil('a/.git/config.worktree')}",
    "settings that are a link": f"{INIT}mv a/.git/config a/c; ln -s ../c a/.git/config; {evil('a/c')}",
    "a known repository that was moved away": f"mv deep other; git init -q deep; {evil('deep/.git/config')}",
}


def grown(repository: Path) -> None:
    """Give a repository a submodule, and a repository below it."""
    git(repository.parent, "init", "-q", "sub0")
    git(repository.parent / "sub0", "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "submodule", "--quiet", "add", "../sub0", "sub")
    (repository / "deep").mkdir()
    git(repository / "deep", "init", "-q")


def used(repository: Path) -> None:
    """Do there what a person does."""
    for folder in (repository, repository / "a", repository / "sub", repository / "deep"):
        if folder.exists():
            git(folder, "status", "--short")
            git(folder, "commit", "-q", "--allow-empty", "-m", "x")


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["bwrap", "off"])
async def test_no_program_in_the_sandbox_makes_the_persons_git_run_something(
    way: str, kind: Literal["bwrap", "off"], repository: Path, tmp_path: Path
):
    grown(repository)
    sandbox = await open_sandbox(repository, SandboxSettings(kind=kind, cache=tmp_path / "cache"))
    _, said = await ran(sandbox, WAYS[way].replace("{owned}", str(tmp_path / "owned")))
    await sandbox.aclose()
    used(repository)
    assert (tmp_path / "owned").exists() == (kind == "off"), said


@pytest.mark.anyio
@pytest.mark.parametrize("target", ["settings", "missing"])
async def test_a_protected_name_that_is_a_link_is_one_again(target: str, tmp_path: Path):
    (workspace := tmp_path / "ws").mkdir()
    (workspace / "settings").mkdir()
    (workspace / ".vscode").symlink_to(target)
    sandbox = await open_sandbox(workspace, SandboxSettings(cache=tmp_path / "cache"))
    code, said = await ran(sandbox, "rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json")
    assert code == 0, said
    await sandbox.aclose()
    assert (workspace / ".vscode").readlink() == Path(target)
    assert not (workspace / ".vscode/tasks.json").exists()
    assert (workspace / ".vscode.unsafe/tasks.json").read_text() == "evil\n"


@pytest.mark.anyio
async def test_of_settings_made_inside_those_that_run_nothing_stay(tmp_path: Path):
    (workspace := tmp_path / "ws").mkdir()
    sandbox = await open_sandbox(workspace, SandboxSettings(cache=tmp_path / "cache"))
    kept = {
        "user.name": '李 "A\\B"',
        "remote.ori gin.url": "https://example.org/a.git",
        "branch.main.remote": "ori gin",
    }
    lost = {"alias.st": "!touch x", "core.pager": "evil", "remote.ori gin.pushurl": "ext::evil", "core.worktree": "/"}
    words = [shlex.join(["git", "config", *pair]) for pair in (kept | lost).items()]
    code, said = await ran(sandbox, "; ".join(["git init -q .", *words]))
    assert code == 0, said
    await sandbox.aclose()
    settings = workspace / ".git/config"
    listed = dict(
        line.split("=", 1) for line in git(tmp_path, "config", "--file", str(settings), "--list").splitlines()
    )
    assert kept.items() <= listed.items()
    assert not set(lost) & set(listed)
    assert "alias" in settings.with_name("config.unsafe").read_text(encoding="utf-8"), "nothing is lost"


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
    assert disarm(tmp_path / "ws", set()) == []
    (tmp_path / "ws/.git/hooks").unlink()
    (tmp_path / "ws/.git/hooks").mkdir()
    (tmp_path / "ws/.git/hooks/post-merge").symlink_to(program)
    assert disarm(tmp_path / "ws", set()) == []
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
