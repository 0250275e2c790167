"""The process that holds llama.cpp; `handloom.llm.local` starts it and speaks to it by its pipes.

It is a process of its own because llama.cpp's server cannot be ended safely inside another program: closing it during a reply waits for ever, and leaving
the interpreter during a reply is a segmentation fault (xllamacpp 2026.10). Here the end is `os._exit`, whatever is going on.
"""

import os
import select
import signal
import sys
import time
from importlib import import_module
from typing import Any, BinaryIO

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is told on its standard input, as one line of JSON.

    `n_ctx` is the tokens of all slots together. `n_batch` is also how much of a prompt is read before a client that has gone away is noticed: 256 tokens
    are about 4 s on two cores, and larger batches are no faster there. `cache_ram_mib` bounds the prompts kept for later.
    """

    path: str
    name: str
    api_key: str
    n_ctx: int
    n_parallel: int = 1
    n_threads: int
    n_batch: int = 256
    cache_ram_mib: int = 512
    parent: int


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The one line of the answer: an address, or why there is none."""

    address: str = ""
    error: str = ""


def main() -> None:
    """Serve until the parent closes the pipe or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = _own_stdout()
    options = msgspec.json.decode(sys.stdin.buffer.readline(), type=Options)
    try:
        server = _serve(options)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        _await_words()
        _answer(answers, Started(error=f"{type(error).__name__}: {error}"))
        os._exit(1)
    _answer(answers, Started(address=server.listening_address))
    while os.getppid() == options.parent and not select.select([sys.stdin], [], [], 2.0)[0]:
        pass
    os._exit(0)


def _serve(options: Options) -> Any:
    xllamacpp: Any = import_module("xllamacpp")  # compiled, without types
    params = xllamacpp.CommonParams()
    params.model.path = options.path
    params.model_alias = {options.name}
    params.api_keys = [options.api_key]  # without one, any page in the person's browser may ask the model
    params.ui = False
    params.endpoint_slots = False  # it shows the prompts of others
    params.n_ctx = options.n_ctx
    params.n_parallel = options.n_parallel
    params.n_batch = params.n_ubatch = options.n_batch
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.n_threads
    params.cache_ram_mib = options.cache_ram_mib
    params.use_jinja = True
    params.warmup = False
    params.verbosity = 1  # errors; they go to the parent's log file
    return xllamacpp.Server(params)


def _await_words() -> None:
    """llama.cpp writes its log in a thread of its own: wait, a second at most, until it has said why it failed."""
    seen = -1
    for _ in range(20):
        said = os.fstat(sys.stderr.fileno()).st_size
        if said and said == seen:
            return
        seen = said
        time.sleep(0.05)


def _own_stdout() -> BinaryIO:
    """The pipe to the parent, out of reach of anything that prints."""
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return pipe


def _answer(pipe: BinaryIO, started: Started) -> None:
    pipe.write(msgspec.json.encode(started) + b"\n")
    pipe.flush()


if __name__ == "__main__":
    main()
