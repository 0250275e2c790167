"""python_execute: code runs in a sandboxed process that lives as long as the run, so variables stay between calls."""

import asyncio
import re
from typing import Self

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.sandbox.sandbox import Sandbox
from handloom.toolbox.python_process import Execution, PythonProcess
from handloom.tools import results
from handloom.tools.tool import ToolContext, tool

RESULT_CHARS = 32_000
MAX_TIMEOUT = 3600.0
_FIGURE = re.compile(r"figure-\d+\.png")


@tool(name="python_execute", effects={"execute"})
async def python_execute(
    code: str,
    context: ToolContext,
    timeout: float = 60,  # noqa: ASYNC109 - the model sets it
) -> ToolResult:
    """Run Python as in a notebook; variables stay for the next call. Print what you want to see. `%%writefile NAME` as the first line writes the rest into a file; a line `!command` runs a command."""
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ToolError(f"timeout: give seconds between 0 and {MAX_TIMEOUT:.0f}")
    sandbox = await context.sandbox()
    worker = await context.resource(PythonWorker, lambda: PythonWorker.start(sandbox))
    execution = await worker.execute(code, timeout)
    for name in filter(_FIGURE.fullmatch, execution.figures):  # the code could have written any name there
        await context.artifact(context.workspace / name, "figure")
    silent = execution.ok and execution.silent and not execution.output.strip()
    return ToolResult(text=told(execution), ok=execution.ok, silent=silent)


def told(execution: Execution) -> str:
    """What the model reads: output, then value or traceback, then what befell the process."""
    late = f"[printed since the last call]\n{execution.late}\n[printed by this call]" if execution.late else ""
    parts = (results.clean(part).rstrip() for part in (late, execution.output, execution.text, execution.note))
    text = "\n".join(part for part in parts if part) or "(no output; print what you want to see)"
    return results.cut(text, RESULT_CHARS, where="print less")


class PythonWorker:
    """The run's Python: one process, and a new one at the next call after it died."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._process: PythonProcess | None = None
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def start(cls, sandbox: Sandbox) -> Self:
        """Raises: ToolError when Python cannot be started in the sandbox."""
        worker = cls(sandbox)
        worker._process = await PythonProcess.start(sandbox)
        return worker

    async def execute(self, code: str, seconds: float) -> Execution:
        """Run the code for at most `seconds`. Cancellation interrupts the code and is let through."""
        async with self._one_at_a_time:
            if self._process is None:
                self._process = await PythonProcess.start(self._sandbox)
            try:
                return await self._process.execute(code, seconds)
            finally:
                if self._process.dead:
                    self._process = None

    async def aclose(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.aclose()
