"""Settings are read and laid over each other: flags over `HANDLOOM_*` variables over the project's file over the user's file over defaults."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handloom.config.faults import check_layer
from handloom.config.folders import Folders, is_trusted
from handloom.config.sections import Settings
from handloom.errors import ConfigError
from handloom.messages import Json, is_list, is_object

PROJECT_FILE = Path(".handloom") / "config.toml"
RULES_FILE = "rules.toml"  # what a person answered with "always"
_NOT_SETTINGS = {"HANDLOOM_HOME"}
_ADDED = {"rule", "hook"}  # lists that files add to
_STRICTER: dict[str, tuple[str, ...]] = {
    "mode": ("auto", "ask", "deny", "plan"),
    "gate": ("off", "ask", "deny"),
    "net": ("full", "allowlist", "none"),
}


@dataclass(frozen=True)
class Loaded:
    """Settings, with the files they came from, the folder in which they hold, and the project file that was not read because its folder is not trusted."""

    settings: Settings
    folders: Folders
    files: tuple[Path, ...] = ()
    untrusted: Path | None = None
    folder: Path | None = None
    environment: Mapping[str, str] | None = None
    flags: Json | None = None

    def at(self, folder: Path) -> "Loaded":
        """The settings that hold in this folder, of the same environment and flags. Raises: ConfigError."""
        if self.folder in (None, folder.resolve()):
            return self
        return load(folder=folder, environment=self.environment, flags=self.flags)


def load(
    *, folder: Path | None = None, environment: Mapping[str, str] | None = None, flags: Json | None = None
) -> Loaded:
    """The settings that hold in `folder`. `flags` has the form of the file. Raises: ConfigError."""
    environment = os.environ if environment is None else environment
    folder = (folder or Path.cwd()).resolve()
    folders = Folders.of(environment)
    user, project, rules = folders.config / "config.toml", folder / PROJECT_FILE, folders.config / RULES_FILE
    trusted = is_trusted(folder, folders)
    files = [path for path in (user, rules, project) if path.is_file() and (path is not project or trusted)]
    layers = [
        *((str(path), _read(path)) for path in files),
        ("environment", _from_environment(environment)),
        ("flags", flags or {}),
    ]
    merged: Json = {}
    for place, layer in layers:
        check_layer(place, layer)
        merged = _merge(merged, layer)
    if project.is_file() and not trusted:
        merged = _merge(merged, tightening(_read(project), merged))
        check_layer(str(project), merged)
    ignored = project if project.is_file() and not trusted else None
    return Loaded(Settings.model_validate(merged), folders, tuple(files), ignored, folder, environment, flags)


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
    for name, text in sorted(environment.items()):  # a table comes before what is in it
        if not name.startswith("HANDLOOM_") or name in _NOT_SETTINGS:
            continue
        keys = name.removeprefix("HANDLOOM_").lower().split("__")
        table = found
        for depth, key in enumerate(keys[:-1], 1):
            table = table.setdefault(key, {})
            if not is_object(table):
                whole = "__".join(name.split("__")[:depth])
                raise ConfigError(f"{whole} is not a table, and {name} sets something in it; unset one of them")
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
        if is_object(old) and is_object(value):
            merged[key] = _merge(old, value)
        elif key in _ADDED and is_list(old) and is_list(value):
            merged[key] = [*old, *value]
        else:
            merged[key] = value
    return merged


def tightening(project: Json, settings: Json) -> Json:
    """What the file of a folder that is not trusted may say: rules that ask or deny, a stricter mode, a stricter gate, less network."""
    policy, sandbox = _table(project, "policy"), _table(project, "sandbox")
    own = _table(settings, "policy")
    rules = policy.get("rule")
    found: Json = {
        "policy": {
            "rule": [rule for rule in rules if is_object(rule) and rule.get("do") in ("ask", "deny")]
            if is_list(rules)
            else [],
            **_stricter("mode", policy, own, "auto"),
            "taint": _stricter("gate", _table(policy, "taint"), _table(own, "taint"), "ask"),
        },
        "sandbox": _stricter("net", sandbox, _table(settings, "sandbox"), "none"),
    }
    return found


def _stricter(key: str, new: Json, old: Json, default: str) -> Json:
    order = _STRICTER[key]
    wanted, held = new.get(key), old.get(key, default)
    return {key: wanted} if wanted in order and held in order and order.index(wanted) > order.index(held) else {}


def _table(settings: Json, name: str) -> Json:
    table = settings.get(name)
    return table if is_object(table) else {}
