"""FakeContext: what a tool's test gives the tool in place of a run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from handloom.errors import SuspendedError, ToolError
from handloom.tools.tool import ResourceT


class FakeContext:
    """A `ToolContext` without a run: a folder, canned answers, earlier results; resources are closed by `async with`.

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
    ) -> None:
        self.questions: list[str] = []
        self.artifacts: list[Path] = []
        self._workspace = workspace.resolve()
        self._answers = iter(answers)
        self._results = dict(results or {})
        self._call_id = call_id
        self._resources: dict[type, Any] = {}
        self._making = asyncio.Lock()

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
        async with self._making:
            if kind not in self._resources:
                self._resources[kind] = await make()
            return self._resources[kind]

    async def artifact(self, path: Path, note: str = "") -> None:  # noqa: ARG002 - tests look at the path
        self.artifacts.append(path)

    def recall(self, handle: str) -> str:
        if handle not in self._results:
            raise ToolError(f"no result has the handle {handle!r}")
        return self._results[handle]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._resources:
            _, resource = self._resources.popitem()
            await resource.aclose()
