"""Engine: the few requests to a container engine that a sandbox needs, over its unix socket; Docker and Podman speak the same."""

import http.client
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from handloom.errors import SandboxError

SECONDS = 60.0


class Engine:
    """Blocking; call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def found(cls) -> "Engine":
        """The engine of this machine. Raises: SandboxError when none answers."""
        tried: list[str] = []
        for path in candidates(os.environ):
            engine = cls(path)
            try:
                engine.request("GET", "/_ping")
            except (OSError, SandboxError) as error:
                tried.append(f"{path}: {error}")
            else:
                return engine
        raise SandboxError(
            f"no container engine answers ({'; '.join(tried)}); start Docker or Podman (`systemctl --user start podman.socket`), "
            "or set DOCKER_HOST=unix:///path, or choose another sandbox.kind"
        )

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON of the answer. Raises: SandboxError when the engine says no, OSError when it cannot be reached."""
        connection = _UnixConnection(self.path)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", "Connection": "close"})
            answer = connection.getresponse()
            raw = answer.read()
        except http.client.HTTPException as error:
            raise SandboxError(f"the container engine at {self.path} gave no usable answer: {error!r}") from None
        finally:
            connection.close()
        told = _told(raw)
        if answer.status >= 400:
            raise SandboxError(f"the container engine said {answer.status}: {told.get('message', answer.reason)}")
        return told

    def run(self, description: Mapping[str, Any]) -> str:
        """Create a container and start it; its id. Raises: SandboxError, also when the image is not there, with the command that gets it."""
        try:
            identity = str(self.request("POST", "/containers/create", description)["Id"])
        except SandboxError as error:
            if "no such image" in str(error).lower():
                raise SandboxError(
                    f"the image {description['Image']} is not there; get it with `docker pull {description['Image']}`"
                ) from None
            raise
        try:
            self.request("POST", f"/containers/{quote(identity)}/start")
        except BaseException:
            self.remove(identity)
            raise
        return identity

    def remove(self, identity: str) -> None:
        """End a container and forget it; it may be gone already."""
        try:
            self.request("DELETE", f"/containers/{quote(identity)}?force=true&v=true")
        except (OSError, SandboxError):
            return


def candidates(environment: Mapping[str, str]) -> list[Path]:
    """Where engines listen: what the person set, then the usual places."""
    said = environment.get("DOCKER_HOST", "")
    if said.startswith("unix://"):
        return [Path(said.removeprefix("unix://"))]
    own = environment.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    home = Path.home()
    places = [
        Path("/var/run/docker.sock"),
        Path(own, "docker.sock"),
        Path(own, "podman/podman.sock"),
        Path("/run/podman/podman.sock"),
    ]
    return [*places, home / ".docker/run/docker.sock", home / ".colima/default/docker.sock"]


def _told(raw: bytes) -> dict[str, Any]:
    try:
        told = json.loads(raw)
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(str(self._path))
