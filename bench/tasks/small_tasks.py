"""Small real tasks: each has a folder to begin with, words, and a check of the effect, not of the words' form."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Check = Callable[[Path, str], bool]


@dataclass(frozen=True)
class Task:
    """`files` are written into the folder first; `check` gets the folder and the answer afterwards."""

    name: str
    words: str
    check: Check
    files: Mapping[str, str] = field(default_factory=dict)


def says(*parts: str) -> Check:
    """The answer holds each part; thousands separators do not matter."""
    return lambda _folder, answer: all(part.lower() in answer.lower().replace(",", "") for part in parts)


def holds(name: str, *parts: str) -> Check:
    """A file holds each part."""

    def check(folder: Path, _answer: str) -> bool:
        path = folder / name
        return path.is_file() and all(part in path.read_text(encoding="utf-8") for part in parts)

    return check


def is_exactly(name: str, text: str) -> Check:
    return lambda folder, _answer: (
        (folder / name).is_file() and (folder / name).read_text(encoding="utf-8").split() == text.split()
    )


def passes(script: str) -> Check:
    """A script of the folder ends well."""
    return lambda folder, _answer: (
        subprocess.run([sys.executable, script], cwd=folder, capture_output=True, timeout=20, check=False).returncode
        == 0
    )


def unchanged(name: str, text: str, other: Check) -> Check:
    """Another check, and a file that must not have been touched."""
    return lambda folder, answer: (folder / name).read_text(encoding="utf-8") == text and other(folder, answer)


def as_json(name: str, value: object) -> Check:
    def check(folder: Path, _answer: str) -> bool:
        try:
            return json.loads((folder / name).read_text(encoding="utf-8")) == value
        except (OSError, ValueError):
            return False

    return check


LOG = "\n".join(
    f"2026-11-{day:02d} {'ERROR' if day % 4 == 0 else 'INFO'} job {day} {'failed' if day % 4 == 0 else 'done'}"
    for day in range(1, 31)
)
SALES = "region,month,revenue\n" + "\n".join(
    f"{region},{month},{(place * 37 + month * 13) % 90 + 10}"
    for place, region in enumerate(("north", "south", "east", "west"))
    for month in range(1, 13)
)
PEOPLE = json.dumps(
    [{"name": name, "age": age} for name, age in (("Zoe", 31), ("Adam", 17), ("Mia", 45), ("Ben", 18), ("Lea", 12))]
)

STATS = '''def mean(values):
    """The arithmetic mean."""
    return sum(values) / (len(values) - 1)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
'''
TEST_STATS = """from stats import mean, median

assert mean([1, 2, 3, 4]) == 2.5, mean([1, 2, 3, 4])
assert median([3, 1, 2]) == 2
assert median([4, 1, 2, 3]) == 2.5
print("all tests pass")
"""
SLUG = '''def slugify(title):
    """Lower case words joined by single dashes."""
    return title.lower().replace(" ", "-")
'''
TEST_SLUG = """from slug import slugify

assert slugify("Hello World") == "hello-world"
assert slugify("  Many   spaces ") == "many-spaces", slugify("  Many   spaces ")
print("all tests pass")
"""

CALC = '''def add(a, b):
    """The sum of a and b."""
    return a - b
'''
TEST_CALC = """from calc import add

assert add(2, 3) == 5, f"add(2, 3) gave {add(2, 3)}"
print("all tests pass")
"""

TASKS: tuple[Task, ...] = (
    Task("days", "How many days are there between 2023-07-04 and 2025-03-19?", says("624")),
    Task("primes", "What is the sum of all prime numbers below 2000?", says("277050")),
    Task(
        "interest",
        "1500 euros earn 3.7 percent interest a year, compounded yearly. How many euros are there after 12 years? Round to cents.",
        says("2319.7"),
    ),
    Task(
        "write file",
        "Write a file greeting.txt that holds exactly the line: Good morning, loom!",
        is_exactly("greeting.txt", "Good morning, loom!"),
    ),
    Task("count in log", "How many lines of app.log contain the word ERROR?", says("7"), {"app.log": LOG}),
    Task(
        "csv mean",
        "What is the mean of the column revenue in sales.csv? Give two decimals.",
        says("56.25"),
        {"sales.csv": SALES},
    ),
    Task(
        "csv group",
        "Which region has the highest total revenue in sales.csv, and how much is it?",
        says("west", "756"),
        {"sales.csv": SALES},
    ),
    Task(
        "json filter",
        "Read people.json and write adults.json: a JSON list with the names of everybody who is at least 18, sorted alphabetically.",
        as_json("adults.json", ["Ben", "Mia", "Zoe"]),
        {"people.json": PEOPLE},
    ),
    Task(
        "repair test",
        "python test_stats.py fails. Repair stats.py so that it passes. Do not change the test.",
        unchanged("test_stats.py", TEST_STATS, passes("test_stats.py")),
        {"stats.py": STATS, "test_stats.py": TEST_STATS},
    ),
    Task(
        "repair text",
        "Running test_slug.py fails. Fix slug.py so that the test passes, and leave the test as it is.",
        unchanged("test_slug.py", TEST_SLUG, passes("test_slug.py")),
        {"slug.py": SLUG, "test_slug.py": TEST_SLUG},
    ),
    Task(
        "repair sign",
        "The test test_calc.py fails. Find the mistake in calc.py and correct it so that the test passes.",
        unchanged("test_calc.py", TEST_CALC, passes("test_calc.py")),
        {"calc.py": CALC, "test_calc.py": TEST_CALC},
    ),
    Task(
        "dependent steps",
        "numbers.txt holds one number a line. First write squares.txt with the square of each number, one a line. Then write report.md with the sum of squares.txt and its largest value.",
        lambda folder, answer: (
            is_exactly("squares.txt", "16 81 144 25 1")(folder, answer)
            and holds("report.md", "267", "144")(folder, answer)
        ),
        {"numbers.txt": "4\n9\n12\n5\n1\n"},
    ),
    Task(
        "中文合计",
        "读取 数据.csv，把“金额”这一列的总和写入文件 结果.txt，然后告诉我总和是多少。",
        lambda folder, answer: holds("结果.txt", "1234")(folder, answer) and "1234" in answer,
        {"数据.csv": "名称,金额\n苹果,200\n香蕉,34\n樱桃,1000\n"},
    ),
    Task(
        "shell count",
        "Use a shell command to find out how many files below the folder src end in .c. Answer with the number.",
        says("4"),
        {f"src/{name}": "x" for name in ("a.c", "b.c", "lib/c.c", "lib/deep/d.c", "e.h", "lib/f.h")},
    ),
    Task(
        "shell sort",
        "With a shell command sort the lines of fruit.txt and write them into sorted.txt.",
        is_exactly("sorted.txt", "apple banana cherry fig"),
        {"fruit.txt": "fig\ncherry\napple\nbanana\n"},
    ),
    Task(
        "rename",
        "Rename every .txt file in the folder notes so that it ends in .md instead.",
        lambda folder, _answer: (
            sorted(path.name for path in (folder / "notes").iterdir()) == ["a.md", "b.md", "keep.csv"]
        ),
        {"notes/a.txt": "a", "notes/b.txt": "b", "notes/keep.csv": "c"},
    ),
    Task(
        "find word",
        "Which file below the folder docs mentions zebras? Answer with its name.",
        says("savanna.md"),
        {
            "docs/forest.md": "deer and foxes",
            "docs/africa/savanna.md": "lions, zebras and grass",
            "docs/sea.md": "whales",
        },
    ),
    Task(
        "unique lines",
        "Write unique.txt with the lines of list.txt without repeated lines, in the order of their first appearance.",
        is_exactly("unique.txt", "pear apple fig plum"),
        {"list.txt": "pear\napple\npear\nfig\napple\nplum\n"},
    ),
    Task(
        "emoji file",
        "Create a file named 🎉 party.txt that contains the word confetti.",
        holds("🎉 party.txt", "confetti"),
    ),
    Task(
        "hash",
        "What are the first 8 hexadecimal digits of the SHA-256 of the file blob.dat?",
        says(hashlib.sha256(b"loom" * 99).hexdigest()[:8]),
        {"blob.dat": "loom" * 99},
    ),
    Task(
        "script",
        "Write a Python script fizz.py that prints the numbers 1 to 15, but Fizz for multiples of 3, Buzz for multiples of 5 and FizzBuzz for both. Run it and save what it prints in fizz.txt.",
        lambda folder, answer: (
            is_exactly("fizz.txt", "1 2 Fizz 4 Buzz Fizz 7 8 Fizz Buzz 11 Fizz 13 14 FizzBuzz")(folder, answer)
            and (folder / "fizz.py").is_file()
        ),
    ),
    Task(
        "join",
        "Join users.csv and orders.csv on user_id and write totals.csv with the columns name,total, one line for each user with the sum of their orders.",
        holds("totals.csv", "name,total", "Ann,30", "Bob,5"),
        {"users.csv": "user_id,name\n1,Ann\n2,Bob\n", "orders.csv": "order,user_id,amount\n1,1,10\n2,2,5\n3,1,20\n"},
    ),
    Task(
        "edit setting",
        "In config.ini change the port from 8080 to 9090 and leave everything else as it is.",
        is_exactly("config.ini", "[server]\nhost = localhost\nport = 9090\n[client]\nretries = 8080"),
        {"config.ini": "[server]\nhost = localhost\nport = 8080\n[client]\nretries = 8080\n"},
    ),
)
