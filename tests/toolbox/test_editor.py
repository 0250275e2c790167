"""str_replace_editor, on real files. F1 to F11 are rows of the table of faulty input."""

# ruff: noqa: N802, ASYNC240 - the rows of the table have capital letters; tests may block

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.testing.tools import FakeContext
from handloom.toolbox.editor import str_replace_editor
from handloom.toolbox.workspace_file import WorkspaceFile

pytestmark = pytest.mark.anyio

Edit = Callable[..., Awaitable[str]]


async def call(context: FakeContext, command: str, path: str, **arguments: Any) -> ToolResult:
    return await str_replace_editor.run({"command": command, "path": path, **arguments}, context)


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[FakeContext]:
    (tmp_path / "ws").mkdir()
    async with FakeContext(tmp_path / "ws") as context:
        yield context


@pytest.fixture
def workspace(context: FakeContext) -> Path:
    return context.workspace


@pytest.fixture
def edit(context: FakeContext) -> Edit:
    async def run(command: str, path: str, **arguments: Any) -> str:
        result = await call(context, command, path, **arguments)
        assert result.ok
        return result.text

    return run


class TestView:
    async def test_shows_lines_with_their_numbers(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one\n\tzwei ä\n\nfour")
        assert await edit("view", "a.txt") == "1\tone\n2\t\tzwei ä\n3\t\n4\tfour"

    async def test_an_absolute_path_in_the_workspace_is_fine(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        assert await edit("view", str(workspace / "a.txt")) == "1\tone"

    async def test_an_empty_file_is_said(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").touch()
        assert await edit("view", "a.txt") == "(empty file)"

    @pytest.mark.parametrize(
        ("view_range", "shown"),
        [([2, 3], "2\tb\n3\tc"), ([4, -1], "4\td\n5\te"), ([4, 99], "4\td\n5\te"), ([1, 1], "1\ta")],
    )
    async def test_a_range_is_shown_with_the_count_of_all_lines(
        self, edit: Edit, workspace: Path, view_range: list[int], shown: str
    ):
        (workspace / "a.txt").write_text("a\nb\nc\nd\ne\n")
        text = await edit("view", "a.txt", view_range=view_range)
        assert text.startswith(shown + "\n(lines")
        assert text.endswith("of 5)")

    @pytest.mark.parametrize("view_range", [[], [1], [3, 2], [6, 7], [3, -2], [1, 2, 3]])
    async def test_a_range_that_is_none_names_the_lines_there_are(
        self, edit: Edit, workspace: Path, view_range: list[int]
    ):
        (workspace / "a.txt").write_text("a\nb\nc\nd\ne\n")
        if not view_range:
            view_range = [9, 9]
        with pytest.raises(ToolError, match="lines from 1 to 5"):
            await edit("view", "a.txt", view_range=view_range)

    async def test_a_long_file_is_cut_with_advice(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("some words\n" * 10_000)
        text = await edit("view", "a.txt")
        assert len(text) <= 32_000
        assert "give view_range" in text
        assert text.endswith("10000\tsome words")

    async def test_an_escape_sequence_hides_no_lines(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("a\x1b]0;\nhidden\n\x07b\u202ec\n")
        assert await edit("view", "a.txt") == "1\ta\u241b]0;\n2\thidden\n3\tbc"

    async def test_a_folder_shows_two_levels_without_hidden_and_generated_ones(self, edit: Edit, workspace: Path):
        for name in ("b/c/d.txt", "b/x.txt", ".git/config", "node_modules/m/i.js", "__pycache__/a.pyc", "ä.txt"):
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).touch()
        assert (await edit("view", ".")).split("\n") == ["b/", "b/c/", "b/x.txt", "ä.txt"]
        assert await edit("view", "b/c") == "d.txt"

    async def test_an_empty_folder_is_said(self, edit: Edit):
        assert await edit("view", ".") == "(empty folder)"

    async def test_a_large_folder_is_capped_with_the_count_left_out(self, edit: Edit, workspace: Path):
        for number in range(250):
            (workspace / f"{number:03}.txt").touch()
        assert "50 or more left out" in await edit("view", ".")

    async def test_a_missing_file_is_said(self, edit: Edit):
        with pytest.raises(ToolError, match=r"there is no notes\.txt in the workspace; to make it use command create"):
            await edit("view", "notes.txt")


class TestCreate:
    async def test_makes_folders_and_keeps_the_text_as_given(self, edit: Edit, workspace: Path):
        assert (
            await edit("create", "neu/日本/ä.txt", file_text="eins\r\nzwei 🦆")
            == "created neu/日本/ä.txt, 2 lines:\neins\nzwei 🦆"
        )
        assert (workspace / "neu/日本/ä.txt").read_bytes() == "eins\r\nzwei 🦆".encode()

    async def test_over_a_file_says_so_and_can_be_undone(self, edit: Edit, workspace: Path):
        (workspace / "a.bin").write_bytes(b"\0\xff")
        assert "replaced the file a.bin" in await edit("create", "a.bin", file_text="new\n")
        await edit("undo_edit", "a.bin")
        assert (workspace / "a.bin").read_bytes() == b"\0\xff"

    async def test_undo_removes_a_created_file(self, edit: Edit, workspace: Path):
        await edit("create", "a.txt", file_text="new")
        assert "removed" in await edit("undo_edit", "a.txt")
        assert not (workspace / "a.txt").exists()

    async def test_text_that_is_missing_or_no_unicode_is_refused(self, edit: Edit, workspace: Path):
        with pytest.raises(ToolError, match="create needs file_text"):
            await edit("create", "a.txt")
        with pytest.raises(ToolError, match="cannot hold"):
            await edit("create", "a.txt", file_text="\ud800")
        assert not list(workspace.iterdir())

    async def test_new_files_get_the_usual_mode(self, edit: Edit, workspace: Path):
        await edit("create", "a.txt", file_text="x")
        (workspace / "b.txt").write_text("x")
        assert (workspace / "a.txt").stat().st_mode == (workspace / "b.txt").stat().st_mode


class TestReplace:
    async def test_shows_the_lines_around_the_change(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("\n".join("abcdefghij"))
        text = await edit("str_replace", "a.txt", old_str="e\nf", new_str="E1\nE2\nF")
        assert text == "edited a.txt; it now has\n2\tb\n3\tc\n4\td\n5\tE1\n6\tE2\n7\tF\n8\tg\n9\th\n10\ti"
        assert (workspace / "a.txt").read_text() == "a\nb\nc\nd\nE1\nE2\nF\ng\nh\ni\nj"

    async def test_without_new_text_the_old_is_deleted(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one two three")
        await edit("str_replace", "a.txt", old_str="two ")
        assert (workspace / "a.txt").read_text() == "one three"

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("", "x", "old_str is empty"),
            ("two", "two", "are the same"),
            ("zzz", "x", "is not in a.txt; view the file"),
            ("def tow(a):\n    pass", "x", "nearest lines are\n1\tdef two\\(a\\):\n5\tdef too\\(b\\):"),
            (
                "def two(a):\n  return  1",
                "x",
                "only in whitespace; copy these lines exactly:\n1\tdef two\\(a\\):\n2\t\treturn 1",
            ),
            ("1\tdef two(a):\n2\t\treturn 1", "x", "line numbers of the view; leave them out"),
            ("return", "x", "occurs 2 times, at lines 2, 6;"),
            ("-", "x", "occurs more than 10 times"),
            ("==", "x", "occurs 2 times, at lines 8, 8;"),
        ],
    )
    async def test_F6_what_cannot_be_replaced_says_why_and_changes_nothing(
        self, edit: Edit, workspace: Path, old: str, new: str, reason: str
    ):
        content = f"def two(a):\n\treturn 1\n\n\ndef too(b):\n\treturn 2\n{'-' * 20}\n===\n"
        (workspace / "a.txt").write_text(content)
        with pytest.raises(ToolError, match=reason):
            await edit("str_replace", "a.txt", old_str=old, new_str=new)
        assert (workspace / "a.txt").read_text() == content

    async def test_characters_that_cannot_be_seen_are_named(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one\ntwo\u200b three\n\ufefffour\n", encoding="utf-8")
        with pytest.raises(
            ToolError, match=r"cannot be seen: U\+200B in line 2, column 4, U\+FEFF in line 3, column 1;"
        ):
            await edit("str_replace", "a.txt", old_str="two three\nfour", new_str="x")

    @pytest.mark.parametrize("path", [".git/commondir", "a/.GIT/HEAD", ".git", ".git/config.worktree"])
    async def test_nothing_of_a_repositorys_own_folder_is_edited(self, edit: Edit, workspace: Path, path: str):
        with pytest.raises(ToolError, match="is protected"):
            await edit("create", path, file_text="../evil\n")
        assert not (workspace / ".git").exists()

    async def test_old_text_is_needed(self, edit: Edit):
        with pytest.raises(ToolError, match="str_replace needs old_str"):
            await edit("str_replace", "a.txt", new_str="x")

    async def test_what_the_encoding_cannot_hold_is_refused(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_bytes("Käse".encode("latin-1"))
        with pytest.raises(ToolError, match="cannot hold '中'"):
            await edit("str_replace", "a.txt", old_str="K", new_str="中")
        await edit("str_replace", "a.txt", old_str="Kä", new_str="Fü")
        assert (workspace / "a.txt").read_bytes() == "Füse".encode("latin-1")

    async def test_mode_is_kept(self, edit: Edit, workspace: Path):
        (workspace / "run.sh").write_text("echo one")
        (workspace / "run.sh").chmod(0o750)
        await edit("str_replace", "run.sh", old_str="one", new_str="two")
        assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == 0o750

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
    async def test_owner_is_kept(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        os.chown(workspace / "a.txt", 1234, 5678)
        await edit("str_replace", "a.txt", old_str="one", new_str="two")
        assert ((workspace / "a.txt").stat().st_uid, (workspace / "a.txt").stat().st_gid) == (1234, 5678)

    async def test_a_link_within_the_workspace_stays_a_link(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        (workspace / "link.txt").symlink_to("a.txt")
        await edit("str_replace", "link.txt", old_str="one", new_str="two")
        assert (workspace / "link.txt").is_symlink()
        assert (workspace / "a.txt").read_text() == "two"


class TestInsert:
    @pytest.mark.parametrize(
        ("before", "line", "after"),
        [
            ("a\nb\n", 0, "new\na\nb\n"),
            ("a\nb\n", 1, "a\nnew\nb\n"),
            ("a\nb\n", 2, "a\nb\nnew\n"),
            ("a\nb", 2, "a\nb\nnew"),
            ("", 0, "new\n"),
            ("a\r\nb\r\n", 1, "a\r\nnew\r\nb\r\n"),
            ("a\r\nb", 2, "a\r\nb\r\nnew"),
            ("a\rb\r", 1, "a\rnew\rb\r"),
        ],
    )
    @pytest.mark.parametrize("new", ["new", "new\n"])
    async def test_puts_lines_of_their_own(
        self, edit: Edit, workspace: Path, before: str, line: int, after: str, new: str
    ):
        (workspace / "a.txt").write_bytes(before.encode())
        await edit("insert", "a.txt", insert_line=line, new_str=new)
        assert (workspace / "a.txt").read_bytes() == after.encode()

    async def test_shows_the_lines_around_it(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("a\nb\n")
        assert (
            await edit("insert", "a.txt", insert_line=1, new_str="x\ny")
            == "edited a.txt; it now has\n1\ta\n2\tx\n3\ty\n4\tb"
        )

    @pytest.mark.parametrize("line", [-1, 3])
    async def test_a_line_that_is_not_there_is_refused(self, edit: Edit, workspace: Path, line: int):
        (workspace / "a.txt").write_text("a\nb\n")
        with pytest.raises(ToolError, match="give 0 to 2"):
            await edit("insert", "a.txt", insert_line=line, new_str="x")

    async def test_arguments_that_are_missing_are_named(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("a\nb\n")
        with pytest.raises(ToolError, match="insert needs insert_line"):
            await edit("insert", "a.txt", new_str="x")
        with pytest.raises(ToolError, match="insert needs new_str"):
            await edit("insert", "a.txt", insert_line=1)


class TestUndo:
    async def test_undoes_one_edit_after_the_other(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        await edit("str_replace", "a.txt", old_str="one", new_str="two")
        await edit("insert", "a.txt", insert_line=1, new_str="three")
        await edit("undo_edit", "a.txt")
        assert (workspace / "a.txt").read_text() == "two"
        await edit("undo_edit", "a.txt")
        assert (workspace / "a.txt").read_text() == "one"
        with pytest.raises(ToolError, match=r"no edit of a\.txt to undo"):
            await edit("undo_edit", "a.txt")

    async def test_files_do_not_mix(self, edit: Edit, workspace: Path):
        await edit("create", "a.txt", file_text="a")
        await edit("create", "b.txt", file_text="b")
        await edit("undo_edit", "./a.txt")
        assert [path.name for path in workspace.iterdir()] == ["b.txt"]

    async def test_is_refused_when_it_would_lose_a_change_of_someone_else(self, edit: Edit, workspace: Path):
        await edit("create", "a.txt", file_text="a")
        (workspace / "a.txt").write_text("a person's work")
        with pytest.raises(ToolError, match="undo would lose that change"):
            await edit("undo_edit", "a.txt")
        assert (workspace / "a.txt").read_text() == "a person's work"

    async def test_an_edit_after_an_undo_is_fine(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        await edit("str_replace", "a.txt", old_str="one", new_str="two")
        await edit("undo_edit", "a.txt")
        await edit("str_replace", "a.txt", old_str="one", new_str="three")
        assert (workspace / "a.txt").read_text() == "three"


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "../../etc/passwd",
            "/etc/passwd",
            "~/x",
            "C:\\x",
            "file:///etc/passwd",
            "a/../../secret.txt",
            "/",
            "..",
            "../ws2/x",
        ],
    )
    @pytest.mark.parametrize("command", ["view", "create"])
    async def test_F1_paths_out_of_the_workspace_are_refused_and_the_workspace_named(
        self, edit: Edit, workspace: Path, command: str, path: str
    ):
        with pytest.raises(ToolError, match=f"outside the workspace {workspace}"):
            await edit(command, path, file_text="x")

    @pytest.mark.parametrize("command", ["view", "create"])
    @pytest.mark.parametrize("path", ["link", "folder/secret.txt", "folder/new.txt"])
    async def test_F2_links_out_of_the_workspace_are_refused(
        self, edit: Edit, workspace: Path, tmp_path: Path, command: str, path: str
    ):
        (tmp_path / "secret.txt").write_text("secret")
        (workspace / "link").symlink_to(tmp_path / "secret.txt")
        (workspace / "folder").symlink_to(tmp_path)
        with pytest.raises(ToolError, match="outside the workspace"):
            await edit(command, path, file_text="x")
        assert (tmp_path / "secret.txt").read_text() == "secret"

    @pytest.mark.parametrize("swapped", ["folder", "folder/a.txt"])
    async def test_F2_a_part_that_becomes_a_link_after_the_check_leads_nowhere(
        self, workspace: Path, tmp_path: Path, swapped: str
    ):
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/a.txt").write_text("secret")
        (workspace / "folder").mkdir()
        file = WorkspaceFile.at(workspace, "folder/a.txt")
        if swapped == "folder":
            (workspace / "folder").rmdir()
        target = tmp_path / "outside" if swapped == "folder" else tmp_path / "outside/a.txt"
        (workspace / swapped).symlink_to(target)
        with pytest.raises(OSError, match=r"symbolic links|directory"), file.reading():
            pass
        with pytest.raises((OSError, ToolError)):
            file.write(b"x")
        assert (tmp_path / "outside/a.txt").read_text() == "secret"

    async def test_F2_links_in_a_circle_are_an_error(self, edit: Edit, workspace: Path):
        (workspace / "a").symlink_to("b")
        (workspace / "b").symlink_to("a")
        with pytest.raises(ToolError):
            await edit("view", "a")

    @pytest.mark.parametrize("kind", ["fifo", "socket"])
    @pytest.mark.parametrize("command", ["view", "create", "str_replace"])
    async def test_F3_only_regular_files_and_no_waiting(
        self, edit: Edit, workspace: Path, monkeypatch: pytest.MonkeyPatch, kind: str, command: str
    ):
        monkeypatch.chdir(workspace)
        with socket.socket(socket.AF_UNIX) as listener:
            os.mkfifo("thing") if kind == "fifo" else listener.bind("thing")
            with pytest.raises(ToolError):
                async with asyncio.timeout(10):
                    await edit(command, "thing", file_text="x", old_str="a", new_str="b")
        assert not stat.S_ISREG((workspace / "thing").stat().st_mode)

    async def test_F3_an_edit_of_a_hard_link_leaves_the_other_name_alone(
        self, edit: Edit, workspace: Path, tmp_path: Path
    ):
        (tmp_path / "outside.txt").write_text("one")
        (workspace / "a.txt").hardlink_to(tmp_path / "outside.txt")
        await edit("str_replace", "a.txt", old_str="one", new_str="two")
        assert (tmp_path / "outside.txt").read_text() == "one"

    @pytest.mark.parametrize("path", ["a\nb.txt", "a\0b.txt", "x" * 300, "\ud800.txt", "y/" * 3000])
    async def test_F8_names_that_cannot_be_are_an_error(self, edit: Edit, workspace: Path, path: str):
        with pytest.raises(ToolError):
            await edit("create", path, file_text="x")

    async def test_F10_folders_and_files_in_each_others_place_are_plain_errors(self, edit: Edit, workspace: Path):
        (workspace / "folder").mkdir()
        (workspace / "a.txt").write_text("one")
        with pytest.raises(ToolError, match="folder is a folder"):
            await edit("create", "folder", file_text="x")
        with pytest.raises(ToolError, match="folder is a folder"):
            await edit("str_replace", "folder", old_str="x", new_str="y")
        with pytest.raises(ToolError, match=r"a\.txt/b\.txt: Not a directory"):
            await edit("create", "a.txt/b.txt", file_text="x")
        with pytest.raises(ToolError):
            await edit("create", ".", file_text="x")


class TestFaultyFiles:
    async def test_F4_a_huge_file_is_shown_in_parts_and_not_edited(self, edit: Edit, workspace: Path):
        line = "0123456789" * 100 + "\n"
        with (workspace / "big.log").open("w") as file:
            file.writelines(f"line {number} {line}" for number in range(1, 11_001))
        text = await edit("view", "big.log", view_range=[10_500, 10_501])
        assert text.startswith("10500\tline 10500 ")
        assert "(lines 10500-10501 of a file of 11," in text
        assert len(await edit("view", "big.log")) <= 32_100
        for command, arguments in (
            ("str_replace", {"old_str": "line 1 "}),
            ("insert", {"insert_line": 1, "new_str": "x"}),
            ("create", {"file_text": "x"}),
        ):
            with pytest.raises(ToolError, match="only files up to 10,000,000"):
                await edit(command, "big.log", **arguments)
        with pytest.raises(ToolError, match="ends before line 99999"):
            await edit("view", "big.log", view_range=[99_999, 100_000])

    async def test_F4_a_sparse_file_is_binary_with_its_size(self, edit: Edit, workspace: Path):
        with (workspace / "sparse").open("wb") as file:
            file.truncate(5_000_000_000)
        assert await edit("view", "sparse") == "sparse is binary, 5,000,000,000 bytes"

    async def test_F5_binary_is_said_with_its_size_and_not_edited(self, edit: Edit, workspace: Path):
        (workspace / "a.zip").write_bytes(b"PK\x03\x04\0\0\xff")
        assert "binary (application/zip, 7 bytes)" in await edit("view", "a.zip")
        with pytest.raises(ToolError, match="is binary \\(7 bytes\\)"):
            await edit("str_replace", "a.zip", old_str="PK", new_str="x")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
    async def test_F5_text_in_any_of_these_encodings_is_shown(self, edit: Edit, workspace: Path, encoding: str):
        (workspace / "a.txt").write_bytes("Größe\r\nélan".encode(encoding))
        assert await edit("view", "a.txt") == "1\tGröße\n2\télan"

    async def test_F7_a_file_that_changed_since_it_was_seen_is_not_edited(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        await edit("view", "a.txt")
        (workspace / "a.txt").write_text("one two")
        for command, arguments in (("str_replace", {"old_str": "one"}), ("insert", {"insert_line": 1, "new_str": "x"})):
            with pytest.raises(ToolError, match="changed on disk since you saw it"):
                await edit(command, "a.txt", **arguments)
        assert (workspace / "a.txt").read_text() == "one two"
        await edit("view", "a.txt")
        await edit("str_replace", "a.txt", old_str="one", new_str="1")
        assert (workspace / "a.txt").read_text() == "1 two"

    async def test_F7_a_file_that_was_never_seen_can_be_edited(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        await edit("str_replace", "a.txt", old_str="one", new_str="two")

    async def test_F8_too_much_text_is_refused(self, edit: Edit, workspace: Path):
        (workspace / "a.txt").write_text("one")
        with pytest.raises(ToolError, match="the limit is 10,000,000"):
            await edit("create", "a.txt", file_text="x" * 10_000_001)
        assert (workspace / "a.txt").read_text() == "one"

    async def test_F8_a_write_that_fails_leaves_the_old_content_and_no_draft(self, workspace: Path):
        (workspace / "a.txt").write_text("one")
        file = WorkspaceFile.at(workspace, "a.txt")
        with pytest.raises(TypeError):
            file.write("not bytes")  # pyright: ignore[reportArgumentType]
        assert [path.read_text() for path in workspace.iterdir()] == ["one"]

    @pytest.mark.parametrize(
        ("start", "mime"), [(b"\x89PNG\r\n\x1a\n\0", "image/png"), (b"\xff\xd8\xff\xe0\0", "image/jpeg")]
    )
    async def test_F11_an_image_is_said_and_shown(self, context: FakeContext, workspace: Path, start: bytes, mime: str):
        (workspace / "picture").write_bytes(start)
        result = await call(context, "view", "picture")
        assert f"picture is an image ({mime}" in result.text
        assert [image.mime for image in result.images] == [mime]

    @pytest.mark.parametrize(
        "path",
        [
            ".git/hooks/pre-commit",
            ".envrc",
            ".vscode/tasks.json",
            ".handloom/config.toml",
            "部分/.git/config",
            ".GIT/hooks/x",
        ],
    )
    async def test_F12_what_other_programs_obey_is_not_written(self, edit: Edit, workspace: Path, path: str):
        with pytest.raises(ToolError, match="protected"):
            await edit("create", path=path, file_text="x")
        assert not (workspace / path).exists()

    async def test_F11_a_pdf_is_said(self, edit: Edit, workspace: Path):
        (workspace / "a.pdf").write_bytes(b"%PDF-1.7\n\0\xff")
        assert "binary (application/pdf" in await edit("view", "a.pdf")


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1")
MARKS = {"utf-16-be": b"\xfe\xff"}
words = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f@#", exclude_categories=("Cc",)),
    max_size=12,
)
endings = st.sampled_from(["\n", "\r\n", "\r"])
files = st.lists(st.tuples(words, endings), max_size=8).map(lambda lines: "".join(word + end for word, end in lines))


def encoded(text: str, encoding: str) -> bytes:
    return MARKS.get(encoding, b"") + text.encode(encoding)


@settings(max_examples=60, deadline=None)
@given(head=files, tail=files, ending=endings, encoding=st.sampled_from(ENCODINGS))
async def test_an_edit_changes_nothing_but_its_place_and_undo_restores_the_bytes(
    head: str, tail: str, ending: str, encoding: str
):
    """Encoding, mark, line endings and the missing last ending stay; `é` keeps Latin-1 files from being UTF-8 by chance."""
    before = encoded(f"{head}é@1{ending}@2{ending}{tail}", encoding)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_bytes(before)
        async with FakeContext(Path(folder)) as context:
            await call(context, "str_replace", "a.txt", old_str="@1\n@2", new_str="#1\n#2\n#3")
            assert path.read_bytes() == encoded(f"{head}é#1{ending}#2{ending}#3{ending}{tail}", encoding)
            await call(context, "undo_edit", "a.txt")
            assert path.read_bytes() == before


@settings(max_examples=60, deadline=None)
@given(before=st.none() | st.binary(max_size=60), texts=st.lists(st.text(max_size=20), min_size=1, max_size=4))
async def test_undoing_all_edits_restores_any_bytes(before: bytes | None, texts: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        if before is not None:
            path.write_bytes(before)
        async with FakeContext(Path(folder)) as context:
            done = 0
            for text in texts:
                try:
                    await call(
                        context,
                        "create" if done % 2 == 0 else "insert",
                        "a.txt",
                        file_text=text,
                        new_str=text,
                        insert_line=0,
                    )
                except ToolError:
                    continue
                done += 1
            for _ in range(done):
                await call(context, "undo_edit", "a.txt")
        assert (path.read_bytes() if path.exists() else None) == before


@settings(max_examples=60, deadline=None)
@given(content=files, new=words, data=st.data())
async def test_insert_adds_its_line_where_it_is_asked_to(content: str, new: str, data: st.DataObject):
    lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    line = data.draw(st.integers(0, len(lines)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_bytes(content.encode())
        async with FakeContext(Path(folder)) as context:
            await call(context, "insert", "a.txt", insert_line=line, new_str=new)
        after = path.read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    assert after == [*lines[:line], new, *lines[line:]]
