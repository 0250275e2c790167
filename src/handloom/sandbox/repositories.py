"""Repositories of the workspace: git on the person's side runs what stands in them, so that must not come from programs inside.

Those that are there at the start are held by mounts. What has come by the end is disarmed then: hooks lose their permission to be run, and of settings only those
stay that are known to run nothing.
"""

import contextlib
import os
import re
import stat
import subprocess
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from handloom.sandbox.aside import put_aside

SETTINGS = ("config", "config.worktree")
MOST_FOLDERS = 20_000  # that are looked through
DEEPEST = 6  # folders of submodules within each other
POINTER_BYTES = 4_096
SECONDS = 10.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Settings that run nothing and lead nowhere; the rest can name programs, or other files with settings.
_SAFE = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|quotepath|abbrev)"
    r"|user\.(?:name|email)|init\.defaultbranch|extensions\.(?:objectformat|refstorage|worktreeconfig|partialclone)"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune)|branch\..+\.(?:remote|merge|rebase)|submodule\..+\.(?:url|active|path|branch)|submodule\.active"
    r"|(?:pull\.rebase|push\.default|fetch\.prune|merge\.(?:ff|conflictstyle)|rebase\.autostash|diff\.(?:algorithm|renames)|gc\.auto|color\.[\w.]+)",
    re.DOTALL,
)


def found(workspace: Path) -> list[Path]:
    """The folders that git obeys below the workspace: each `.git`, what a `.git` that is a file or a link names, and those of submodules and work trees.

    One that lies elsewhere is not among them: programs cannot write it.
    """
    gits: list[Path] = []
    waiting = deque([workspace])
    for _ in range(MOST_FOLDERS):
        if not waiting:
            break
        with contextlib.suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.lower() == ".git":
                    gits += _named(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
    resolved = dict.fromkeys(path.resolve() for git in gits for path in (git, *_common(git)))
    return [path for path in resolved if path.is_relative_to(workspace) and path.is_dir()]


def identities(folders: Iterable[Path]) -> set[tuple[int, int]]:
    """The folders themselves, whatever their names come to stand for."""
    return {(status.st_dev, status.st_ino) for status in (folder.stat() for folder in folders if folder.is_dir())}


def disarm(workspace: Path, known: set[tuple[int, int]]) -> list[str]:
    """Disarm the repositories that have come since the `known` ones; what was taken from them, in words for a person. Nothing is reached through links."""
    done: list[str] = []
    for git in found(workspace):
        if identities([git]) <= known:
            continue
        where = git.relative_to(workspace)
        done += [f"{where}/hooks/{name} is not executable any more" for name in _disarmed_hooks(git)]
        for name in SETTINGS:
            if dropped := _disarmed_settings(git / name, workspace):
                done.append(f"{where}/{name} lost {', '.join(dropped)} (what it was is kept beside it)")
    return done


def _named(git: Path) -> list[Path]:
    """The git folder of this name, with those inside it; of a file the folder that it names."""
    if git.is_dir():
        return [git, *_inner(git)]
    words = _words(git)
    return [git.parent / words.removeprefix("gitdir:").strip()] if words.startswith("gitdir:") else []


def _inner(git: Path) -> list[Path]:
    """The git folders of submodules and work trees."""
    gits = _folders(git / "worktrees")
    waiting = [(path, 1) for path in _folders(git / "modules")]
    while waiting:
        path, depth = waiting.pop()
        if os.path.lexists(path / "HEAD"):
            gits.append(path)
            waiting += [(each, depth + 1) for each in _folders(path / "modules")] if depth < DEEPEST else []
        elif depth < DEEPEST:  # a submodule's name may have slashes
            waiting += [(each, depth + 1) for each in _folders(path)]
    return gits


def _common(git: Path) -> list[Path]:
    """The folder from which git takes settings and hooks in place of this one."""
    words = _words(git / "commondir").strip()
    return [git / words] if words else []


def _words(file: Path) -> str:
    with contextlib.suppress(OSError):
        descriptor = os.open(file, _FILE)
        try:
            return os.read(descriptor, POINTER_BYTES).decode("utf-8", "surrogateescape").replace("\0", "")
        finally:
            os.close(descriptor)
    return ""


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def _disarmed_hooks(git: Path) -> list[str]:
    """The names of the hooks that could have been run. git says of such a hook that it is ignored; who wants it makes it executable again."""
    disarmed: list[str] = []
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        folder = os.open(git / "hooks", _FOLDER)
        opened.callback(os.close, folder)
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - of a descriptor
            with contextlib.suppress(OSError):
                file = os.open(name, _FILE, dir_fd=folder)
                opened.callback(os.close, file)
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111 and not name.endswith(".sample"):
                    os.fchmod(file, status.st_mode & 0o666)
                    disarmed.append(name)
    return disarmed


def _disarmed_settings(path: Path, workspace: Path) -> list[str]:
    """The names of the settings that were dropped, or a word for all of them. The file is put aside, and one with the others takes its place."""
    if not os.path.lexists(path):
        return []
    entries = _entries(path)
    kept = [(name, value) for name, value in entries or [] if _is_safe(name, value, path.parent, workspace)]
    if entries is not None and len(kept) == len(entries):
        return []
    with contextlib.suppress(OSError):
        aside = put_aside(path)
        path.write_text("".join(map(_written, kept)), encoding="utf-8", errors="surrogateescape")
        owner = aside.lstat()
        os.chown(path, owner.st_uid, owner.st_gid)
    return sorted({name for name, _ in entries if (name, _) not in kept}) if entries is not None else ["all"]


def _entries(path: Path) -> list[tuple[str, str]] | None:
    """Names and values as git reads them, other files not included; None for what it cannot read."""
    if path.is_symlink() or not path.is_file():
        return None
    words = ["git", "config", "--file", str(path), "--no-includes", "--list", "-z"]
    alone = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    try:
        listed = subprocess.run(words, cwd="/", env=alone, capture_output=True, timeout=SECONDS, check=True)  # noqa: S603 - our own words
    except (OSError, subprocess.SubprocessError):
        return None
    text = listed.stdout.decode("utf-8", "surrogateescape")
    # One without a value is true.
    return [
        (name, value if sign else "true")
        for name, sign, value in (each.partition("\n") for each in text.split("\0")[:-1])
    ]


def _is_safe(name: str, value: str, git: Path, workspace: Path) -> bool:
    if name == "core.worktree":
        return (git / value).resolve().is_relative_to(workspace)
    if name.startswith(("remote.", "submodule.")) and ("::" in value or value.startswith("-")):
        return False  # a program that fetches
    return _SAFE.fullmatch(name) is not None


def _written(entry: tuple[str, str]) -> str:
    name, value = entry
    section, _, rest = name.partition(".")
    inner, _, key = rest.rpartition(".")
    head = f'[{section} "{_escaped(inner)}"]' if inner else f"[{section}]"
    return f'{head}\n\t{key} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
