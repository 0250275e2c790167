"""A shell line with its tree, by a grammar of bash, and what stands in it: the parts of commands, and the text that bash would pass on."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser


@dataclass(frozen=True)
class Line:
    """A line with its tree. The grammar's scanner is C that looks letters up in a table for ASCII, and crashes beyond it; to bash all of those are letters.

    So are control characters, and a blank behind a backslash, which the grammar takes for blanks.
    """

    text: str
    root: "Node"

    @classmethod
    def read(cls, text: str) -> "Line":
        escaped = re.sub(r"\\.", lambda pair: "xx" if pair[0][1] in " \t" else pair[0], text, flags=re.DOTALL)
        ascii_text = "".join(char if " " <= char < "\x7f" or char in "\n\t" else "x" for char in escaped)
        return cls(text, _parser().parse(ascii_text.encode()).root_node)

    def of(self, node: "Node") -> str:
        """What stands there."""
        return self.text[node.start_byte : node.end_byte]


def is_read_whole(line: Line) -> bool:
    """Whether the tree has passed over nothing but blanks."""
    leaves = [node for node in nodes_of(line.root) if not node.children]
    ends = [0, *(node.end_byte for node in leaves)]
    starts = [*(node.start_byte for node in leaves), len(line.text)]
    return not any(line.text[end:start].strip(" \t\n") for end, start in zip(ends, starts, strict=True))


def parts_of(command: "Node") -> "list[Node]":
    """The nodes of a command's name and arguments."""
    parts = [
        child
        for child in command.children
        if child.is_named and not is_assignment(child) and "redirect" not in child.type
    ]
    return [part.children[0] if part.type == "command_name" and part.children else part for part in parts]


def all_parts(node: "Node") -> "list[Node]":
    """The parts of a command, and of one that is redirected also those behind its redirections, which the grammar takes for a part of these."""
    if node.type == "command":
        return parts_of(node)
    if node.type != "redirected_statement":
        return []
    late = [part for child in node.children if "redirect" in child.type for part in _behind_target(child)]
    command = node.children[0]
    while command.type in ("negated_command", "list", "pipeline"):
        command = command.children[-1]
    return [*parts_of(command), *late] if late and command.type == "command" else []


def _behind_target(redirect: "Node") -> "Iterator[Node]":
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    has_target = not any(child.type in ("<&-", ">&-") for child in redirect.children)
    for child in named[1 if has_target else 0 :]:
        if child.type == "file_redirect":
            yield from _behind_target(child)
        elif "heredoc" not in child.type:
            yield child


def is_assignment(node: "Node") -> bool:
    return node.type == "variable_assignment"


def literal_of(line: Line, node: "Node") -> str | None:
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
            parts = [literal_of(line, child) for child in node.children]
            return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
        case _:
            return None


def is_misread(line: Line) -> bool:
    """Whether the tree is wrong: the grammar says so, or has made one word of several, as it does with `{ {` and with a backslash at the beginning of a line."""
    return line.root.has_error or any(
        node.type == "word" and re.search(r"(?<!\\)[ \t]|\n", line.of(node)) for node in nodes_of(line.root)
    )


def nodes_of(root: "Node") -> "Iterator[Node]":
    """All nodes of a tree, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        yield node


def joined(line: Line) -> str:
    """The text with those lines joined that a backslash joins, which it does not in a comment and where everything is literal."""
    literal = [
        (node.start_byte, node.end_byte)
        for node in nodes_of(line.root)
        if node.type in ("comment", "raw_string") or (node.type == "heredoc_body" and _is_quoted(line, node))
    ]
    return re.sub(
        r"(?<!\\)((?:\\\\)*)\\\n",
        lambda match: match[0] if any(start <= match.start() < end for start, end in literal) else match[1],
        line.text,
    )


def _is_quoted(line: Line, body: "Node") -> bool:
    opening = line.of(body.parent).partition("\n")[0] if body.parent else ""
    return any(sign in opening for sign in "'\"\\")


def word_of(line: Line, node: "Node") -> str:
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
            return word_of(line, node.children[-1])
        case "ansi_c_string":
            return _ESCAPED.sub(_decoded, text[2:-1])
        case "concatenation":
            return "".join(word_of(line, child) for child in node.children)
        case _:
            return text


_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|[0-7]{1,3}|.)", re.DOTALL)


def _decoded(match: re.Match[str]) -> str:
    """A character that is written with a backslash in `$'...'`."""
    code = match[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8) & 0xFF) if code.isdecimal() else {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
