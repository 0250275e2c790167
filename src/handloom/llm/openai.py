"""Any service that speaks OpenAI's Chat Completions: hosted, self-hosted, embedded, Azure.

Requests go through the SDK's `client.post`, which keeps its authentication, time-outs and error classes, but not its walk over the whole message tree,
which costs milliseconds a turn. Retries are ours, so that each is an event.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from handloom.events import ModelRetried, WarningRaised
from handloom.llm import code, repair, retry, structured, wire
from handloom.llm.draft import Draft
from handloom.llm.model import Emit, Reply, Request
from handloom.llm.profiles import Profile, ToolMode, profile_for
from handloom.llm.retry import Fault
from handloom.llm.tokens import Meter
from handloom.messages import Json, Message, ToolCall, is_object
from handloom.redaction import Secret

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionChunk

IDLE = 300.0  # seconds without a byte: a local model may read a long prompt for minutes before it writes
DISTRUST = 2  # replies with calls written as text after which `auto` stops offering tools natively


class _FaultError(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a service is and how to talk to it. `azure_version` makes it an Azure deployment.

    `service` names a service whose address changes; `identity` is what a service is remembered by.
    `idle` is the longest silence in seconds that is waited through; there is no total limit. `extra_body` is merged into every request, `variety` into those for which the loop
    asks a model that goes in circles for something else. `prefill` says that a reply goes on from a last message of the
    assistant, as llama.cpp does it.
    """

    base_url: str = "https://api.openai.com/v1"
    service: str = ""
    api_key: Secret = field(default_factory=lambda: Secret(""))
    azure_version: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    variety: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prefill: bool = False
    idle: float = IDLE

    @property
    def identity(self) -> str:
        return self.service or self.base_url


class OpenAIModel:
    """A model behind a Chat Completions service."""

    def __init__(self, name: str, endpoint: Endpoint | None = None, *, profile: Profile | None = None) -> None:
        self.name = name
        self.endpoint = endpoint or Endpoint()
        self.profile = profile or profile_for(name)
        self._client: AsyncOpenAI | None = None
        self._meter = Meter()
        self._mode: ToolMode = "native" if self.profile.tool_mode == "auto" else self.profile.tool_mode
        self._as_text = 0

    @property
    def tool_mode(self) -> ToolMode:
        """How tools are offered now; `auto` has decided by then."""
        return self._mode

    @property
    def calls_as_text(self) -> int:
        """Replies whose calls stood in the text although tools were offered natively."""
        return self._as_text

    def estimate(self, request: Request) -> int:
        return self._meter.request(request.system, request.messages, request.tools)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def complete(self, request: Request, emit: Emit) -> Reply:
        """Ask, and ask again while that can help; switch the tool mode when the service or the replies call for it."""
        attempt = 1
        while True:
            started = time.monotonic()
            try:
                draft = await self._stream(request, emit)
            except _FaultError as error:
                fault = error.fault
            else:
                return await self._reply(request, draft, time.monotonic() - started, emit)
            if switched := self._other_mode(fault, request):
                await emit(WarningRaised(topic="model", text=f"{self.name}: {switched} ({fault.text[:120]})"))
                continue
            wait = retry.delay(fault, attempt)
            if wait is None:
                raise retry.final(fault, model=self.name, url=self.endpoint.base_url, tries=attempt)
            await emit(
                ModelRetried(
                    reason=f"{fault.status or ''} {fault.text}".strip()[:300], attempt=attempt, delay=round(wait, 3)
                )
            )
            await asyncio.sleep(wait)
            attempt += 1

    def body(self, request: Request) -> Json:
        """The request as the service gets it, without the streaming fields."""
        profile = self.profile
        mode = self._mode_of(request)
        body: Json = {"model": self.name}
        body["messages"] = self._messages(request, mode)
        if not request.tools:
            if request.schema is not None and profile.json_schema:
                body["response_format"] = _json_schema("answer", request.schema)
        elif mode == "structured":
            body["response_format"] = _json_schema("call", structured.reply_schema(request.allowed, profile.dialect))
        elif mode == "code":
            body["stop"] = [code.STOP]
            if self._begins(request):
                body["messages"] = [*body["messages"], {"role": "assistant", "content": code.START}]
        elif mode == "native":
            body["tools"] = wire.format_tools(request.allowed)
            if request.act:
                body["tool_choice"] = "required"
        body[profile.max_tokens_name] = request.max_tokens or profile.max_output
        temperature = request.temperature if request.temperature is not None else profile.temperature
        if profile.temperature is not None and temperature is not None:
            body["temperature"] = temperature
        if request.temperature is not None:
            body |= self.endpoint.variety
        return body | dict(self.endpoint.extra_body)

    def _begins(self, request: Request) -> bool:
        """Whether the beginning of the reply is put into the model's mouth, so that it acts."""
        return self.endpoint.prefill and request.act and bool(request.tools) and self._mode_of(request) == "code"

    def _mode_of(self, request: Request) -> ToolMode:
        """The mode of a request: code is the form for a tool that runs it, and where that is not what the tools are for, calls are bound by a schema."""
        if self._mode == "code" and request.tools and not code.suits(request.tools):
            return "structured" if self.profile.json_schema else "text"
        return self._mode

    def _messages(self, request: Request, mode: ToolMode) -> list[Json]:
        """The conversation in the form of the mode, also for requests without tools: what was said before keeps its form."""
        match mode:
            case "code":
                return code.format_messages(request.system, request.messages, request.tools, self.profile)
            case "structured" | "text":
                return structured.format_messages(request.system, request.messages, request.tools, self.profile)
            case "native" | "auto":
                return wire.format_messages(request.system, request.messages, request.tools, self.profile)

    # Streaming

    async def _stream(self, request: Request, emit: Emit) -> Draft:
        import openai

        draft = Draft(self._mode_of(request), self.profile.price)
        try:
            async with aclosing(self._chunks(self.body(request))) as chunks:
                async for chunk in chunks:
                    for shown in draft.take(chunk):
                        await emit(shown)
        except openai.APIStatusError as error:
            raise _FaultError(_status_fault(error)) from error
        except openai.APIError as error:  # time-outs, broken connections, errors inside a stream
            raise _FaultError(
                Fault(code=error.code or "", text=_connection_text(error), status=_inner_status(error))
            ) from error
        if not draft.is_whole:
            raise _FaultError(Fault(text="the stream ended in the middle of a reply"))
        return draft

    async def _chunks(self, body: Json) -> AsyncGenerator["ChatCompletionChunk"]:
        """The chunks of a reply. A 200 that is no stream (a login page, an error object) raises a fault here."""
        from openai import AsyncStream
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        stream = await self._connection().post(
            "/chat/completions",
            body=body | {"stream": True, "stream_options": {"include_usage": True}},
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )
        kind = stream.response.headers.get("content-type", "")
        try:
            if "text/event-stream" not in kind:
                text = (await stream.response.aread()).decode("utf-8", "replace")
                raise _FaultError(
                    Fault(
                        status=200,
                        text=f"the answer is no completion but {kind or 'something untyped'}: {' '.join(text.split())[:200]}",
                    )
                )
            async for chunk in stream:
                yield chunk
        finally:
            await stream.close()

    def _connection(self) -> "AsyncOpenAI":
        if self._client is None:
            import openai

            at = self.endpoint
            options: Any = {
                "api_key": at.api_key.reveal() or "none",  # the SDK insists on one, local servers ignore it
                "max_retries": 0,
                "timeout": openai.Timeout(at.idle, connect=15.0),
                "default_headers": dict(at.headers),
            }
            if at.azure_version:
                self._client = openai.AsyncAzureOpenAI(
                    azure_endpoint=at.base_url, api_version=at.azure_version, **options
                )
            else:
                self._client = openai.AsyncOpenAI(base_url=at.base_url, **options)
        return self._client

    # From a draft to a reply

    async def _reply(self, request: Request, draft: Draft, seconds: float, emit: Emit) -> Reply:
        self._meter.learn(request.system, request.messages, request.tools, draft.usage.prompt_tokens)
        begun = code.START if self._begins(request) else ""
        text, calls = repair.sound(begun + draft.text), draft.calls
        written = 0
        if not calls and request.tools and text.strip():
            text, calls, written = self._read_text(text, request, cut=draft.finish == "length")
        mode = draft.mode
        if written and mode == "native":
            self._as_text += 1
            if self._as_text >= DISTRUST and self.profile.tool_mode == "auto":
                self._mode = "structured" if self.profile.json_schema else "text"
                await emit(
                    WarningRaised(
                        topic="model", text=f"{self.name} writes its calls as text; {self._mode} mode from now on"
                    )
                )
        return Reply(
            message=Message.assistant(text, tuple(calls), thinking=repair.sound(draft.thinking)),
            usage=draft.usage,
            model=draft.model or self.name,
            mode=mode,
            finish=draft.finish,
            seconds=round(seconds, 3),
        )

    def _read_text(self, text: str, request: Request, *, cut: bool) -> tuple[str, list[ToolCall], int]:
        """(text, calls, how many were written as text although tools were offered natively)."""
        mode = self._mode_of(request)
        if mode in ("structured", "text"):
            try:
                found = structured.read_reply(repair.read_object(text), self.profile.dialect)
            except repair.UnreadableError:
                found = None
            if found:
                return found[0], found[1], 0
        if mode == "code":
            return *code.read_reply(text, request.tools, cut=cut), 0
        rest, calls = repair.recognise(text, request.tools)
        return rest, calls, len(calls)

    def _other_mode(self, fault: Fault, request: Request) -> str:
        """Change the mode after a refusal of tools or schemas, and say to which; empty when the refusal is about something else."""
        if not request.tools or fault.overflows:
            return ""
        if self._mode == "native" and fault.refuses_tools and self.profile.tool_mode == "auto":
            self._mode = "structured" if self.profile.json_schema else "text"
            return f"does not take tools, {self._mode} mode from now on"
        if self._mode == "structured" and fault.refuses_schema:
            self._mode = "text"
            self.profile = replace(self.profile, json_schema=False)
            return "does not take response_format, calls are described in words from now on"
        return ""


def _json_schema(name: str, schema: Json) -> Json:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def _status_fault(error: Any) -> Fault:
    body = error.body if is_object(error.body) else {}
    text = body.get("message") or " ".join(str(error.message).split())
    return Fault(
        status=error.status_code,
        code=str(error.code or body.get("type") or ""),
        text=str(text)[:500],
        retry_after=_retry_after(error.response.headers),
    )


def _retry_after(headers: Any) -> float | None:
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _connection_text(error: Any) -> str:
    cause = error.__cause__
    return f"{error.message}{f' ({cause})' if cause and str(cause) else ''}"


def _inner_status(error: Any) -> int:
    """The status that a service put into an error event of a stream that had begun with 200."""
    code = error.body.get("code") if is_object(error.body) else None
    return code if isinstance(code, int) else 0
