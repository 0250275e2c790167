"""A person's own commands that may block a call."""

import os
import time
from pathlib import Path

import pytest

from handloom.policy import Hook, Refused, run_hooks

pytestmark = pytest.mark.anyio


def hook(folder: Path, script: str, timeout: float = 20) -> Hook:
    file = folder / "hook.sh"
    file.write_text(script)
    return Hook(on="before_tool", command=f"sh {file}", timeout=timeout)


async def run(folder: Path, script: str, *, seconds: float = 20) -> Refused | None:
    return await run_hooks([hook(folder, script, seconds)], "before_tool", {"a": "x"}, tool="t", folder=str(folder))


def gone(folder: Path) -> bool:
    """Whether the process whose number a hook has written is dead; a zombie is."""
    pid = int((folder / "pid").read_text())
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (OSError, ValueError):
            return True
        time.sleep(0.05)
    return False


LEFT = "sleep 60 & echo $! > pid\n"


async def test_a_child_that_holds_the_output_changes_no_answer_and_ends_with_the_hook(tmp_path: Path) -> None:
    began = time.monotonic()
    assert await run(tmp_path, f"{LEFT}exit 0") is None
    assert gone(tmp_path)
    refused = await run(tmp_path, f"echo not today >&2\n{LEFT}exit 2")
    assert refused == Refused("not today")
    assert gone(tmp_path)
    assert time.monotonic() - began < 15


async def test_a_hook_that_is_too_slow_ends_with_its_children(tmp_path: Path) -> None:
    refused = await run(tmp_path, f"{LEFT}sleep 60", seconds=1)
    assert refused is not None
    assert "did not answer within 1 s" in refused.reason
    assert gone(tmp_path)


async def test_a_long_reason_is_cut_and_stops_no_hook(tmp_path: Path) -> None:
    refused = await run(tmp_path, "head -c 300000 /dev/zero | tr '\\0' x >&2\nexit 2")
    assert refused == Refused("x" * 2_000)


async def test_a_hook_need_not_read_the_call(tmp_path: Path) -> None:
    hooks = [hook(tmp_path, "exit 0")]
    body = {"text": "x" * 300_000}
    assert await run_hooks(hooks, "before_tool", body, tool="t", folder=str(tmp_path)) is None
