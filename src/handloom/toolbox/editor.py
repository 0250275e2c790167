"""str_replace_editor: a model looks at files of the workspace and changes them, and can take its changes back."""

import asyncio
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeVar, assert_never

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.toolbox import file_view
from handloom.toolbox.text import Text, plain
from handloom.toolbox.workspace_file import WorkspaceFile
from handloom.tools import results
from handloom.tools.tool import ToolContext, tool

Given = TypeVar("Given")
Command = Literal["view", "create", "str_replace", "insert", "undo_edit"]
EDIT_BYTES = 10_000_000
HISTORY_BYTES = 64_000_000
SHOWN_PLACES = 10
NEAR_LINES = 3
SHOWN_LINES = 5
AROUND = 3
_NUMBERED = re.compile(r"\s*\d+\t(.*)")


@tool(
    name="str_replace_editor",
    effects={"write_workspace"},
    actions={
        "view": "path view_range?",
        "create": "path file_text",
        "str_replace": "path old_str new_str",
        "insert": "path insert_line new_str",
        "undo_edit": "path",
    },
)
async def str_replace_editor(
    command: Command,
    path: str,
    context: ToolContext,
    file_text: str | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    view_range: list[int] | None = None,
) -> ToolResult:
    """View, create and edit text files, list folders. `path` is relative to the workspace. str_replace: `old_str` must be exact and occur once. insert: `new_str` goes after `insert_line` (0 = top). create: `file_text`. view_range: [first, last]."""
    editor = await context.resource(Editor, Editor.start)
    call = EditorCall(command, path, file_text, old_str, new_str, insert_line, view_range)
    return await asyncio.to_thread(editor.run, context.workspace, call)


@dataclass(frozen=True)
class EditorCall:
    """The arguments of one call."""

    command: Command
    path: str
    file_text: str | None
    old_str: str | None
    new_str: str | None
    insert_line: int | None
    view_range: list[int] | None


@dataclass(frozen=True, eq=False)
class Edit:
    """What undoes one edit: the bytes before it (None: there was no file) and the digest of those it wrote.

    Two edits of the same content are still two edits.
    """

    name: str
    before: bytes | None
    after: str


class Editor:
    """The run's memory of files: what they held when the model last saw them, and what its edits replaced."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._edits: list[Edit] = []

    @classmethod
    async def start(cls) -> Self:
        return cls()

    async def aclose(self) -> None:
        self._edits.clear()

    def run(self, workspace: Path, call: EditorCall) -> ToolResult:
        """Raises: ToolError that tells the model what to do instead."""
        file = WorkspaceFile.at(workspace, call.path)
        try:
            return self._run(file, call)
        except FileNotFoundError:
            raise ToolError(
                f"there is no {file} in the workspace; to make it use command create with file_text, to see what there is view `.`"
            ) from None
        except OSError as error:
            raise ToolError(f"{file}: {error.strerror or error}") from None

    def _run(self, file: WorkspaceFile, call: EditorCall) -> ToolResult:
        match call.command:
            case "view":
                return self._view(file, call.view_range)
            case "create":
                said = self._create(file, _given("create", "file_text", call.file_text))
            case "str_replace":
                said = self._replace(file, _given("str_replace", "old_str", call.old_str), call.new_str or "")
            case "insert":
                said = self._insert(
                    file, _given("insert", "insert_line", call.insert_line), _given("insert", "new_str", call.new_str)
                )
            case "undo_edit":
                said = self._undo(file)
            case _:
                assert_never(call.command)
        return ToolResult(text=said)

    def _view(self, file: WorkspaceFile, wanted: list[int] | None) -> ToolResult:
        if file.is_folder():
            return ToolResult(text=file_view.folder(file))
        with file.reading() as opened:
            if (size := file_view.size_of(opened)) > EDIT_BYTES:
                return ToolResult(text=file_view.part(file, opened, size, wanted))
            data = opened.read(EDIT_BYTES)
        self._seen[str(file)] = _digest(data)
        text = Text.decoded(data)
        return file_view.binary(file, data) if text is None else ToolResult(text=file_view.whole(text, wanted))

    def _create(self, file: WorkspaceFile, content: str) -> str:
        before = _read(file) if file.exists() else None
        self._save(file, before, Text(content))
        done = "created" if before is None else "replaced the file"
        lines = Text(content).lines
        shown = "".join(f"\n{line}" for line in lines) if len(lines) <= SHOWN_LINES else ""
        return f"{done} {file}, {len(lines)} lines{':' if shown else ''}{shown}{_broken(file, Text(content))}"

    def _replace(self, file: WorkspaceFile, old: str, new: str) -> str:
        old, new = plain(old), plain(new)
        if not old:
            raise ToolError("old_str is empty; give the text to replace, or use insert to add text")
        if old == new:
            raise ToolError("old_str and new_str are the same; nothing was changed")
        before, text = self._editable(file)
        places = text.places(old, SHOWN_PLACES + 1)
        if not places:
            raise ToolError(_no_match(file, text, old))
        if len(places) > 1:
            raise ToolError(_many_matches(text, places))
        after = text.replaced(places[0], old, new)
        self._save(file, before, after)
        return _shown(file, after, text.line_at(places[0]), new)

    def _insert(self, file: WorkspaceFile, line: int, new: str) -> str:
        before, text = self._editable(file)
        if not 0 <= line <= len(text.lines):
            raise ToolError(f"insert_line {line} is not in {file}; give 0 to {len(text.lines)}")
        after = text.inserted(line, plain(new))
        self._save(file, before, after)
        return _shown(file, after, line + 1, new)

    def _undo(self, file: WorkspaceFile) -> str:
        last = next((edit for edit in reversed(self._edits) if edit.name == str(file)), None)
        if last is None:
            raise ToolError(f"there is no edit of {file} to undo")
        if not file.exists() or _digest(_read(file)) != last.after:
            raise ToolError(f"{file} changed on disk since your edit, so undo would lose that change; use str_replace")
        self._edits.remove(last)
        if last.before is None:
            file.remove()
            self._seen.pop(str(file), None)
            return f"undone: {file} is removed again"
        file.write(last.before)
        self._seen[str(file)] = _digest(last.before)
        return f"undone: {file} is as it was before the last edit"

    def _editable(self, file: WorkspaceFile) -> tuple[bytes, Text]:
        data = _read(file)
        if self._seen.get(str(file), _digest(data)) != _digest(data):
            raise ToolError(f"{file} changed on disk since you saw it; nothing was done. View it again, then edit")
        text = Text.decoded(data)
        if text is None:
            raise ToolError(f"{file} is binary ({len(data):,} bytes) and cannot be edited as text")
        return data, text

    def _save(self, file: WorkspaceFile, before: bytes | None, after: Text) -> None:
        try:
            data = after.encoded()
        except UnicodeEncodeError as error:
            lost = error.object[error.start]
            raise ToolError(f"{file} is {after.codec} text, which cannot hold {lost!r}; nothing was changed") from None
        if len(data) > EDIT_BYTES:
            raise ToolError(f"{file} would have {len(data):,} bytes; the limit is {EDIT_BYTES:,}")
        file.write(data)
        self._seen[str(file)] = _digest(data)
        self._edits.append(Edit(str(file), before, _digest(data)))
        while sum(len(edit.before or b"") for edit in self._edits) > HISTORY_BYTES:
            del self._edits[0]


def _given(command: Command, name: str, value: Given | None) -> Given:
    if value is None:
        raise ToolError(f"{command} needs {name}")
    return value


def _read(file: WorkspaceFile) -> bytes:
    with file.reading() as opened:
        size = file_view.size_of(opened)
        # The file may grow after its size was read.
        if size > EDIT_BYTES or len(data := opened.read(EDIT_BYTES + 1)) > EDIT_BYTES:
            raise ToolError(f"{file} has {size:,} bytes; only files up to {EDIT_BYTES:,} can be edited")
        return data


def _shown(file: WorkspaceFile, text: Text, first: int, new: str) -> str:
    last = first + new.removesuffix("\n").count("\n")
    return f"edited {file}; it now has\n{file_view.excerpt(text, first - AROUND, last + AROUND)}{_broken(file, text)}"


def _broken(file: WorkspaceFile, text: Text) -> str:
    """A warning behind an edit that left a Python file broken, so that the model need not run it to find out."""
    if not str(file).endswith(".py"):
        return ""
    try:
        compile("\n".join(text.lines), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"\nwarning: {file} does not compile: {error.msg} (line {error.lineno})"
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        return f"\nwarning: {file} does not compile: {error}"
    return ""


def _no_match(file: WorkspaceFile, text: Text, old: str) -> str:
    if (bare := _without_numbers(old)) and text.places(bare, 1):
        return "old_str holds the line numbers of the view; leave them out"
    if lines := text.spaced_otherwise(old):
        return f"old_str differs from {file} only in whitespace; copy these lines exactly:\n{file_view.excerpt(text, *lines)}"
    if unseen := _unseen(text, old):
        return unseen
    near = "\n".join(file_view.excerpt(text, line, line) for line in text.near(old, NEAR_LINES))
    return f"old_str is not in {file}" + (f"; the nearest lines are\n{near}" if near else "; view the file")


def _unseen(text: Text, old: str) -> str:
    """What keeps lines from matching that look the same: characters that the view cannot show; empty where it is not that."""
    shown = results.clean(text.plain)
    place = shown.find(old)
    if place < 0:
        return ""
    number = shown.count("\n", 0, place) + 1
    hidden = [
        (line, column, char)
        for line, words in enumerate(text.lines[number - 1 : number + old.count("\n")], number)
        for column, char in enumerate(words, 1)
        if not results.clean(char)
    ]
    told = ", ".join(
        f"U+{ord(char):04X} in line {line}, column {column}" for line, column, char in hidden[:SHOWN_PLACES]
    )
    return f"old_str looks like what stands there, but the file has characters that cannot be seen: {told}; change these lines with Python"


def _many_matches(text: Text, places: list[int]) -> str:
    lines = ", ".join(str(text.line_at(place)) for place in places[:SHOWN_PLACES])
    count = f"more than {SHOWN_PLACES}" if len(places) > SHOWN_PLACES else str(len(places))
    return f"old_str occurs {count} times, at lines {lines}; add lines around it so that it occurs once"


def _without_numbers(old: str) -> str:
    """`old` without the numbers that the view puts before lines, when each line has one."""
    lines = [_NUMBERED.fullmatch(line) for line in old.split("\n")]
    return "\n".join(line[1] for line in lines if line) if all(lines) else ""


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
