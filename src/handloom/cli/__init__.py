"""The command line. This module is imported by every call, so it imports next to nothing; each command imports what it needs."""

from handloom.cli.app import main

__all__ = ["main"]
