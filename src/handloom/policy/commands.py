"""A shell line as its simple commands, read by a grammar of bash and not by guessing at quotes."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from handloom.policy.line import (
    Line,
    all_parts,
    is_assignment,
    is_misread,
    is_read_whole,
    joined,
    literal_of,
    nodes_of,
    parts_of,
    word_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

# What a line may consist of so that its commands are all there is to it: no substitution, expansion, function, redirection into a file.
_JOINTS = {"program", "list", "pipeline", "redirected_statement", "comment", "\n", ";", "&&", "||", "|", "&", "|&"}
_QUIET = {
    "2>&1",
    ">/dev/null",
    "> /dev/null",
    "2>/dev/null",
    "2> /dev/null",
    "&>/dev/null",
    "</dev/null",
    "< /dev/null",
}
# A backslash before the end of a line joins it to the next, and bash takes other control characters for letters: such lines are not what they look like.
_UNPLAIN = re.compile(r"\\\n|[\x00-\x08\x0b-\x1f\x7f]")
Words = tuple[str, ...]


def plain(line: str) -> list[Words] | None:
    """The simple commands of a line that is nothing but simple commands; None for any other line, also for one that is no bash."""
    if _UNPLAIN.search(line):
        return None
    read = Line.read(line)
    return None if is_misread(read) or not is_read_whole(read) else _simple_commands(read)


def every(line: str) -> list[Words]:
    """Each command that may run anywhere in the line, rather one too many: also in substitutions, behind wrappers, in the scripts that shells are given.

    The program stands there by its plain name, so that it cannot hide behind a path. Words that depend on anything are left as they are written.
    """
    found: list[Words] = []
    scripts = [line]
    for _ in range(_DEPTH):
        scripts = list(dict.fromkeys(inner for script in scripts for inner in _read(script, found)))
    for script in scripts:
        found += _loose(script)
    return list(dict.fromkeys(found))


def _simple_commands(line: Line) -> list[Words] | None:
    found: list[Words] = []
    waiting = [line.root]
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            words = _simple(line, node)
            if words is None:
                return None
            found.append(words)
        elif node.type in _JOINTS:
            waiting += reversed(node.children)
        elif not _is_quiet(line, node):
            return None
    return found


def _simple(line: Line, command: "Node") -> Words | None:
    """The words of a command of which each is literal, that sets no variable and writes no file."""
    if not all(_is_quiet(line, node) or (node.is_named and "redirect" not in node.type) for node in command.children):
        return None
    if any(left.end_byte == right.start_byte for left, right in pairwise(command.children)):
        return None  # the grammar parts what is one word to bash
    words = [literal_of(line, part) for part in parts_of(command)]
    if any(word is None for word in words) or any(is_assignment(node) for node in command.children):
        return None
    return tuple(word for word in words if word is not None)


def _is_quiet(line: Line, node: "Node") -> bool:
    """Whether it is a redirection that touches no file."""
    return node.type == "file_redirect" and line.of(node).strip() in _QUIET


def _read(script: str, found: list[Words]) -> Iterator[str]:
    """Add the commands of a script to those found; what comes back are the scripts inside of it."""
    line = Line.read(script.replace("\0", "").replace("\r\n", "\n"))
    for reading in (line, Line.read(joined(line))) if "\\\n" in line.text else (line,):
        if is_misread(reading):
            found += _loose(reading.text)
        for node in nodes_of(reading.root):
            if parts := all_parts(node):
                words = tuple(word_of(reading, part) for part in parts)
                for at in _beginnings(words):
                    found.append((_plain_name(words[at]), *words[at + 1 : at + _MOST if at else None]))
                    yield from _scripts(_plain_name(words[at]), words[at + 1 :])
            elif node.type == "command_substitution" and "\\`" in reading.of(node):
                yield reading.of(node)[1:-1].replace("\\`", "`")


def _plain_name(program: str) -> str:
    return program.rpartition("/")[2]


def _beginnings(words: Words) -> list[int]:
    """Where in the words of a command one may begin: at the first, and at each that a wrapper may start.

    What follows an option may be its value or the command, so both are tried.
    """
    found: list[int] = []
    awaited = 0  # how many more words may stand before the command that a wrapper starts; below 0 none is awaited
    is_find = False
    for at, word in enumerate(words):
        is_option = at > 0 and (word.startswith("-") or "=" in word)
        is_awaited = awaited >= 0 and not is_option
        if is_awaited and not (at and _takes_value(words[at - 1])):
            awaited -= 1
        if is_awaited or (is_find and words[at - 1] in _EXEC):
            found.append(at)
            name = _plain_name(word)
            is_find = is_find or name == "find"
            awaited = max(awaited, 0 if name.startswith("$") else _WRAPPERS.get(name, -1))  # `$SUDO`, or nothing
    return found


def _takes_value(word: str) -> bool:
    """Whether the next word may be the value of this one: not after `-n5`, `--user=x`, `--`."""
    return re.fullmatch(r"--?[A-Za-z][\w-]*(?<!\d)", word) is not None


def _scripts(name: str, words: Words) -> Iterator[str]:
    """The words of a command that it reads as shell itself."""
    if name == "eval":
        yield " ".join(words)
    elif name in _READERS or (name in _SHELLS and any(_SCRIPT_OPTION.match(word) for word in words)):
        yield from (_SCRIPT_OPTION.sub("", word, count=1) for word in words)


def _loose(text: str) -> Iterator[Words]:
    """What may be a command in a text that the grammar cannot read: the words from any of them on, as many as a rule may ask for."""
    for piece in re.split(r"[;&|(){}<>`\n]", f"{text}\n{_REDIRECTION.sub(' ', text)}"):
        words = [word.strip("$") for word in re.sub(r"[\"'\\]", "", piece).split()]
        for at in range(len(words)):
            yield (_plain_name(words[at]), *words[at + 1 : at + _MOST])


_REDIRECTION = re.compile(r"\d*[<>]+[&|-]*[ \t]*[^\s;&|(){}<>`]+")
_DEPTH = 5  # scripts in scripts that are read
_MOST = 256  # words of one of many commands that may begin in the same words
_EXEC = {"-exec", "-execdir", "-ok", "-okdir"}
_READERS = {"trap", "watch"}
_SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh", "su", "env"}
_SCRIPT_OPTION = re.compile(r"^(?:-\w*?[cS]|--(?:command|split-string|session-command)=?)")
# What starts another command, with the number of words before that which are no options. The grammar takes some words of the shell itself for programs.
_WRAPPERS = {
    "!": 0,
    "{": 0,
    "builtin": 0,
    "busybox": 0,
    "chroot": 1,
    "command": 0,
    "coproc": 1,
    "do": 0,
    "doas": 0,
    "else": 0,
    "env": 0,
    "exec": 0,
    "flock": 1,
    "if": 0,
    "ionice": 0,
    "nice": 0,
    "nohup": 0,
    "parallel": 0,
    "setsid": 0,
    "stdbuf": 0,
    "strace": 0,
    "sudo": 0,
    "then": 0,
    "time": 0,
    "timeout": 1,
    "until": 0,
    "watch": 0,
    "while": 0,
    "xargs": 0,
}
