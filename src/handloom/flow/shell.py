"""The shell of `run` steps: a command in the run's sandbox, with the step's values as variables and bounded output."""

import hashlib
from collections.abc import Mapping

from handloom.runs import Run
from handloom.sandbox.once import Ran, run_once
from handloom.sandbox.sandbox import Shared

LONGEST_VARIABLE = 16_000  # bytes; Linux refuses more than 128 kB in one variable, and 2 MB in all of them


async def shell(command: str, variables: Mapping[str, str], run: Run) -> Ran:
    """Run a command to its end. Raises: SandboxError."""
    sandbox = await run.sandbox()
    return await run_once(sandbox, ["bash", "-c", command], env=_environment(variables, sandbox.shared))


def _environment(variables: Mapping[str, str], shared: Shared) -> dict[str, str]:
    """The variables of a command; a value that is too long for one is in a file, and `<name>_file` names it."""
    found: dict[str, str] = {}
    for name, text in variables.items():
        data = text.replace("\x00", "").encode("utf-8", "replace")
        if len(data) <= LONGEST_VARIABLE:
            found[name] = data.decode()
            continue
        path = f"value-{hashlib.sha256(data).hexdigest()[:16]}"
        (shared.outside / path).write_bytes(data)
        found[f"{name}_file"] = f"{shared.inside}/{path}"
    return found
