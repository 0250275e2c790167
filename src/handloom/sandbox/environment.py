"""The environment of what runs inside: an allowlist, never a copy of ours, which holds keys."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

KEPT = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"),
}
PRESET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",  # an editor would wait for a person
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUTF8": "1",
    "PYTHONBREAKPOINT": "0",
    "MPLBACKEND": "Agg",
}


def environment(ours: Mapping[str, str], *, cache: Path | None = None, proxy: str = "") -> dict[str, str]:
    """What programs need to work. `cache` is a folder that outlives the run: libraries inside are read-only, so nothing is compiled beside them."""
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith("LC_")}
    path = kept.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    own = str(Path(sys.executable).parent)
    kept["PATH"] = path if own in path.split(os.pathsep) else f"{own}{os.pathsep}{path}"
    if cache is not None:
        kept |= {
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPYCACHEPREFIX": f"{cache}/pyc",
            "MPLCONFIGDIR": f"{cache}/matplotlib",
        }
    if proxy:
        kept |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy)
    return kept | PRESET
