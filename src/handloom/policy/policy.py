"""Policy: what is allowed, asked for and denied, as values."""

import posixpath
from collections.abc import Callable, Iterable, Iterator
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
    allow, every simple command of the line must fit; to ask or deny, one is enough, whatever the path of its program and the options between the words.
    `path` fits an argument `path`, to ask or deny in any spelling of it, `host` the host of an argument `url` and the hosts below it. `tainted` lets an
    allowing rule hold after untrusted text was read as well. `place` says where the rule was written.
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
            and (not self.path or self._fits_path(str(arguments.get("path", ""))))
            and (not self.host or self._fits_host(hosts.of_url(str(arguments.get("url", "")))))
        )

    def _fits_path(self, path: str) -> bool:
        if self.do == "allow":
            return ".." not in path.split("/") and fnmatchcase(path.removeprefix("./"), self.path)
        return any(fnmatchcase(spelling, self.path.removeprefix("./")) for spelling in _spellings(path))

    def _fits_host(self, host: str) -> bool:
        name = self.host.removeprefix("*.")
        return hosts.covers(name, host) or hosts.covers(f"*.{name}", host)

    def _fits_command(self, line: str) -> bool:
        if self.do == "allow":
            simple = commands.plain(line)
            return bool(simple) and all(self._begins(words) for words in simple or ())
        program, *rest = map(_alternatives, self.command)
        programs = {name.rpartition("/")[2] for name in program}
        return any(words[0] in programs and _follow(rest, words[1:]) for words in commands.every(line))

    def _begins(self, words: tuple[str, ...]) -> bool:
        return len(words) >= len(self.command) and all(
            word in _alternatives(token) for word, token in zip(words, self.command, strict=False)
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


def _alternatives(token: Token) -> tuple[str, ...]:
    return (token,) if isinstance(token, str) else token


def _follow(tokens: Iterable[tuple[str, ...]], words: tuple[str, ...]) -> bool:
    """Whether the words begin as the tokens say, but for options and their values before each."""
    starts = {0}
    for token in tokens:
        starts = set(_behind(token, words, starts))
    return bool(starts)


def _behind(token: tuple[str, ...], words: tuple[str, ...], starts: set[int]) -> Iterator[int]:
    """Where the words go on behind the token, when it may stand at one of the starts or behind options from there."""
    is_passed = False
    for at, word in enumerate(words):
        is_reached = is_passed or at in starts
        if is_reached and word in token:
            yield at + 1
        is_value = is_passed and words[at - 1].startswith("-")
        is_passed = is_reached and (word.startswith("-") or is_value)


def _spellings(path: str) -> set[str]:
    """A path as it is written, as it reads without detours, and, where it may come from outside the workspace, each of its ends: one is the path inside."""
    normal = posixpath.normpath(path)
    parts = normal.strip("/").split("/")
    is_detour = path.startswith("/") or ".." in path.split("/")
    ends = {"/".join(parts[at:]) for at in range(len(parts))} if is_detour else set[str]()
    return {path.removeprefix("./"), normal} | ends
