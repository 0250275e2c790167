"""What all tests share."""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from handloom.llm.local import LocalServer, installed, locate

# The machines are shared: a slow moment says nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What a test leaves open fails its own module, and not whichever runs when it happens to be collected."""
    yield
    gc.collect()


# The embedded model, for tests marked `model`.


@pytest.fixture(scope="session")
def bundled() -> Path:
    """The file of the bundled model; it is kept between runs of the tests."""
    if not installed():
        pytest.skip("the extra `local` is not installed")
    return locate("local", Path(tempfile.gettempdir()) / "handloom-tests")


@pytest.fixture(scope="module")
def local_server(bundled: Path) -> Iterator[LocalServer]:
    """The bundled model, once for the tests of a module, so that no other module sees its process."""
    with asyncio.run(LocalServer.start(bundled, n_ctx=8_192)) as server:
        yield server


@pytest.fixture
def model_home(bundled: Path, tmp_path: Path) -> Path:
    """A HANDLOOM_HOME of its own, with the bundled model."""
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(bundled.parent)
    return home


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def embedded(model_home: Path) -> Command:
    """`embedded(folder, *words, **variables)` runs handloom in a folder as someone does who has the embedded model and no other settings than these variables."""
    own = {"PATH": os.environ["PATH"], "HOME": str(model_home), "HANDLOOM_HOME": str(model_home)}

    def run(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "handloom", *words],
            cwd=folder,
            env={**own, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=800,
            check=False,
        )

    return run
