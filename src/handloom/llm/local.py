"""The embedded model: a file for a name such as `local`, and llama.cpp serving it on loopback.

    path = locate("local", cache)
    server = await shared(path)
    client = AsyncOpenAI(base_url=server.base_url, api_key=server.api_key)

The process is `handloom.llm.llamacpp`, the bundled file comes from `handloom.llm.weights`.
"""

import asyncio
import atexit
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self, cast

import msgspec

from handloom.errors import ConfigError, ModelUnavailableError
from handloom.llm import hub
from handloom.llm.llamacpp import Options, Started
from handloom.llm.weights import BUNDLED, Progress, Weights, assemble, complete

__all__ = ["BUNDLED", "LocalServer", "Weights", "assemble", "installed", "locate", "shared"]

CONTEXT = 32_768
_START_SECONDS = 300.0
# How long OpenMP's threads spin at a barrier. With the default of 300,000 rounds a second busy program took the rate from 25 to 1 token/s; with this, to 13.
_SPIN = "1000"
_MODULE = ("-P", "-m", "handloom.llm.llamacpp")  # -P: a module of the working directory must not pass for one of ours


def installed(weights: Weights = BUNDLED) -> bool:
    """Whether the bundled model can run: llama.cpp and all parts of the weights are installed. Nothing is imported."""
    return find_spec("xllamacpp") is not None and complete(weights)


def locate(spec: str, cache: Path, progress: Progress | None = None, *, weights: Weights = BUNDLED) -> Path:
    """The GGUF file that `spec` names, made or downloaded where need be.

    `local` is the bundled model, `local:/path/to.gguf` a file, `local:hf:ORG/REPO/FILE.gguf` one of a Hugging Face hub. It may take minutes: call it in a thread.
    Raises: ConfigError, ModelUnavailableError.
    """
    scheme, _, rest = spec.partition(":")
    if scheme != "local":
        raise ConfigError(
            f"{spec!r} is no embedded model; write local, local:/path/to.gguf or local:hf:ORG/REPO/FILE.gguf"
        )
    if not rest:
        return assemble(cache, progress, weights=weights)
    if rest.startswith("hf:"):
        return _checked(hub.download(rest.removeprefix("hf:"), cache, progress))
    return _checked(Path(rest).expanduser())


class LocalServer:
    """A process with llama.cpp and one model. It ends with `close`, with this process, or when this process is killed.

    `n_ctx` is the tokens of one slot, and `n_parallel` slots answer at once; each slot reserves its memory (28 kB a token for the bundled model,
    0.9 GB with the defaults). The key keeps other programs and web pages out. Raises: ConfigError when llama.cpp is not installed.
    """

    def __init__(self, path: Path, *, n_ctx: int = CONTEXT, n_parallel: int = 1, n_threads: int | None = None) -> None:
        if find_spec("xllamacpp") is None:
            raise ConfigError('llama.cpp is not installed. Install it with `pip install "handloom[local]"`')
        self.path = path
        self.model = path.stem
        self.n_ctx = n_ctx
        self.api_key = secrets.token_urlsafe(24)
        self._started: Started | None = None
        self._starting = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the process; `close` closes it
        self._process = _spawn(self._log.fileno())
        self._orders = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        options = Options(
            path=str(path),
            name=self.model,
            api_key=self.api_key,
            n_ctx=n_ctx * n_parallel,
            n_parallel=n_parallel,
            n_threads=n_threads or _cores(),
            parent=os.getpid(),
        )
        with suppress(BrokenPipeError):  # `ready` says why the process has ended
            self._orders.write(msgspec.json.encode(options) + b"\n")

    @classmethod
    async def start(
        cls, path: Path, *, n_ctx: int = CONTEXT, n_parallel: int = 1, n_threads: int | None = None
    ) -> Self:
        """A server that is ready; cancelling it ends the process.

        Raises: ConfigError when the file cannot be loaded, ModelUnavailableError when the process ends or is not ready in time.
        """
        server = cls(path, n_ctx=n_ctx, n_parallel=n_parallel, n_threads=n_threads)
        try:
            await server.ready()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def base_url(self) -> str:
        """The address with `/v1`, once the server is ready."""
        return f"{self._started.address if self._started else ''}/v1"

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the model is loaded, for seconds. Raises as `start`."""
        await asyncio.to_thread(self._wait)

    def close(self) -> None:
        """End the process at once, also during a reply."""
        self._process.kill()
        self._process.wait()
        for file in (self._orders, self._answers, self._log):
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self) -> None:
        with self._starting:
            if self._started is None:
                self._started = self._hear()
        if self._started.error:
            raise ConfigError(f"llama.cpp cannot load {self.path}: {self._said() or self._started.error}")

    def _hear(self) -> Started:
        if not select.select([self._answers], [], [], _START_SECONDS)[0]:
            raise ModelUnavailableError(
                f"{self.path} was not loaded within {_START_SECONDS:.0f} s; the machine is too busy, or too small for it"
            )
        line = self._answers.readline()
        if not line:
            raise ModelUnavailableError(
                f"llama.cpp ended with {self._process.wait()} while loading {self.path}: {self._said() or 'a smaller n_ctx needs less memory'}"
            )
        return msgspec.json.decode(line, type=Started)

    def _said(self) -> str:
        """How the process's own words begin; there are none unless something went wrong."""
        return os.pread(self._log.fileno(), 500, 0).decode(errors="replace").strip()


_SHARED: dict[tuple[Path, int, int], LocalServer] = {}
_SHARING = threading.Lock()


async def shared(path: Path, *, n_ctx: int = CONTEXT, n_parallel: int = 1) -> LocalServer:
    """The server of this process for these values, started by the first who asks and ended with the process. Raises as `LocalServer.start`."""
    server = _shared(path, n_ctx, n_parallel)
    await server.ready()
    return server


def _shared(path: Path, n_ctx: int, n_parallel: int) -> LocalServer:
    key = (path.resolve(), n_ctx, n_parallel)
    with _SHARING:
        server = _SHARED.get(key)
        if server is not None and not server.alive:
            server.close()
            server = None
        if server is None:
            server = _SHARED[key] = LocalServer(path, n_ctx=n_ctx, n_parallel=n_parallel)
    return server


@atexit.register
def close_shared() -> None:
    """End the servers that `shared` has started."""
    with _SHARING:
        while _SHARED:
            _SHARED.popitem()[1].close()


def _spawn(log: int) -> subprocess.Popen[bytes]:
    """The process, in a session of its own, so that Ctrl-C reaches only us."""
    return subprocess.Popen(  # noqa: S603  # our own interpreter and module
        [sys.executable, *_MODULE],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
        env={"GOMP_SPINCOUNT": _SPIN, **os.environ},
    )


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigError(f"the model {path} cannot be read: {error.strerror}") from error
    if magic != b"GGUF":
        raise ConfigError(f"{path} is no GGUF file (it begins with {magic!r}); llama.cpp needs weights in that format")
    return path


def _cores() -> int:
    """The physical cores that this process may use: hyper-threads only slow the arithmetic down."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    return max(1, min(len({_siblings(cpu) for cpu in usable}), _quota()))


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text("ascii")
    except OSError:
        return str(cpu)


def _quota() -> int:
    """The cores that a container is given (cgroup v2), or many."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return -(-int(limit) // int(period))
    except (OSError, ValueError):
        return 1_000
