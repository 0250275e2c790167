"""FakeContext: what a tool's test gives the tool in place of a run."""

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from handloom.errors import SuspendedError, ToolError
from handloom.messages import Json
from handloom.runs.resources import Resources
from handloom.sandbox import Sandbox, SandboxSettings, open_sandbox
from handloom.sandbox.settings import Kind
from handloom.tools import results
from handloom.tools.tool import ResourceT


class FakeContext:
    """A `ToolContext` without a run: a folder, a real sandbox, canned answers, earlier results; resources are closed by `async with`.

    `questions` and `artifacts` tell what the tool asked and reported.

        async with FakeContext(tmp_path, answers=["blue"]) as context:
            result = await my_tool.run({"code": "1 + 1"}, context)
    """

    def __init__(
        self,
        workspace: Path,
        *,
        answers: Iterable[str] = (),
        results: Mapping[str, str] | None = None,
        call_id: str = "call-1",
        earlier: Iterable[Json] = (),
        sandbox: SandboxSettings | Kind = "auto",
    ) -> None:
        self.questions: list[str] = []
        self.artifacts: list[Path] = []
        self._workspace = workspace.resolve()
        self._answers = iter(answers)
        self._results = dict(results or {})
        self._call_id = call_id
        self._earlier = list(earlier)
        self._resources = Resources()
        kept = SandboxSettings(kind=sandbox) if isinstance(sandbox, str) else sandbox
        self._settings = kept if kept.cache else dataclasses.replace(kept, cache=_cache())
        self._folder: Path | None = None

    @property
    def workspace(self) -> Path:
        return self._workspace

    @property
    def call_id(self) -> str:
        return self._call_id

    async def ask(self, question: str, options: tuple[str, ...] = ()) -> str:  # noqa: ARG002 - canned answers ignore them
        """The next canned answer. Raises: SuspendedError when there is none, like a run with nobody there."""
        self.questions.append(question)
        for answer in self._answers:
            return answer
        raise SuspendedError(f"nobody answers {question!r}; give FakeContext one more answer")

    async def resource(self, kind: type[ResourceT], make: Callable[[], Awaitable[ResourceT]]) -> ResourceT:
        return await self._resources.get(kind, make)

    async def sandbox(self) -> Sandbox:
        """A real one, the system's own unless the test says otherwise: `FakeContext(folder, sandbox="off")`."""
        return await self.resource(Sandbox, lambda: open_sandbox(self._workspace, self._settings))

    def spill_file(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="handloom-test-"))
        return self._folder / f"{self._call_id}.txt"

    async def artifact(self, path: Path, note: str = "") -> None:  # noqa: ARG002 - tests look at the path
        self.artifacts.append(path)

    def earlier(self, name: str) -> list[Json]:  # noqa: ARG002 - those of the tool under test
        """The `earlier` calls that the test gives."""
        return self._earlier

    def recall(self, handle: str) -> str:
        if handle == self._call_id and self._folder is not None and self.spill_file().exists():
            return results.clean(self.spill_file().read_text(encoding="utf-8", errors="replace"))
        if handle not in self._results:
            raise ToolError(f"no result has the handle {handle!r}")
        return self._results[handle]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.aclose()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _cache() -> Path:
    """One folder for all tests, so that a library is compiled once."""
    return Path(tempfile.gettempdir()) / f"handloom-tests-cache-{os.getuid()}"
