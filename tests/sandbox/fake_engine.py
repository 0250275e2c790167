"""A container engine as far as a sandbox needs one: it speaks the same HTTP on a unix socket, and its containers are made by bubblewrap."""

import json
import os
import socketserver
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

import psutil

from handloom.sandbox.probe import working_bwrap

IMAGE = "python:3.12-slim"


class FakeEngine:
    """`with FakeEngine(path) as engine:`; `made` holds the descriptions of all containers, `running` those that live."""

    def __init__(self, path: Path) -> None:
        self.made: list[dict[str, Any]] = []
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._server = _Server(str(path), _Handler)
        self._server.engine = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for identity in list(self.running):
            self.remove(identity)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def create(self, description: dict[str, Any]) -> str:
        self.made.append(description)
        return f"container{len(self.made)}"

    def start(self, identity: str) -> None:
        description = self.made[int(identity.removeprefix("container")) - 1]
        host = description["HostConfig"]
        words = [working_bwrap(), "--unshare-user", "--unshare-pid", "--unshare-ipc", "--new-session"]
        words += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        words += ["--unshare-net"] if host["NetworkMode"] == "none" else []
        for place in ("/run", "/opt", "/home", *host["Tmpfs"]):
            words += ["--tmpfs", place]
        for bind in host["Binds"]:
            source, target, *how = bind.split(":")
            words += ["--ro-bind" if how == ["ro"] else "--bind", source, target]
        words += ["--remount-ro", "/", "--chdir", description["WorkingDir"], "--", *description["Cmd"]]
        environment = dict(entry.split("=", 1) for entry in description["Env"])
        environment["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        self.running[identity] = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def remove(self, identity: str) -> bool:
        process = self.running.pop(identity, None)
        if process is not None:
            inside = psutil.Process(process.pid).children()
            for one in [*inside, process]:
                one.kill()
            process.wait()
        return process is not None


class _Server(socketserver.ThreadingUnixStreamServer):
    engine: FakeEngine
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(200, {"ok": True})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/containers/create":
            description = json.loads(body)
            if description["Image"] != IMAGE:
                self._answer(404, {"message": f"No such image: {description['Image']}"})
            else:
                self._answer(201, {"Id": self.server.engine.create(description)})
        else:
            self.server.engine.start(self.path.split("/")[2])
            self._answer(204, None)

    def do_DELETE(self) -> None:
        found = self.server.engine.remove(self.path.split("/")[2].partition("?")[0])
        self._answer(204 if found else 404, None)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "local"

    def _answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)


def engine_of_this_machine() -> str:
    """The socket of a real engine, empty when there is none."""
    places = ("/var/run/docker.sock", f"/run/user/{os.getuid()}/podman/podman.sock", "/run/podman/podman.sock")
    return next((place for place in places if Path(place).exists()), "")
