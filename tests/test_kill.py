"""A process that is killed at any moment loses nothing: the run goes on to the same end, and no recorded call runs twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from handloom.events import Event, ModelReplied, RunEnded, ToolReturned
from handloom.journal.sqlite import SqliteStore
from handloom.testing.server import ScriptedServer, Step, call, reply

pytestmark = pytest.mark.timeout(500)

TURNS = 12
POINTS = 20


def service(body: dict[str, object]) -> Step:
    """Replies by what the conversation holds, so that any process gets the reply that comes next."""
    made = sum(len(message.get("tool_calls") or ()) for message in body["messages"])  # type: ignore[attr-defined]
    if made >= TURNS:
        return reply(calls=[("terminate", {"status": "success", "answer": f"did {TURNS}"})])
    code = f"with open('log.txt', 'a') as log: print({made}, file=log)"
    return reply(calls=[call("python_execute", {"code": code})])


def start(home: Path, folder: Path, url: str, *words: str) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.environ["PATH"],
        "HANDLOOM_HOME": str(home),
        "HANDLOOM_LLM__MODEL": "scripted",
        "HANDLOOM_LLM__BASE_URL": url,
        "HANDLOOM_LLM__TOOL_MODE": "native",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "handloom", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_while_it_works(process: "subprocess.Popen[bytes]", moment: float) -> None:
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


def test_l12_a_killed_process_resumes_to_the_same_end(tmp_path: Path) -> None:
    dice = random.Random(20261130)
    with ScriptedServer(service) as server:
        began = time.monotonic()
        whole = start(tmp_path / "home", tmp_path, server.base_url, "run", "count")
        answer, errors = whole.communicate(timeout=120)
        length = time.monotonic() - began
        assert answer == f"did {TURNS}\n".encode(), errors
        for point in range(POINTS):
            home, folder = tmp_path / f"home{point}", tmp_path / f"work{point}"
            folder.mkdir()
            first = start(home, folder, server.base_url, "run", "count")
            kill_while_it_works(first, dice.uniform(0.25, 1.0) * length)
            runs = SqliteStore(home).recent()
            if not runs:
                continue  # killed before the run began: there is nothing to resume
            if first.returncode != 0:
                second = start(home, folder, server.base_url, "resume", runs[0].id)
                kill_while_it_works(second, dice.uniform(0.25, 0.8) * length)
                if second.returncode != 0:
                    third = start(home, folder, server.base_url, "resume", runs[0].id)
                    answer, errors = third.communicate(timeout=120)
                    assert answer == f"did {TURNS}\n".encode(), errors
            check(SqliteStore(home).read(runs[0].id), folder)


def check(events: list[Event], folder: Path) -> None:
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].answer == f"did {TURNS}"
    assert sum(isinstance(event, ModelReplied) for event in events) == TURNS + 1
    returned = Counter(event.call.id for event in events if isinstance(event, ToolReturned))
    assert set(returned.values()) == {1}
    ran = Counter((folder / "log.txt").read_text().split())
    succeeded = [
        event
        for event in events
        if isinstance(event, ToolReturned) and event.call.name == "python_execute" and event.result.ok
    ]
    assert all(ran[event.call.arguments["code"].split("print(")[1].split(",")[0]] == 1 for event in succeeded)
    assert max(ran.values()) == 1, "no call ran twice"
