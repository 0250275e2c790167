"""A mistake in the settings is an error that names its place and, where it can, the word that was meant."""

import difflib
import re
from pathlib import Path

from pydantic import BaseModel, ValidationError

from handloom.config.sections import (
    AgentSettings,
    JournalSettings,
    LimitSettings,
    ModelSettings,
    PolicySettings,
    PriceSettings,
    SandboxTable,
    Settings,
)
from handloom.errors import ConfigError
from handloom.messages import Json


def check_layer(place: str, layer: Json) -> None:
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
    unknown = kind == "extra_forbidden" or (kind == "model_type" and loc[:1] == ("llm",) and len(loc) > 1)
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
        "policy": PolicySettings,
        "sandbox": SandboxTable,
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
