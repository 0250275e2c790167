"""`plan` and `run --plan` as a person uses them: against a scripted service, with and without a terminal."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from handloom.flow.flow import Flow
from handloom.testing.server import ScriptedServer, reply

PLAN = {
    "steps": [
        {"name": "facts", "prompt": "Name a sight of 京都.", "needs": [], "tools": []},
        {"name": "poem", "prompt": "Write a poem about it.", "needs": ["facts"], "tools": []},
    ]
}
CHANGED = {"steps": [{"name": "poem", "prompt": "Write a haiku about 京都.", "needs": [], "tools": []}]}
EDITED = "steps:\n  hand: {prompt: Written by hand}\n"


class Shell:
    """A home, a folder, and a service whose replies are given by what it is asked."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.url = ""
        self.asked: list[str] = []
        self.replies: dict[str, Any] = {}
        self.more: dict[str, str] = {}

    def service(self, body: dict[str, Any]) -> Any:
        words = body["messages"][-1]["content"]
        self.asked.append(words)
        for key, answer in self.replies.items():
            if key in words:
                return reply(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
        raise AssertionError(f"no reply to {words}")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HANDLOOM_HOME": str(self.home),
            "HANDLOOM_LLM__MODEL": "scripted",
            "HANDLOOM_LLM__BASE_URL": self.url,
            "HANDLOOM_LLM__TOOL_MODE": "native",
            "TERM": "xterm",
            "COLUMNS": "200",
            **self.more,
        }

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "handloom", *words],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def on_a_terminal(self, *words: str, answers: list[str]) -> tuple[int, str]:
        """The exit code and all that a terminal showed; each answer is typed when a question stands there."""
        terminal, end = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "handloom", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)
        shown, waiting, seen = "", list(answers), 0
        until = time.monotonic() + 50
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 0.2)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                data = os.read(terminal, 65_536)
            except OSError:
                break
            shown += data.decode("utf-8", "replace")
            if waiting and "leaves it for later" in shown[seen:]:
                seen = len(shown)
                os.write(terminal, f"{waiting.pop(0)}\n".encode())
        os.close(terminal)
        return process.wait(timeout=20), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    shell = Shell(home, folder)
    shell.replies = {
        "A person wants it changed": CHANGED,
        "Goal: ": PLAN,
        "Name a sight": "金阁寺",
        "Write a poem": "a poem",
        "haiku": "a haiku",
        "by hand": "手写",
    }
    with ScriptedServer(shell.service) as server:
        shell.url = server.base_url
        yield shell


def run_of(shell: Shell) -> str:
    return shell.run("runs", "list").stdout.split()[0]


def test_plan_prints_a_flow_file_that_can_be_checked_and_run(shell: Shell) -> None:
    made = shell.run("plan", "一首关于京都的诗", "--explain")
    assert made.returncode == 0, made.stderr
    flow = Flow.parse(made.stdout)
    assert list(flow.plan.steps) == ["facts", "poem"]
    assert "# Attempt 1, by scripted" in made.stderr
    assert "2.\n   poem: prompt Write a poem" in made.stderr
    (shell.folder / "poem.yaml").write_text(made.stdout, encoding="utf-8")
    assert shell.run("flow", "check", "poem.yaml").returncode == 0
    ran = shell.run("flow", "run", "poem.yaml")
    assert (ran.returncode, ran.stdout) == (0, "a poem\n"), ran.stderr
    assert "金阁寺" in shell.asked[-1]


def test_a_goal_that_was_planned_is_taken_from_the_cache_and_said_to_be(shell: Shell) -> None:
    first = shell.run("plan", "a poem")
    again = shell.run("plan", "a poem", "--explain")
    assert again.stdout == first.stdout
    assert "the plan is taken from the cache; --no-cache makes a new one" in again.stderr
    assert len(shell.asked) == 1
    assert shell.run("plan", "a poem", "--no-cache").stdout == first.stdout
    assert len(shell.asked) == 2


def test_a_goal_without_a_plan_fails_with_the_reasons(shell: Shell) -> None:
    shell.replies = {"": {"steps": [{"name": "a", "prompt": "Do it.", "needs": ["b"]}]}}
    failed = shell.run("plan", "a poem")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "there is no step 'b'" in failed.stderr
    assert len(shell.asked) == 4


def test_a_plan_waits_for_a_person_who_comments_edits_and_approves(shell: Shell) -> None:
    waits = shell.run("run", "--plan", "a poem")
    assert (waits.returncode, waits.stdout) == (3, "")
    assert "Carry out this plan of 2 steps?" in waits.stderr
    run = run_of(shell)
    commented = shell.run("runs", "answer", run, "俳句就好")
    assert commented.returncode == 3
    assert "Carry out this plan of 1 step?" in commented.stderr
    assert "Write a haiku" in commented.stderr
    assert "俳句就好" in shell.asked[-1]
    wrong = shell.run("runs", "answer", run, "-", stdin="steps:\n  hand: {promt: x}\n")
    assert wrong.returncode == 3
    assert "did you mean 'prompt'?" in wrong.stderr
    edited = shell.run("runs", "answer", run, "-", stdin=EDITED)
    assert edited.returncode == 3, "an edited plan is shown again"
    done = shell.run("runs", "answer", run, "approve")
    assert (done.returncode, done.stdout) == (0, "手写\n"), done.stderr
    shown = shell.run("runs", "show", run).stdout
    assert "└─ hand: ok" in shown
    again = shell.run("resume", run)
    assert (again.returncode, again.stdout) == (0, "手写\n")


def test_a_plan_that_is_rejected_is_not_carried_out(shell: Shell) -> None:
    assert shell.run("run", "--plan", "a poem").returncode == 3
    rejected = shell.run("runs", "answer", run_of(shell), "拒绝")
    assert rejected.returncode == 5
    assert "the plan was rejected" in rejected.stderr
    assert len(shell.asked) == 1


def test_yes_approves_the_plan(shell: Shell) -> None:
    done = shell.run("run", "--plan", "--yes", "a poem")
    assert (done.returncode, done.stdout) == (0, "a poem\n"), done.stderr
    assert "poem   ok" in done.stderr
    assert "100% of the steps that ran succeeded" in done.stderr


def test_a_plan_goes_with_no_options_of_a_single_agent(shell: Shell) -> None:
    refused = shell.run("run", "--plan", "x", "--agent", "swe")
    assert refused.returncode == 2
    assert "--agent belongs to a single agent" in refused.stderr
    assert shell.run("run", "-c", "--plan", "x").returncode == 2
    assert shell.run("run", "--no-cache", "x").returncode == 2


def test_on_a_terminal_a_plan_is_commented_edited_in_the_editor_and_approved(shell: Shell) -> None:
    editor = shell.home / "editor"
    editor.write_text(
        f'#!/bin/sh\ngrep -q haiku "$1" && printf \'{EDITED}\' > "$1"\n'.replace("\n\n", "\n"), encoding="utf-8"
    )
    editor.chmod(0o755)
    shell.more = {"EDITOR": str(editor)}
    code, shown = shell.on_a_terminal("run", "--plan", "a poem", answers=["a haiku, please", "edit", "approve"])
    assert code == 0, repr(shown)
    assert shown.count("Carry out this plan") >= 3
    assert "手写" in shown


def test_statistics_over_runs(shell: Shell) -> None:
    assert shell.run("run", "--plan", "--yes", "a poem").returncode == 0
    (shell.folder / "bad.yaml").write_text(
        "name: bad\nsteps:\n  a: {run: exit 3, retry: {max: 1, backoff: 0s}}", encoding="utf-8"
    )
    assert shell.run("flow", "run", "bad.yaml").returncode == 1
    text = shell.run("runs", "stats").stdout
    assert "2 runs: " in text
    assert "50% of those that ended succeeded" in text
    assert re.search(r"bad +a +0 +1 +2 ", text), text
    found = json.loads(shell.run("runs", "stats", "--json").stdout)
    assert (found["runs"], found["success_rate"], found["status"]) == (2, 0.5, {"failed": 1, "success": 1})
    assert found["seconds"]["p99"] >= found["seconds"]["p50"]
    only = json.loads(shell.run("runs", "stats", "--json", "--flow", "bad").stdout)
    assert (only["runs"], only["steps"][0]["attempts"]) == (1, 2)
