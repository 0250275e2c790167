"""Policy: what is allowed, asked for and denied, as values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from handloom import hosts
from handloom.messages import Json
from handloom.policy import commands
from handloom.policy.hooks import Hook

Mode = Literal["auto", "ask", "plan", "deny"]
Do = Literal["allow", "ask", "deny"]
Token = str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What to do with the calls that fit every condition that is set.

    `tool` is a name, `*` stands for any text. `command` is the beginning of a shell command, word by word, a tuple where one of several words may stand: to
    allow, every simple command of the line must fit; to ask or deny, one is enough. `path` fits an argument `path`, `host` the host of an argument `url`
    and the hosts below it. `tainted` lets an allowing rule hold after untrusted text was read as well. `place` says where the rule was written.
    """

    do: Do
    tool: str = "*"
    command: tuple[Token, ...] = ()
    path: str = ""
    host: str = ""
    tainted: bool = False
    place: str = ""

    def fits(self, tool: str, arguments: Json) -> bool:
        """Whether the rule speaks of this call."""
        return (
            fnmatchcase(tool, self.tool)
            and (not self.command or self._fits_command(str(arguments.get("command", ""))))
            and (not self.path or fnmatchcase(str(arguments.get("path", "")).removeprefix("./"), self.path))
            and (not self.host or self._fits_host(hosts.of_url(str(arguments.get("url", "")))))
        )

    def _fits_host(self, host: str) -> bool:
        name = self.host.removeprefix("*.")
        return hosts.covers(name, host) or hosts.covers(f"*.{name}", host)

    def _fits_command(self, line: str) -> bool:
        if self.do == "allow":
            simple = commands.plain(line)
            return bool(simple) and all(self._begins(words) for words in simple or ())
        return any(self._begins(words) for words in commands.every(line))

    def _begins(self, words: tuple[str, ...]) -> bool:
        return len(words) >= len(self.command) and all(
            word == token if isinstance(token, str) else word in token
            for word, token in zip(words, self.command, strict=False)
        )

    def __str__(self) -> str:
        conditions = {
            "tool": self.tool,
            "command": " ".join(token if isinstance(token, str) else "|".join(token) for token in self.command),
            "path": self.path,
            "host": self.host,
        }
        said = ", ".join(f"{name} {text}" for name, text in conditions.items() if text)
        return f"{self.do} {said}{f' ({self.place})' if self.place else ''}"


@dataclass(frozen=True, kw_only=True)
class Taint:
    """After a tool of `sources` was read, a call that sends something needs the gate.

    `named_is_free`: not where each destination stands in the person's own words. `seen_is_free`: nor for a link that stood, letter by letter, in what
    was read: it can lead to a stranger's page, and cannot carry what the run knows.
    """

    sources: tuple[str, ...] = ("fetch", "browser*", "web_search", "mcp:*")
    gate: Literal["ask", "deny", "off"] = "ask"
    named_is_free: bool = True
    seen_is_free: bool = False


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Modes: `auto` lets rules and effects decide, `ask` asks for every side effect, `plan` only reads, `deny` denies what would be asked.

    `alone` is what asking means when nobody is there to answer: the run waits (`suspend`), or the call is denied.
    `remember` keeps a rule that a person answered with "always". `sandboxed` and `network` say how programs run: without a sandbox each one is asked for.
    """

    mode: Mode = "auto"
    alone: Literal["suspend", "deny"] = "suspend"
    yes: bool = False
    rules: tuple[Rule, ...] = ()
    taint: Taint = Taint()
    hooks: tuple[Hook, ...] = ()
    remember: Callable[[Rule], None] | None = None
    sandboxed: bool = True
    network: bool = False

    def is_source(self, tool: str) -> bool:
        """Whether the results of this tool are written by strangers."""
        return any(fnmatchcase(tool, pattern) for pattern in self.taint.sources)


def strictest(decisions: Iterable[Do]) -> Do | None:
    """Deny beats ask beats allow; the order of rules and their detail do not matter."""
    found = set(decisions)
    return next((do for do in ("deny", "ask", "allow") if do in found), None)
