"""Where programs run that a model wrote: shut off from the person's files, network, keys and processes."""

from handloom.sandbox.choose import open_sandbox
from handloom.sandbox.sandbox import Program, Sandbox
from handloom.sandbox.settings import Host, SandboxSettings

__all__ = ["Host", "Program", "Sandbox", "SandboxSettings", "open_sandbox"]
