"""What the sandbox shows of the machine, decided before anything is started: folders to read, to write, to hide."""

import os
import site
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from handloom.errors import SandboxError
from handloom.sandbox.placeholders import SAYS, is_placeholder

SYSTEM = ("/usr", "/etc", "/opt", "/nix", "/gnu")
ROOT_NAMES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
KERNEL = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/mtrr",
    "/proc/pressure",
)
HIDDEN_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/krb5.keytab")
HIDDEN_FOLDERS = (
    "/etc/ssh",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/wireguard",
    "/etc/NetworkManager",
    "/etc/openvpn",
)
# Of the home folder: compilers and interpreters that people keep there.
TOOLCHAINS = (
    *(
        ".cargo/bin",
        ".rustup",
        ".nvm",
        ".pyenv",
        ".rbenv",
        ".asdf",
        ".sdkman",
        ".volta",
        ".bun/bin",
        ".deno/bin",
        "go/bin",
        "go/pkg",
    ),
    *(
        ".local/bin",
        ".local/share/uv",
        ".local/share/mise",
        ".npm-global",
        "miniconda3",
        "anaconda3",
        "miniforge3",
        ".local/pipx",
    ),
)
# Of the home folder, when the workspace holds it: they are never shown.
SECRETS = (
    *(
        ".ssh",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".password-store",
        ".mozilla",
        ".config/gcloud",
        ".config/gh",
    ),
    *(
        ".config/google-chrome",
        ".config/chromium",
        ".local/share/keyrings",
        ".netrc",
        ".git-credentials",
        ".pypirc",
        ".npmrc",
    ),
    *(".bash_history", ".zsh_history", ".python_history"),
)
NO_WORKSPACE = set("/ /usr /etc /bin /sbin /lib /lib64 /dev /proc /sys /run /var /boot /opt /tmp".split())  # noqa: SIM905 - a dozen lines otherwise


@dataclass(frozen=True)
class Mount:
    """`how`: read (a folder or file to read), write, hide (an empty folder or file in its place), forbid (a device where nothing is yet), hold (a file of ours there)."""

    how: str
    path: Path

    @property
    def is_free(self) -> bool:
        """Whether nothing of the person's has the name, so that a placeholder must take it."""
        return self.how in ("forbid", "hold")


def checked_workspace(workspace: Path) -> Path:
    """Raises: SandboxError when the folder cannot be a workspace."""
    path = workspace.resolve()
    if not path.is_dir():
        raise SandboxError(
            f"programs cannot be started in {workspace}: there is no such folder; create it, or choose another workspace"
        )
    if str(path) in NO_WORKSPACE:
        raise SandboxError(f"{path} belongs to the system and cannot be the workspace; choose a folder of a project")
    return path


def toolchains(extra: Sequence[Path] = (), *, pythonpath: str = "") -> list[Path]:
    """The running interpreter, its environment, this package and what the person named, wherever they live."""
    package = Path(__file__).resolve().parent.parent
    candidates = [
        *(Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)),
        *(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)),
        package,
        Path(site.getusersitepackages()) if site.ENABLE_USER_SITE else package,
        *(Path(entry) for entry in pythonpath.split(os.pathsep) if entry),
        *(path.expanduser().absolute() for path in extra),
    ]
    home = Path.home().resolve()
    candidates += [home / name for name in TOOLCHAINS]
    return outermost(
        path
        for path in candidates
        if path.exists() and path.resolve() not in (home, Path("/")) and not home.is_relative_to(path.resolve())
    )


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie in none of the others, and not in what is shown anyway."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in (*kept, *map(Path, SYSTEM))):
            kept.append(path)
    return kept


def plan(
    workspace: Path, tools: Sequence[Path], protected: Sequence[str], home: Path, repositories: Sequence[Path] = ()
) -> list[Mount]:
    """What is laid over the system's folders, in order: a later one hides what lies under it.

    The environment that runs this program stays read-only inside a workspace: what is put there would run outside. The sources of this package do not,
    for a person may work on them.
    """
    package = Path(__file__).resolve().parent.parent
    inside = [path for path in tools if path.is_relative_to(workspace)]
    return [
        *(Mount("read", path) for path in tools if path not in inside),
        Mount("write", workspace),
        *(Mount("read", path) for path in inside if path not in (package, workspace)),
        *(Mount("hide", home / name) for name in SECRETS if _is_shown(home / name, workspace)),
        *guarded(workspace, protected, repositories),
    ]


def guarded(workspace: Path, protected: Sequence[str], repositories: Sequence[Path] = ()) -> list[Mount]:
    """The protected paths, with those in the folders of `repositories`. The folder above one is held in place too, or it could be moved away and another put there.

    Where nothing is yet a device stands, that no program takes for a file. A missing `.git` stays free, so that `git init` works.
    """
    found: list[Mount] = []
    of_git = [name.removeprefix(".git/") for name in protected if name.startswith(".git/")]
    inner = [repository / name for repository in repositories for name in of_git]
    for path in dict.fromkeys((*(workspace / name for name in protected), *inner)):
        above = path.parent
        if above != workspace and above.is_file():
            found.append(Mount("read", above))  # the `.git` of a worktree is a file
        elif (
            path.is_symlink()
        ):  # nothing can be laid over a link, so its target is held; outside the workspace it is not there
            target = path.resolve()
            found += [Mount("read", target)] if target.exists() and target.is_relative_to(workspace) else []
        elif above.is_dir() and not above.is_symlink():
            if above != workspace and Mount("write", above) not in found:
                found.append(Mount("write", above))
            taken = path.exists() and not is_placeholder(path)
            found.append(Mount("read" if taken else "hold" if path.name in SAYS else "forbid", path))
    return found


def _is_shown(path: Path, workspace: Path) -> bool:
    return path.exists() and path.is_relative_to(workspace) and path != workspace
