"""Runs pytest as a user without rights, from a root that may have its tools and the clone where no other user can look.

    python tests/sandbox/unprivileged.py tests/sandbox tests/toolbox/test_bash.py tests/toolbox/test_python.py

A mount namespace shows the interpreter, the packages and the clone under their own names to everybody, read-only; then root is given up.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from handloom.sandbox import mounts
from handloom.sandbox.probe import working_bwrap

UID = 54_321
REPO = Path(__file__).resolve().parents[2]


def command(arguments: list[str], home: Path) -> list[str]:
    """For root; `home` belongs to the user and holds all that the tests write."""
    shown = mounts.outermost([REPO, *mounts.toolchains(pythonpath=os.environ.get("PYTHONPATH", ""))])
    closed = {
        path for each in shown for path in each.parents if path != Path("/") and path.stat().st_mode & 0o005 != 0o005
    }
    words = [working_bwrap(), "--dev-bind", "/", "/", "--die-with-parent"]
    for path in sorted(mounts.outermost(closed)):
        words += ["--perms", "0755", "--tmpfs", str(path)]
    for path in shown:
        for above in [*path.parents][-2::-1]:
            words += (
                ["--perms", "0755", "--dir", str(above)] if any(above.is_relative_to(each) for each in closed) else []
            )
        words += ["--ro-bind", str(path), str(path)]
    words += ["--chdir", str(REPO), "--", "setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    words += ["--inh-caps=-all", "--bounding-set=-all", "--"]
    return [
        *words,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={home}/pytest",
        *arguments,
    ]


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": f"{home}/hypothesis",
    }


def make_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="handloom-unprivileged-"))
    os.chown(home, UID, UID)
    return home


def main() -> int:
    if os.geteuid() != 0:
        print("you are not root: run pytest itself")  # noqa: T201 - a script
        return 2
    home = make_home()
    try:
        return os.spawnve(os.P_WAIT, working_bwrap(), command(sys.argv[1:], home), environment(home))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
