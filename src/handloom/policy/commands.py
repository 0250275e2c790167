"""A shell line as its simple commands, read by a grammar of bash and not by guessing at quotes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# What a line may consist of so that its commands are all there is to it: no substitution, expansion, function, redirection into a file.
_JOINTS = {"program", "list", "pipeline", "command", "comment", "\n", ";", "&&", "||", "|", "&", "|&"}
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
Words = tuple[str, ...]


@dataclass(frozen=True)
class _Line:
    """A line with its tree. The grammar's scanner is C that looks letters up in a table for ASCII, and crashes beyond it; to bash all of those are letters."""

    text: str
    root: "Node"

    @classmethod
    def read(cls, text: str) -> "_Line":
        ascii_text = "".join(char if char < "\x80" else "x" for char in text)
        return cls(text, _parser().parse(ascii_text.encode()).root_node)

    def of(self, node: "Node") -> str:
        """What stands there."""
        return self.text[node.start_byte : node.end_byte]


def plain(line: str) -> list[Words] | None:
    """The simple commands of a line that is nothing but simple commands; None for any other line, also for one that is no bash."""
    read = _Line.read(line)
    if read.root.has_error:
        return None
    found: list[Words] = []
    return found if _collect(read, read.root, found) else None


def every(line: str) -> list[Words]:
    """Each command that stands anywhere in the line, substitutions included; words that are not literal are left as they are written."""
    found: list[Words] = []
    read = _Line.read(line)
    waiting = [read.root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        if node.type == "command":
            found.append(_beyond_wrappers(tuple(_literal(read, part) or read.of(part) for part in _parts(node))))
    return found


def _collect(line: _Line, node: "Node", found: list[Words]) -> bool:
    match node.type:
        case "command":
            words = [_literal(line, part) for part in _parts(node)]
            if any(word is None for word in words) or any(_is_assignment(child) for child in node.children):
                return False
            found.append(tuple(word for word in words if word is not None))
            return True
        case "redirected_statement":
            return all(
                line.of(child).strip() in _QUIET if child.type == "file_redirect" else _collect(line, child, found)
                for child in node.children
            )
        case kind:
            return kind in _JOINTS and all(_collect(line, child, found) for child in node.children)


def _parts(command: "Node") -> "list[Node]":
    """The nodes of a command's name and arguments."""
    parts = [
        child
        for child in command.children
        if child.is_named and not _is_assignment(child) and "redirect" not in child.type
    ]
    return [part.children[0] if part.type == "command_name" and part.children else part for part in parts]


def _is_assignment(node: "Node") -> bool:
    return node.type == "variable_assignment"


def _literal(line: _Line, node: "Node") -> str | None:
    """The text that bash would pass on; None where it depends on anything."""
    text = line.of(node)
    match node.type:
        case "word" | "number":
            bare = text.replace("\\", "")
            return None if any(sign in text for sign in "*?[{~$`") else bare
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


def _beyond_wrappers(words: Words) -> Words:
    """The command that `sudo`, `env`, `nohup` and the like start, by its plain name, so that a denied command cannot hide behind them or a path."""
    while words and words[0].rpartition("/")[2] in _WRAPPERS:
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0] or words[0].replace(".", "").isdecimal()):
            words = words[1:]
    return (words[0].rpartition("/")[2], *words[1:]) if words else ()


_WRAPPERS = {
    "sudo",
    "env",
    "nohup",
    "command",
    "exec",
    "time",
    "timeout",
    "nice",
    "setsid",
    "xargs",
    "builtin",
    "stdbuf",
}


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
