"""Settings: flags over `HANDLOOM_*` variables over the project's file over the user's file over defaults."""

from handloom.config.folders import Folders, is_trusted, trust
from handloom.config.loading import PROJECT_FILE, RULES_FILE, Loaded, load
from handloom.config.sections import LLMSettings, ModelSettings, Settings, seconds

__all__ = [
    "PROJECT_FILE",
    "RULES_FILE",
    "Folders",
    "LLMSettings",
    "Loaded",
    "ModelSettings",
    "Settings",
    "is_trusted",
    "load",
    "seconds",
    "trust",
]
