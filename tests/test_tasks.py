"""Real tasks on the embedded model, as a person would give them: each is judged by its effect, within a bounded number of turns and of time."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Command
from handloom.events import RunEnded
from handloom.journal.sqlite import SqliteStore

pytestmark = [pytest.mark.model, pytest.mark.timeout(1_000)]

TRIES = 3


@dataclass(frozen=True)
class Attempt:
    """One run of a task in a fresh folder."""

    folder: Path
    done: "subprocess.CompletedProcess[str]"

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture
def solve(embedded: Command, tmp_path: Path) -> "Solve":
    """Try a task until it is solved, three times at most: a model of this size does not find its way each time."""

    def solve(
        words: tuple[str, ...],
        solved: Callable[[Attempt], bool],
        files: Mapping[str, str] | None = None,
        turns: int = 8,
    ) -> Attempt:
        attempts: list[Attempt] = []
        for number in range(TRIES):
            folder = tmp_path / f"工作{number}"
            folder.mkdir()
            for name, text in (files or {}).items():
                (folder / name).write_text(text, encoding="utf-8")
            done = embedded(folder, "run", *words, "--max-turns", str(turns), "--timeout", "3m")
            attempts.append(Attempt(folder, done))
            if solved(attempts[-1]):
                return attempts[-1]
        raise AssertionError("\n\n".join(attempt.done.stderr + attempt.done.stdout for attempt in attempts))

    return solve


Solve = Callable[..., Attempt]


def test_it_computes(solve: Solve, model_home: Path) -> None:
    attempt = solve(
        ("How many days are there between 2024-02-10 and 2026-11-30?",),
        lambda tried: "1024" in tried.done.stdout.replace(",", ""),
    )
    assert attempt.done.returncode == 0
    store = SqliteStore(model_home)
    assert any(isinstance(event, RunEnded) for event in store.read(store.recent(1)[0].id))
    store.close()


def test_it_writes_a_file(solve: Solve) -> None:
    words = "Write a file greeting.txt that holds exactly the line: Good morning, loom!"
    assert (
        solve((words,), lambda tried: tried.text("greeting.txt").strip() == "Good morning, loom!").done.returncode == 0
    )


def test_it_reads_a_file_and_counts(solve: Solve) -> None:
    log = "\n".join(f"{'ERROR' if number % 3 == 0 else 'INFO'} job {number}" for number in range(1, 58))
    attempt = solve(
        ("How many lines of app.log contain the word ERROR?",),
        lambda tried: "19" in tried.done.stdout,
        {"app.log": log},
    )
    assert attempt.done.returncode == 0


def test_it_works_in_chinese(solve: Solve) -> None:
    words = "读取 数据.csv，把“金额”这一列的总和写入文件 结果.txt，然后告诉我总和是多少。"
    attempt = solve(
        (words,),
        lambda tried: "1234" in tried.text("结果.txt"),
        {"数据.csv": "名称,金额\n苹果,200\n香蕉,34\n樱桃,1000\n"},
    )
    assert attempt.done.returncode == 0


def test_a_typed_answer_has_its_form(solve: Solve) -> None:
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer"}},
        "required": ["sum"],
        "additionalProperties": False,
    }

    def typed(tried: Attempt) -> bool:
        return tried.done.returncode == 0 and json.loads(tried.done.stdout) == {"sum": 100}

    assert solve(
        ("What is the sum of the numbers 17, 25 and 58?", "--schema", "schema.json"),
        typed,
        {"schema.json": json.dumps(schema)},
    )


def test_it_repairs_a_failing_test(solve: Solve) -> None:
    test = 'from calc import add\n\nassert add(2, 3) == 5, f"add(2, 3) gave {add(2, 3)}"\nprint("all tests pass")\n'

    def repaired(tried: Attempt) -> bool:
        """Judged with the test as it was given, whatever has become of it."""
        (tried.folder / "given.py").write_text(test, encoding="utf-8")
        return subprocess.run([sys.executable, "given.py"], cwd=tried.folder, check=False).returncode == 0

    attempt = solve(
        ("The test test_calc.py fails. Find the mistake in calc.py and correct it so that the test passes.",),
        repaired,
        {"calc.py": 'def add(a, b):\n    """The sum of a and b."""\n    return a - b\n', "test_calc.py": test},
    )
    assert attempt.done.returncode == 0
