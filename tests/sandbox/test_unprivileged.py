"""The rows that depend on rights once more as a user without any; `unprivileged.py` beside this runs whatever it is given so."""

# ruff: noqa: ASYNC240 - tests look at files, and other processes set no event

import asyncio
import os
import shutil
from pathlib import Path

import pytest
import unprivileged

pytestmark = pytest.mark.anyio

ROWS = "b1_ or b4_a or b12_the or b15 or b17_too or b20 or b21 or way_out or capability or p1_a_timeout_interrupts_await or p3_ or p5_death or p6_forks or kill_9"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the whole suite runs without rights already")
async def test_the_rows_hold_for_a_user_without_rights():
    home = unprivileged.make_home()
    try:
        tests = ["tests/sandbox/test_bwrap.py", "tests/toolbox/test_bash.py", "tests/toolbox/test_python.py"]
        process = await asyncio.create_subprocess_exec(
            *unprivileged.command([*tests, "-k", ROWS, "--timeout", "50"], home),
            env=unprivileged.environment(home),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    told = output.decode()
    assert process.returncode == 0, told
    assert int(told.rpartition(" passed")[0].split()[-1]) > 40
    assert not Path(home).exists()
