"""The commands about settings."""

import json
from pathlib import Path

from handloom import config


def show() -> None:
    """The settings as JSON, and the files they came from."""
    loaded = config.load()
    for path in loaded.files:
        print(f"# {path}")
    if loaded.untrusted is not None:
        print(f"# not used: {loaded.untrusted} (`handloom config trust` allows it)")
    print(json.dumps(loaded.settings.model_dump(mode="json"), indent=2, ensure_ascii=False))


def paths() -> None:
    """The files and folders, a line each, whether they exist or not."""
    folders = config.load().folders
    print(f"settings  {folders.config / 'config.toml'}")
    print(f"project   {Path.cwd() / config.PROJECT_FILE}")
    print(f"runs      {folders.data / 'runs.db'}")
    print(f"cache     {folders.cache}")


def schema() -> None:
    print(json.dumps(config.Settings.model_json_schema(), indent=2))


def trust() -> None:
    """Trust this folder. Raises: ConfigError when its settings are wrong, so that the mistake is seen now."""
    folder = Path.cwd()
    config.trust(folder, config.load().folders)
    config.load(folder=folder)
    print(f"{folder / config.PROJECT_FILE} is used from now on")
