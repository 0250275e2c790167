"""NOISE: folders that programs fill and nobody looks into. Who looks through a workspace leaves them out, and hidden ones where it says so."""

NOISE = frozenset({"node_modules", "venv", "__pycache__"})
