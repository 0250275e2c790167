"""Everything that can be set, table by table; a key that no table knows is an error."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from handloom.errors import ConfigError
from handloom.policy import Mode, Rule, Taint


class Section(BaseModel):
    """A table of the file; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(Section):
    """A model and where it is. Without `base_url` a name means OpenAI's service; `local`, `local:FILE.gguf` and `local:hf:REPO/FILE` are embedded."""

    model: str = ""
    base_url: str = "https://api.openai.com/v1"
    api_key_env: str = "OPENAI_API_KEY"
    api_key_cmd: str = ""
    azure_version: str = ""
    fallback: tuple[str, ...] = ()
    tool_mode: Literal["auto", "native", "structured", "text", "code"] | None = None
    dialect: Literal["calls", "qwen"] | None = None
    vision: bool | None = None
    json_schema: bool | None = None
    max_context: Annotated[int, Field(ge=2_048)] | None = None
    max_output: Annotated[int, Field(ge=64)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    idle_timeout: Annotated[float, Field(gt=0)] = 300.0
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}

    def key(self, environment: Mapping[str, str]) -> str:
        """The key, from the command or the variable that is named. Raises: ConfigError when the command fails."""
        if not self.api_key_cmd:
            return environment.get(self.api_key_env, "")
        try:
            done = subprocess.run(shlex.split(self.api_key_cmd), capture_output=True, text=True, timeout=30, check=True)  # noqa: S603 - the person's own command
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ConfigError(f"api_key_cmd {self.api_key_cmd!r} failed: {error}") from None
        return done.stdout.strip()


class LLMSettings(ModelSettings):
    """`[llm]` is the model for everything; `[llm.NAME]` are others to choose with `-m NAME`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, ModelSettings] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]  # pydantic's way to type the extra keys

    @property
    def named(self) -> dict[str, ModelSettings]:
        return self.__pydantic_extra__


class AgentSettings(Section):
    """Changes to a preset: its model, its tools, its limit of turns."""

    model: str = ""
    tools: tuple[str, ...] | None = None
    max_turns: Annotated[int, Field(ge=1)] | None = None


def _duration(value: str | float | None) -> str | float | None:
    try:
        seconds(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return value


class LimitSettings(Section):
    """What a run may use. `timeout` takes seconds or `10m`; cost is USD."""

    max_turns: Annotated[int, Field(ge=1)] = 50
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None
    timeout: Annotated[str | float | None, AfterValidator(_duration)] = None


class PriceSettings(Section):
    """USD per million tokens."""

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None


class JournalSettings(Section):
    """`full` waits for the disk at each event; `normal` may lose the last ones when the power goes."""

    durability: Literal["normal", "full"] = "normal"


class HostSettings(Section):
    """A host that programs may reach; `*.example.org` means every name below it."""

    name: str
    allow_private: bool = False


class SandboxLimits(Section):
    """`timeout` in seconds, `memory_mb` for one process, `procs` processes, `output` characters of a result, `file_mb` for one file."""

    timeout: Annotated[float, Field(gt=0)] = 120.0
    memory_mb: Annotated[int, Field(ge=64)] = 2_048
    procs: Annotated[int, Field(ge=8)] = 256
    output: Annotated[int, Field(ge=1_000)] = 32_000
    file_mb: Annotated[int, Field(ge=1)] = 1_024


class SandboxTable(Section):
    """Where programs run. `off` is no sandbox, and is said everywhere; `readable` are more paths that may be read."""

    kind: Literal["auto", "bwrap", "seatbelt", "container", "off"] = "auto"
    net: Literal["none", "allowlist", "full"] = "none"
    allow: tuple[HostSettings, ...] = ()
    readable: tuple[str, ...] = ()
    image: str = "python:3.12-slim"
    limits: SandboxLimits = SandboxLimits()


class RuleSettings(Section):
    """What to do with calls that fit; `match` and `not_match` are examples, which are tried when the file is read."""

    do: Literal["allow", "ask", "deny"]
    tool: str = "*"
    command: tuple[str | tuple[str, ...], ...] = ()
    path: str = ""
    host: str = ""
    tainted: bool = False
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _examples(self) -> Self:
        rule = self.rule()
        tool = self.tool.replace("*", "x")
        for examples, expected in ((self.match, True), (self.not_match, False)):
            for example in examples:
                arguments: dict[str, object] = {"command": example, "path": example, "url": example}
                if rule.fits(tool, arguments) is not expected:
                    raise ValueError(f"the rule {'does not fit' if expected else 'fits'} its example {example!r}")
        return self

    def rule(self) -> Rule:
        """The rule as a value."""
        return Rule(**self.model_dump(exclude={"match", "not_match"}))


class HookSettings(Section):
    """A command that gets each call as JSON; exit 2 blocks it, and so does a crash."""

    on: Literal["before_tool", "after_tool", "run_end"]
    command: Annotated[str, Field(min_length=1)]
    tool: str = "*"
    timeout: Annotated[float, Field(gt=0)] = 30.0


class TaintSettings(Section):
    """What to do with calls that send something after the tools of `sources` were read."""

    sources: tuple[str, ...] = Taint().sources
    gate: Literal["ask", "deny", "off"] = "ask"
    named_is_free: bool = True
    seen_is_free: bool = False


class PolicySettings(Section):
    """What tools may do. `alone` is what asking means when nobody is there: the run waits (`suspend`), or the call is denied."""

    mode: Mode = "auto"
    alone: Literal["suspend", "deny"] = "suspend"
    taint: TaintSettings = TaintSettings()
    rule: tuple[RuleSettings, ...] = ()
    hook: tuple[HookSettings, ...] = ()


class NetSettings(Section):
    """What fetch, search and the browser may reach; names as `example.org`, `*.example.org` or `localhost:8080`."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    most_mb: Annotated[float, Field(gt=0)] = 10.0
    timeout: Annotated[float, Field(gt=0)] = 30.0
    redirects: Annotated[int, Field(ge=0, le=20)] = 5


class BrowserTable(Section):
    """The browser: its program, looked for where none is named, and how it shows pages."""

    executable: str = ""
    headless: bool = True
    profile: str = ""
    listeners: bool = True
    width: Annotated[int, Field(ge=200, le=4_000)] = 1_280
    height: Annotated[int, Field(ge=200, le=4_000)] = 720
    timeout: Annotated[float, Field(gt=0)] = 20.0


class SearchSettings(Section):
    """Engines in the order in which they are asked; without any, those for which an address, a key or a package is there."""

    engines: tuple[str, ...] = ()
    searxng_url: str = ""
    brave_key_env: str = "BRAVE_API_KEY"
    tavily_key_env: str = "TAVILY_API_KEY"
    serper_key_env: str = "SERPER_API_KEY"


class EmailSettings(Section):
    """The mail server for `send_email`. `to` is who gets a message that names nobody."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, serialize_by_alias=True)

    host: str = ""
    port: Annotated[int, Field(ge=1, le=65_535)] = 587
    sender: str = Field(default="", alias="from")
    user: str = ""
    password_env: str = "EMAIL_PASSWORD"  # noqa: S105 - the name of a variable
    tls: Literal["none", "starttls", "tls"] = "starttls"
    to: tuple[str, ...] = ()


class Settings(Section):
    """Everything that can be set."""

    agent: str = "manus"
    checkpoints: bool = True
    llm: LLMSettings = LLMSettings()
    agents: dict[str, AgentSettings] = {}
    limits: LimitSettings = LimitSettings()
    journal: JournalSettings = JournalSettings()
    policy: PolicySettings = PolicySettings()
    sandbox: SandboxTable = SandboxTable()
    net: NetSettings = NetSettings()
    browser: BrowserTable = BrowserTable()
    search: SearchSettings = SearchSettings()
    email: EmailSettings = EmailSettings()
    prices: dict[str, PriceSettings] = {}


def seconds(value: str | float | None) -> float | None:
    """A duration: seconds, or a number with `s`, `m`, `h` or `d`. Raises: ConfigError."""
    if value is None or isinstance(value, int | float):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if match is None:
        raise ConfigError(f"{value!r} is no duration; write seconds, or 90s, 10m, 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[match[2]]
