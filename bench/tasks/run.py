"""Which of the small real tasks a model solves. Usage: python bench/tasks/run.py [-m MODEL] [--agent NAME] [--keep FOLDER] [TASK ...]

Each task gets a fresh folder and a bounded run; it counts as solved by its effect. The embedded model is the default.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from handloom import config, wiring
from handloom.journal import Store
from handloom.journal.sqlite import SqliteStore
from handloom.llm.model import Model
from handloom.runs import Limits, RunResult
from handloom.views.transcript import markdown

sys.path.insert(0, str(Path(__file__).parent.parent))
from small_tasks import TASKS, Task
from table import show

LIMITS = Limits(turns=12, seconds=300)


async def attempt(task: Task, folder: Path, model: Model, store: Store, agent: str = "manus") -> tuple[bool, RunResult]:
    """Run a task in a folder; solved by its effect, and only when the run says success."""
    for name, text in task.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    result = await wiring.run(task.words, model=model, agent=agent, workspace=folder, limits=LIMITS, store=store)
    return result.status == "success" and task.check(folder, result.answer), result


async def measure(names: list[str], spec: str, agent: str, keep: Path) -> None:
    loaded = config.load()
    model = await wiring.open_model(loaded, spec)
    store = SqliteStore(keep)
    rows: list[dict[str, object]] = []
    for place, task in enumerate(TASKS):
        if names and task.name not in names:
            continue
        folder = keep / f"{place:02d} {task.name}"
        folder.mkdir(parents=True)
        solved, result = await attempt(task, folder, model, store, agent)
        (keep / f"{place:02d} {task.name}.md").write_text(markdown(store.read(result.run)), encoding="utf-8")
        rows.append(
            {
                "task": task.name,
                "solved": "yes" if solved else "no",
                "status": result.cause or result.status,
                "turns": result.turns,
                "tokens": result.usage.total_tokens,
                "cached %": 100 * result.usage.cached_tokens // max(1, result.usage.prompt_tokens),
                "s": round(result.seconds, 1),
                "answer": (result.answer or result.reason).replace("\n", " ")[:60],
            }
        )
        print(f"{task.name}: {rows[-1]['solved']}", file=sys.stderr, flush=True)
    await model.aclose()
    show(
        f"Small real tasks, {model.name}, agent {agent}: {sum(row['solved'] == 'yes' for row in rows)} of {len(rows)} solved (transcripts in {keep})",
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--agent", default="manus")
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    asyncio.run(
        measure(
            options.tasks,
            options.model,
            options.agent,
            options.keep or Path(tempfile.mkdtemp(prefix="handloom-tasks-")),
        )
    )
