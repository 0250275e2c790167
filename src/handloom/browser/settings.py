"""What a person may say about the browser, and where its program is."""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
APPS = ("Google Chrome", "Chromium", "Microsoft Edge")
NO_PACKAGE = "the browser needs the package playwright: pip install 'handloom[browser]'; until then use fetch"
NO_BROWSER = (
    "no Chromium or Chrome is installed: apt-get install chromium (or set browser.executable); until then use fetch"
)


@dataclass(frozen=True, kw_only=True)
class BrowserSettings:
    """`executable` is looked for where it is empty; `profile` keeps logins between runs; `listeners` notes what listens to clicks, which pages could
    notice. `timeout` is seconds for one action.
    """

    executable: str = ""
    headless: bool = True
    profile: Path | None = None
    listeners: bool = True
    width: int = 1280
    height: int = 720
    timeout: float = 20.0


def program(settings: BrowserSettings) -> str:
    """The browser's program; empty where there is none."""
    if settings.executable:
        return shutil.which(str(Path(settings.executable).expanduser())) or ""
    apps = (f"/Applications/{name}.app/Contents/MacOS/{name}" for name in APPS if sys.platform == "darwin")
    found = next((path for name in (*NAMES, *apps) if (path := shutil.which(name))), "")
    return found or next(map(str, sorted(_own().glob("chromium-*/chrome-*/chrome"), reverse=True)), "")


def driver_installed() -> bool:
    """Whether the package that drives browsers is there."""
    return importlib.util.find_spec("playwright") is not None


def missing(settings: BrowserSettings) -> str:
    """What to install, in one line; empty where everything is there."""
    if not driver_installed():
        return NO_PACKAGE
    if program(settings):
        return ""
    return f"browser.executable names {settings.executable}, which is no program" if settings.executable else NO_BROWSER


def _own() -> Path:
    """Where Playwright keeps browsers of its own."""
    return Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
