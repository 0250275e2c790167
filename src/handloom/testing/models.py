"""Models whose replies are written down, for tests of agents, tools and flows."""

from collections.abc import Callable, Iterable

from handloom.errors import ModelUnavailableError
from handloom.events import ModelDelta, ModelRetried
from handloom.llm.model import Emit, Model, Reply, Request
from handloom.llm.profiles import Profile
from handloom.llm.tokens import Meter
from handloom.messages import Message, ToolCall, Usage

Script = str | Message | Reply | Exception | Callable[[Request], "str | Message | Reply"]


def calls(*made: tuple[str, dict[str, object]], text: str = "") -> Message:
    """A reply that calls tools: `calls(("python_execute", {"code": "print(1)"}))`."""
    return Message.assistant(
        text,
        tuple(ToolCall(id=f"c{place}", name=name, arguments=arguments) for place, (name, arguments) in enumerate(made)),
    )


def finish(answer: str, status: str = "success") -> Message:
    """A reply that ends the run with `terminate`."""
    return calls(("terminate", {"status": status, "answer": answer}))


class ScriptedModel:
    """Gives its replies in order: a string is a plain answer, a Message a reply, an exception is raised, a function gets the request.

    `requests` keeps what it was asked. Raises: AssertionError when it is asked more often than it has replies.
    """

    def __init__(self, replies: Iterable[Script], *, name: str = "scripted", profile: Profile | None = None) -> None:
        self.name = name
        self.profile = profile or Profile(max_context=32_768)
        self.requests: list[Request] = []
        self._replies = iter(replies)
        self._meter = Meter()

    async def complete(self, request: Request, emit: Emit) -> Reply:
        self.requests.append(request)
        step = next(self._replies, None)
        if step is None:
            raise AssertionError(f"the script of {self.name} has ended, and request {len(self.requests)} came")
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step = step(request)
        if isinstance(step, str):
            step = Message.assistant(step)
        if isinstance(step, Message):
            usage = Usage(
                prompt_tokens=self.estimate(request), completion_tokens=self._meter.request("", (step,), ()), calls=1
            )
            step = Reply(
                message=step,
                usage=usage,
                model=self.name,
                mode="native",
                finish="tool_calls" if step.tool_calls else "stop",
            )
        if step.message.text:
            await emit(ModelDelta(text=step.message.text))
        return step

    def estimate(self, request: Request) -> int:
        return self._meter.request(request.system, request.messages, request.tools)

    async def aclose(self) -> None:
        pass


class FlakyModel:
    """Another model, of which the first `failures` requests fail: each is retried as a real service would be, or given up when `gives_up`."""

    def __init__(self, model: Model, *, failures: int = 1, gives_up: bool = False) -> None:
        self.name = model.name
        self.profile = model.profile
        self.failures = failures
        self._model = model
        self._gives_up = gives_up

    async def complete(self, request: Request, emit: Emit) -> Reply:
        for attempt in range(1, self.failures + 1):
            self.failures -= 1
            if self._gives_up:
                raise ModelUnavailableError(f"{self.name} is made to fail")
            await emit(ModelRetried(reason="503 made to fail", attempt=attempt, delay=0.0))
        return await self._model.complete(request, emit)

    def estimate(self, request: Request) -> int:
        return self._model.estimate(request)

    async def aclose(self) -> None:
        await self._model.aclose()
