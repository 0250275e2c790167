"""What all tests share."""

import asyncio
import tempfile
from collections.abc import Iterator
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


# The embedded model, for tests marked `model`.


@pytest.fixture(scope="module")
def local_server() -> Iterator[LocalServer]:
    """The bundled model, once for the tests of a module, so that no other module sees its process; its file is kept between runs."""
    if not installed():
        pytest.skip("the extra `local` is not installed")
    path = locate("local", Path(tempfile.gettempdir()) / "handloom-tests")
    with asyncio.run(LocalServer.start(path, n_ctx=8_192)) as server:
        yield server
