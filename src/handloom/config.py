"""Settings: flags over `HANDLOOM_*` variables over the project's file over the user's file over defaults.

A mistake in any of them is an error that names its place and, where it can, the word that was meant.
"""

import difflib
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handloom.errors import ConfigError
from handloom.messages import Json, is_object

PROJECT_FILE = Path(".handloom") / "config.toml"
_NOT_SETTINGS = {"HANDLOOM_HOME"}


class Section(BaseModel):
    """A table of the file; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(Section):
    """A model and where it is. Without `base_url` a name means OpenAI's service; `local`, `local:FILE.gguf` and `local:hf:REPO/FILE` are embedded."""

    model: str = ""
    base_url: str = "https://api.openai.com/v1"
    api_key_env: str = "OPENAI_API_KEY"
    api_key_cmd: str = ""
    azure_version: str = ""
    fallback: tuple[str, ...] = ()
    tool_mode: Literal["auto", "native", "structured", "text", "code"] | None = None
    dialect: Literal["calls", "qwen"] | None = None
    vision: bool | None = None
    json_schema: bool | None = None
    max_context: Annotated[int, Field(ge=2_048)] | None = None
    max_output: Annotated[int, Field(ge=64)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    idle_timeout: Annotated[float, Field(gt=0)] = 300.0
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}

    def key(self, environment: Mapping[str, str]) -> str:
        """The key, from the command or the variable that is named. Raises: ConfigError when the command fails."""
        if not self.api_key_cmd:
            return environment.get(self.api_key_env, "")
        try:
            done = subprocess.run(shlex.split(self.api_key_cmd), capture_output=True, text=True, timeout=30, check=True)  # noqa: S603 - the person's own command
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ConfigError(f"api_key_cmd {self.api_key_cmd!r} failed: {error}") from None
        return done.stdout.strip()


class LLMSettings(ModelSettings):
    """`[llm]` is the model for everything; `[llm.NAME]` are others to choose with `-m NAME`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, ModelSettings] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]  # pydantic's way to type the extra keys

    @property
    def named(self) -> dict[str, ModelSettings]:
        return self.__pydantic_extra__


class AgentSettings(Section):
    """Changes to a preset: its model, its tools, its limit of turns."""

    model: str = ""
    tools: tuple[str, ...] | None = None
    max_turns: Annotated[int, Field(ge=1)] | None = None


class LimitSettings(Section):
    """What a run may use. `timeout` takes seconds or `10m`; cost is USD."""

    max_turns: Annotated[int, Field(ge=1)] = 50
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None
    timeout: str | float | None = None


class PriceSettings(Section):
    """USD per million tokens."""

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None


class JournalSettings(Section):
    """`full` waits for the disk at each event; `normal` may lose the last ones when the power goes."""

    durability: Literal["normal", "full"] = "normal"


class Settings(Section):
    """Everything that can be set."""

    agent: str = "manus"
    llm: LLMSettings = LLMSettings()
    agents: dict[str, AgentSettings] = {}
    limits: LimitSettings = LimitSettings()
    journal: JournalSettings = JournalSettings()
    prices: dict[str, PriceSettings] = {}


@dataclass(frozen=True)
class Folders:
    """Where handloom keeps things: settings, runs, and what can be made again."""

    config: Path
    data: Path
    cache: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Folders":
        """From `HANDLOOM_HOME`, else the XDG variables, else their defaults."""
        if home := environment.get("HANDLOOM_HOME"):
            base = Path(home).expanduser().resolve()
            return cls(base, base, base / "cache")
        user = Path(environment.get("HOME") or Path.home())

        def folder(variable: str, default: str) -> Path:
            return Path(environment.get(variable) or user / default) / "handloom"

        return cls(
            folder("XDG_CONFIG_HOME", ".config"),
            folder("XDG_DATA_HOME", ".local/share"),
            folder("XDG_CACHE_HOME", ".cache"),
        )


@dataclass(frozen=True)
class Loaded:
    """Settings, with the files they came from and the project file that was not read because its folder is not trusted."""

    settings: Settings
    folders: Folders
    files: tuple[Path, ...] = ()
    untrusted: Path | None = None


def load(
    *, folder: Path | None = None, environment: Mapping[str, str] | None = None, flags: Json | None = None
) -> Loaded:
    """The settings that hold in `folder`. `flags` has the form of the file. Raises: ConfigError."""
    environment = os.environ if environment is None else environment
    folder = (folder or Path.cwd()).resolve()
    folders = Folders.of(environment)
    user, project = folders.config / "config.toml", folder / PROJECT_FILE
    trusted = is_trusted(folder, folders)
    files = [path for path in (user, project) if path.is_file() and (path is user or trusted)]
    layers = [
        *((str(path), _read(path)) for path in files),
        ("environment", _from_environment(environment)),
        ("flags", flags or {}),
    ]
    merged: Json = {}
    for place, layer in layers:
        _check_layer(place, layer)
        merged = _merge(merged, layer)
    ignored = project if project.is_file() and not trusted else None
    return Loaded(Settings.model_validate(merged), folders, tuple(files), ignored)


def is_trusted(folder: Path, folders: Folders) -> bool:
    """Whether the person has said that this folder's own settings may be used."""
    record = folders.data / "trusted"
    return record.is_file() and str(folder.resolve()) in record.read_text(encoding="utf-8").splitlines()


def trust(folder: Path, folders: Folders) -> None:
    """Remember that this folder's settings may be used."""
    if not is_trusted(folder, folders):
        folders.data.mkdir(parents=True, exist_ok=True)
        with (folders.data / "trusted").open("a", encoding="utf-8") as record:
            record.write(f"{folder.resolve()}\n")


def seconds(value: str | float | None) -> float | None:
    """A duration: seconds, or a number with `s`, `m`, `h` or `d`. Raises: ConfigError."""
    if value is None or isinstance(value, int | float):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if match is None:
        raise ConfigError(f"{value!r} is no duration; write seconds, or 90s, 10m, 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[match[2]]


def _read(path: Path) -> Json:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _from_environment(environment: Mapping[str, str]) -> Json:
    """`HANDLOOM_LLM__MODEL=x` is `[llm] model = "x"`; values that are TOML (numbers, booleans, lists) are read as TOML."""
    found: Json = {}
    for name, text in environment.items():
        if not name.startswith("HANDLOOM_") or name in _NOT_SETTINGS:
            continue
        keys = name.removeprefix("HANDLOOM_").lower().split("__")
        table = found
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _merge(below: Json, above: Json) -> Json:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if is_object(old) and is_object(value) else value
    return merged


def _check_layer(place: str, layer: Json) -> None:
    """Validate one layer alone, so that an error can name where it stands."""
    try:
        Settings.model_validate(layer)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise ConfigError(
            "\n".join(_explain(place, fault["loc"], fault["msg"], fault["type"]) for fault in faults)
        ) from None


def _explain(place: str, loc: tuple[int | str, ...], message: str, kind: str) -> str:
    key = str(loc[-1])
    at = f"{place}{_line(place, key)}: {'.'.join(str(part) for part in loc)}"
    if key == "api_key":
        return f"{at}: a key does not belong into a file; name the variable that holds it with api_key_env, or a command with api_key_cmd"
    unknown = kind == "extra_forbidden" or (kind == "model_type" and loc[:1] == ("llm",))
    if not unknown:
        return f"{at}: {message}"
    near = difflib.get_close_matches(key, _known(loc), n=1)
    return f"{at}: unknown setting{f', did you mean {near[0]!r}?' if near else ''}"


def _known(loc: tuple[int | str, ...]) -> list[str]:
    """The settings that may stand where the unknown one stands."""
    tables: dict[str, type[BaseModel]] = {
        "llm": ModelSettings,
        "agents": AgentSettings,
        "limits": LimitSettings,
        "journal": JournalSettings,
        "prices": PriceSettings,
    }
    model = Settings if len(loc) == 1 else tables.get(str(loc[0]), Settings)
    return list(model.model_fields)


def _line(place: str, key: str) -> str:
    """`:7`, the first line of a file that sets the key; empty where there is no file."""
    path = Path(place)
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(
        (
            f":{number}"
            for number, line in enumerate(lines, 1)
            if re.match(rf"\s*(\[.*)?[\"']?{re.escape(key)}\b", line)
        ),
        "",
    )
