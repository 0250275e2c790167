"""A process that is killed at any moment of a flow loses no step, records none twice, and repeats at most what was under way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).with_name("kills.py")


@pytest.mark.timeout(120)
def test_a_killed_process_loses_no_step_and_records_none_twice(tmp_path: Path) -> None:
    # A program of its own, so that the processes it forks hold no part of this one.
    ran = subprocess.run(
        [sys.executable, str(KILLS), str(tmp_path), "15", "15"], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    counted = json.loads(ran.stdout)
    assert counted["points"] == 15
    assert (counted["lost"], counted["recorded_twice"], counted["ran_again_without_need"]) == (0, 0, 0)
