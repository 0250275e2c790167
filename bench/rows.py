"""The acceptance table of hostile input: each row with its tests and how they ended. Usage: python bench/rows.py [ROW ...]

A test belongs to a row when its name or its parameters begin with the row's: `test_b3_...`, `test_x["L1 truncated"]`.
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    *(f"B{number}" for number in range(1, 24)),
    *(f"P{number}" for number in range(1, 15)),
    *(f"F{number}" for number in range(1, 13)),
    *(f"W{number}" for number in range(1, 13)),
    *(f"L{number}" for number in range(1, 13)),
]
_NAME = re.compile(r"(?:^test_|[\[\s-])([bpfwl]\d{1,2})(?=[_\s\]-])", re.IGNORECASE)


def rows_of(name: str) -> set[str]:
    """The rows that a test's name speaks of."""
    return {row.upper() for row in _NAME.findall(name)} & set(ROWS)


def run(wanted: set[str]) -> "dict[str, Counter[str]]":
    """Run the tests of the rows and count how they ended."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        letters = sorted({row[0].lower() for row in wanted})
        words = " or ".join(f"test_{letter}{digit}" for letter in letters for digit in range(1, 10))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not model",
            "-k",
            f"{words} or malformed",
            f"--junitxml={report}",
        ]
        done = subprocess.run([*command, str(ROOT / "tests")], capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode not in (0, 1) or not report.exists():
            raise SystemExit(done.stdout + done.stderr)
        cases = list(ET.parse(report).iter("testcase"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        ended = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        for row in rows_of(case.get("name", "")):
            counts[row][ended] += 1
    return counts


def main() -> int:
    wanted = {word.upper() for word in sys.argv[1:]} or set(ROWS)
    counts = run(wanted)
    bad = 0
    print("row   result   tests")
    for row in ROWS:
        if row in wanted:
            count = counts.get(row, Counter())
            result = (
                "none"
                if not count
                else "passed"
                if set(count) == {"passed"}
                else "skipped"
                if set(count) <= {"passed", "skipped"}
                else "FAILED"
            )
            bad += result in ("none", "FAILED")
            print(f"{row:<5} {result:<8} {', '.join(f'{number} {ended}' for ended, number in sorted(count.items()))}")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
