# What people who work on handloom run; `.ci/run` runs the same.

set shell := ["bash", "-euo", "pipefail", "-c"]

run := "uv run --no-sync"

# List the recipes.
default:
    @just --list

# Make .venv with exactly the locked packages and this project in it.
sync:
    uv venv --quiet --allow-existing
    uv pip sync --quiet requirements.lock
    uv pip install --quiet --no-deps --editable .

# Format, lint, types, layers.
check: sync
    {{run}} ruff format --check
    {{run}} ruff check
    {{run}} basedpyright
    {{run}} lint-imports

# A browser and a font for the tests where the machine has none: Debian's as root, else Playwright's.
browser: sync
    @{{run}} python -c 'import sys; from handloom.browser.settings import BrowserSettings, program; sys.exit(not program(BrowserSettings()))' || \
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
      apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes chromium fonts-noto-cjk openssl >/dev/null; \
    else {{run}} playwright install chromium; fi

# All tests, those of the embedded model included.
test *args: browser
    {{run}} pytest {{args}}

# The tests that need no model: seconds, not minutes.
test-fast *args: sync
    {{run}} pytest -m "not model" {{args}}

# The benchmarks that need no model; `just bench-tasks` tries the small real tasks.
bench: sync
    {{run}} python bench/startup.py
    {{run}} python bench/journal.py
    {{run}} python bench/overhead.py
    {{run}} python bench/python_call.py
    {{run}} python bench/flow.py --rounds 3
    {{run}} python bench/sandbox.py
    {{run}} python bench/soak.py --calls 300
    {{run}} python bench/injections.py
    {{run}} python bench/pages.py

# The tests of the sandbox once more, as a user without rights; run as root.
test-unprivileged: sync
    {{run}} python tests/sandbox/unprivileged.py tests/sandbox tests/toolbox/test_bash.py tests/toolbox/test_python.py

# The table of hostile input: each row with its tests and how they ended.
rows *args: sync
    {{run}} python bench/rows.py {{args}}

bench-tasks *args: sync
    {{run}} python bench/tasks/run.py {{args}}

# Write the lock anew. It names versions and hashes and no index, so it holds on any mirror.
lock:
    uv export --quiet --all-extras --all-groups --no-emit-project --no-emit-index-url --no-header --format requirements-txt --output-file requirements.lock
