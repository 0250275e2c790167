"""Orders: what a command that works was told on the command line, read and checked."""

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from handloom import config
from handloom.errors import ConfigError
from handloom.messages import ImagePart, Json, is_object
from handloom.wiring import Approval, Wishes

IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif"}


@dataclass(frozen=True, kw_only=True)
class Order:
    """The options of a command that works."""

    model: str = ""
    agent: str = ""
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    as_json: bool = False
    out: Path | None = None
    schema: Path | None = None
    workspace: Path | None = None
    images: tuple[Path, ...] = ()
    approval: Approval = ""

    def __post_init__(self) -> None:
        if self.out is not None and (self.out.is_dir() or not self.out.absolute().parent.is_dir()):
            raise ConfigError(f"-o {self.out}: that is no file in a folder that exists")

    def wishes(self) -> Wishes:
        return Wishes(
            agent=self.agent, model=self.model, output=_schema(self.schema) if self.schema else None, limits=self.limits
        )

    def folder(self) -> Path:
        folder = (self.workspace or Path.cwd()).resolve()
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder to work in")
        return folder

    def shown(self) -> tuple[ImagePart, ...]:
        """The images that go with the task. Raises: ConfigError for what is none."""
        return tuple(_image(path) for path in self.images)


def limits(turns: int | None, tokens: int | None, cost: float | None, timeout: str | None) -> dict[str, float | None]:
    """The limits of the command line by their names in a run."""
    return {"turns": turns, "tokens": tokens, "cost": cost, "seconds": config.seconds(timeout)}


def approval(*, yes: bool, ask: bool, deny: bool) -> Approval:
    """What the three options say together. Raises: ConfigError for more than one."""
    given: dict[Approval, bool] = {"yes": yes, "ask": ask, "deny": deny}
    chosen: list[Approval] = [name for name, is_set in given.items() if is_set]
    if len(chosen) > 1:
        raise ConfigError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else ""


def read_task(text: str) -> str:
    """The task as valid text; `-` is standard input. Raises: ConfigError when it is empty."""
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = valid(text)
    if not text:
        raise ConfigError("the task is empty; say what to do")
    return text


def valid(text: str) -> str:
    """What came from the shell or a pipe as text that can be saved, whatever its bytes were."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()


def _schema(path: Path) -> Json:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if not is_object(found):
        raise ConfigError(f"{path} must hold a JSON Schema, which is a JSON object")
    return found


def _image(path: Path) -> ImagePart:
    if path.suffix.lower() not in IMAGES:
        raise ConfigError(f"{path} is no image that models take ({', '.join(IMAGES)})")
    try:
        return ImagePart(data=base64.b64encode(path.read_bytes()).decode(), mime=IMAGES[path.suffix.lower()])
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
