"""Real tasks on the embedded model, as a person would give them: each is judged by its effect, within a bounded number of turns and of time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handloom.config import Folders
from handloom.events import RunEnded
from handloom.journal.sqlite import SqliteStore
from handloom.llm.local import BUNDLED

pytestmark = [pytest.mark.model, pytest.mark.timeout(420)]

CALC = 'def add(a, b):\n    """The sum of a and b."""\n    return a - b\n'
TEST_CALC = 'from calc import add\n\nassert add(2, 3) == 5, f"add(2, 3) gave {add(2, 3)}"\n'


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of its own whose models are those that the machine has put together already."""
    home = tmp_path_factory.mktemp("home")
    made = Folders.of(os.environ).cache / "models"
    if (made / BUNDLED.filename).exists():
        (home / "cache").mkdir()
        (home / "cache" / "models").symlink_to(made)
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "工作").mkdir()
    return tmp_path / "工作"


@pytest.fixture
def run(home: Path, folder: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HANDLOOM_HOME": str(home)}
        command = [sys.executable, "-m", "handloom", "run", *words, "--max-turns", "8", "--timeout", "5m"]
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=400,
            check=False,
        )

    return run


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_it_computes(run: Run, home: Path) -> None:
    done = run("How many days are there between 2024-02-10 and 2026-11-30?")
    assert done.returncode == 0, done.stderr
    assert "1024" in done.stdout.replace(",", "")
    store = SqliteStore(home)
    assert any(isinstance(event, RunEnded) for event in store.read(store.recent(1)[0].id))
    store.close()


def test_it_writes_a_file(run: Run, folder: Path) -> None:
    done = run("Write a file greeting.txt that holds exactly the line: Good morning, loom!")
    assert (folder / "greeting.txt").read_text(encoding="utf-8").strip() == "Good morning, loom!", done.stderr


def test_it_reads_a_file_and_counts(run: Run, folder: Path) -> None:
    lines = [f"{'ERROR' if number % 4 == 0 else 'INFO'} job {number}" for number in range(1, 31)]
    (folder / "app.log").write_text("\n".join(lines), encoding="utf-8")
    done = run("How many lines of app.log contain the word ERROR?")
    assert done.returncode == 0, done.stderr
    assert "7" in done.stdout


def test_it_repairs_a_failing_test(run: Run, folder: Path) -> None:
    (folder / "calc.py").write_text(CALC, encoding="utf-8")
    (folder / "test_calc.py").write_text(TEST_CALC, encoding="utf-8")
    done = run("The test test_calc.py fails. Find the mistake in calc.py and correct it so that the test passes.")
    tested = subprocess.run([sys.executable, "test_calc.py"], cwd=folder, capture_output=True, check=False)
    assert tested.returncode == 0, done.stderr
    assert (folder / "test_calc.py").read_text(encoding="utf-8") == TEST_CALC


def test_it_works_in_chinese(run: Run, folder: Path) -> None:
    (folder / "数据.csv").write_text("名称,金额\n苹果,200\n香蕉,34\n樱桃,1000\n", encoding="utf-8")
    done = run("读取 数据.csv，把“金额”这一列的总和写入文件 结果.txt，然后告诉我总和是多少。")
    assert "1234" in (folder / "结果.txt").read_text(encoding="utf-8"), done.stderr
    assert "1234" in done.stdout.replace(",", "")


def test_a_typed_answer_has_its_form(run: Run, folder: Path) -> None:
    (folder / "schema.json").write_text(
        '{"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": false}',
        encoding="utf-8",
    )
    done = run("What is the sum of the numbers 17, 25 and 58?", "--schema", "schema.json")
    assert done.stdout.replace(" ", "").strip() == '{"sum":100}', done.stderr
