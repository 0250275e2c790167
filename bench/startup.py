"""What it costs to start: CPU of the import and of --help, memory of the idle core, packages of a core install.

Usage: python bench/startup.py [rounds]
"""

import os
import subprocess
import sys
from importlib.metadata import distribution

from packaging.requirements import Requirement
from table import middle, show

CASES = {
    "python -c pass": "pass",
    "import handloom": "import handloom",
    "handloom --help": "import sys; sys.argv = ['handloom', '--help']\nfrom handloom.cli import main\ntry: main()\nexcept SystemExit: pass",
    "idle core (run, agent, journal)": "import handloom; handloom.run, handloom.Agent, handloom.Run\nfrom handloom.journal.sqlite import SqliteStore",
}


def child(code: str) -> tuple[float, float]:
    """(CPU seconds, peak MB) of a fresh interpreter."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def packages(name: str = "handloom") -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        needs = [Requirement(line) for line in distribution(current).requires or ()]
        waiting += [
            need.name.lower().replace("_", "-")
            for need in needs
            if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
    return found


def measure(rounds: int) -> None:
    for code in CASES.values():
        child(code)
    seen = [{name: child(code) for name, code in CASES.items()} for _ in range(rounds)]
    rows = [
        {"what": name, "cpu s": middle([s[name][0] for s in seen]), "peak MB": middle([s[name][1] for s in seen])}
        for name in CASES
    ]
    show("Start (median of fresh interpreters)", rows)
    print(f"packages of a core install: {len(packages())}: {', '.join(sorted(packages()))}")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
