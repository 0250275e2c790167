"""A plan in the editor of the person who reviews it."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from handloom.flow.review import flow_file
from handloom.state import Question


async def edited(question: Question) -> str:
    """The flow file of a review, as the person leaves it in their editor; what went wrong with the editor is said and leaves the plan as it is."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="handloom-") as folder:
        path = Path(folder, "plan.yaml")
        await asyncio.to_thread(path.write_text, flow_file(question.question), encoding="utf-8")
        try:
            await asyncio.to_thread(subprocess.run, [*command, str(path)], check=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"handloom: the editor failed ({error}); EDITOR names the one to use", file=sys.stderr)
            return flow_file(question.question)
        return await asyncio.to_thread(path.read_text, encoding="utf-8")
