"""A shell line as its simple commands, read by a grammar of bash and not by guessing at quotes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

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


@dataclass(frozen=True)
class _Line:
    """A line with its tree. The grammar's scanner is C that looks letters up in a table for ASCII, and crashes beyond it; to bash all of those are letters.

    So are control characters, and a blank behind a backslash, which the grammar takes for blanks.
    """

    text: str
    root: "Node"

    @classmethod
    def read(cls, text: str) -> "_Line":
        escaped = re.sub(r"\\.", lambda pair: "xx" if pair[0][1] in " \t" else pair[0], text, flags=re.DOTALL)
        ascii_text = "".join(char if " " <= char < "\x7f" or char in "\n\t" else "x" for char in escaped)
        return cls(text, _parser().parse(ascii_text.encode()).root_node)

    def of(self, node: "Node") -> str:
        """What stands there."""
        return self.text[node.start_byte : node.end_byte]


def plain(line: str) -> list[Words] | None:
    """The simple commands of a line that is nothing but simple commands; None for any other line, also for one that is no bash."""
    if _UNPLAIN.search(line):
        return None
    read = _Line.read(line)
    return None if _is_misread(read) or not _is_read_whole(read) else _simple_commands(read)


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


def _is_read_whole(line: _Line) -> bool:
    """Whether the tree has passed over nothing but blanks."""
    leaves = [node for node in _nodes(line.root) if not node.children]
    ends = [0, *(node.end_byte for node in leaves)]
    starts = [*(node.start_byte for node in leaves), len(line.text)]
    return not any(line.text[end:start].strip(" \t\n") for end, start in zip(ends, starts, strict=True))


def _simple_commands(line: _Line) -> list[Words] | None:
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


def _simple(line: _Line, command: "Node") -> Words | None:
    """The words of a command of which each is literal, that sets no variable and writes no file."""
    if not all(_is_quiet(line, node) or (node.is_named and "redirect" not in node.type) for node in command.children):
        return None
    if any(left.end_byte == right.start_byte for left, right in pairwise(command.children)):
        return None  # the grammar parts what is one word to bash
    words = [_literal(line, part) for part in _parts(command)]
    if any(word is None for word in words) or any(_is_assignment(node) for node in command.children):
        return None
    return tuple(word for word in words if word is not None)


def _is_quiet(line: _Line, node: "Node") -> bool:
    """Whether it is a redirection that touches no file."""
    return node.type == "file_redirect" and line.of(node).strip() in _QUIET


def _parts(command: "Node") -> "list[Node]":
    """The nodes of a command's name and arguments."""
    parts = [
        child
        for child in command.children
        if child.is_named and not _is_assignment(child) and "redirect" not in child.type
    ]
    return [part.children[0] if part.type == "command_name" and part.children else part for part in parts]


def _all_parts(node: "Node") -> "list[Node]":
    """The parts of a command, and of one that is redirected also those behind its redirections, which the grammar takes for a part of these."""
    if node.type == "command":
        return _parts(node)
    if node.type != "redirected_statement":
        return []
    late = [part for child in node.children if "redirect" in child.type for part in _behind_target(child)]
    command = node.children[0]
    while command.type in ("negated_command", "list", "pipeline"):
        command = command.children[-1]
    return [*_parts(command), *late] if late and command.type == "command" else []


def _behind_target(redirect: "Node") -> "Iterator[Node]":
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    has_target = not any(child.type in ("<&-", ">&-") for child in redirect.children)
    for child in named[1 if has_target else 0 :]:
        if child.type == "file_redirect":
            yield from _behind_target(child)
        elif "heredoc" not in child.type:
            yield child


def _is_assignment(node: "Node") -> bool:
    return node.type == "variable_assignment"


def _literal(line: _Line, node: "Node") -> str | None:
    """The text that bash would pass on; None where it depends on anything."""
    text = line.of(node)
    match node.type:
        case "word" | "number":
            return None if any(sign in text for sign in "*?[{~$`") else _ESCAPED.sub(r"\1", text)
        case "raw_string":
            return text[1:-1]
        case "string":
            is_plain = all(child.type in ('"', "string_content") for child in node.children)
            return text[1:-1] if is_plain and "\\" not in text else None
        case "concatenation":
            parts = [_literal(line, child) for child in node.children]
            return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
        case _:
            return None


def _read(script: str, found: list[Words]) -> Iterator[str]:
    """Add the commands of a script to those found; what comes back are the scripts inside of it."""
    line = _Line.read(script.replace("\0", "").replace("\r\n", "\n"))
    for reading in (line, _Line.read(_joined(line))) if "\\\n" in line.text else (line,):
        if _is_misread(reading):
            found += _loose(reading.text)
        for node in _nodes(reading.root):
            if parts := _all_parts(node):
                words = tuple(_word(reading, part) for part in parts)
                for at in _beginnings(words):
                    found.append((_plain_name(words[at]), *words[at + 1 : at + _MOST if at else None]))
                    yield from _scripts(_plain_name(words[at]), words[at + 1 :])
            elif node.type == "command_substitution" and "\\`" in reading.of(node):
                yield reading.of(node)[1:-1].replace("\\`", "`")


def _is_misread(line: _Line) -> bool:
    """Whether the tree is wrong: the grammar says so, or has made one word of several, as it does with `{ {` and with a backslash at the beginning of a line."""
    return line.root.has_error or any(
        node.type == "word" and re.search(r"(?<!\\)[ \t]|\n", line.of(node)) for node in _nodes(line.root)
    )


def _nodes(root: "Node") -> "Iterator[Node]":
    """All nodes of a tree, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        yield node


def _joined(line: _Line) -> str:
    """The text with those lines joined that a backslash joins, which it does not in a comment and where everything is literal."""
    literal = [
        (node.start_byte, node.end_byte)
        for node in _nodes(line.root)
        if node.type in ("comment", "raw_string") or (node.type == "heredoc_body" and _is_quoted(line, node))
    ]
    return re.sub(
        r"(?<!\\)((?:\\\\)*)\\\n",
        lambda match: match[0] if any(start <= match.start() < end for start, end in literal) else match[1],
        line.text,
    )


def _is_quoted(line: _Line, body: "Node") -> bool:
    opening = line.of(body.parent).partition("\n")[0] if body.parent else ""
    return any(sign in opening for sign in "'\"\\")


def _word(line: _Line, node: "Node") -> str:
    """The text that bash would pass on, as far as it can be known."""
    text = line.of(node)
    match node.type:
        case "word":
            return _ESCAPED.sub(r"\1", text)
        case "raw_string":
            return text[1:-1]
        case "string":
            return re.sub(r'\\([\\"$`])', r"\1", text[1:-1])
        case "translated_string":
            return _word(line, node.children[-1])
        case "ansi_c_string":
            return _ESCAPED.sub(_decoded, text[2:-1])
        case "concatenation":
            return "".join(_word(line, child) for child in node.children)
        case _:
            return text


_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|[0-7]{1,3}|.)", re.DOTALL)


def _decoded(match: re.Match[str]) -> str:
    """A character that is written with a backslash in `$'...'`."""
    code = match[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8) & 0xFF) if code.isdecimal() else {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)


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


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
