"""What is known of each model: the table, what probes and runs have found out, and what the settings say."""

import json
import os
from dataclasses import replace

from handloom.config import Folders, Loaded, ModelSettings
from handloom.llm.model import Model
from handloom.llm.openai import OpenAIModel
from handloom.llm.profiles import Price, Profile, profile_for
from handloom.messages import Json, is_object


def profile_of(loaded: Loaded, section: ModelSettings, service: str, name: str) -> Profile:
    """What is known of a model: the table, then what a probe remembered, then what the settings say."""
    fields = ("tool_mode", "dialect", "vision", "json_schema", "max_context", "max_output", "temperature")
    remembered = remembered_profiles(loaded.folders).get(f"{service} {name}", {})
    known = {key: value for key, value in remembered.items() if key in fields}
    known |= {key: value for key in fields if (value := getattr(section, key)) is not None}
    if price := loaded.settings.prices.get(name):
        known["price"] = Price(**price.model_dump())
    return replace(profile_for(name), **known)


def remembered_profiles(folders: Folders) -> dict[str, Json]:
    """What probes and runs have found out, by service and model; a damaged file is as good as none."""
    try:
        found = json.loads((folders.cache / "profiles.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if is_object(found) else {}


def remember_profile(folders: Folders, service: str, name: str, found: Json) -> None:
    """Keep what was found out about a model for later runs."""
    profiles = remembered_profiles(folders)
    profiles[f"{service} {name}"] = profiles.get(f"{service} {name}", {}) | found
    folders.cache.mkdir(parents=True, exist_ok=True)
    path = folders.cache / "profiles.json"
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(profiles, indent=1), encoding="utf-8")
    draft.replace(path)


def remember_mode(loaded: Loaded, model: Model) -> None:
    """Keep the tool mode to which a model had to be switched."""
    if isinstance(model, OpenAIModel) and model.profile.tool_mode == "auto" and model.tool_mode != "native":
        remember_profile(loaded.folders, model.endpoint.identity, model.name, {"tool_mode": model.tool_mode})
