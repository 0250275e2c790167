"""A shell line as its simple commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.policy import commands


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git status -s", [("git", "status", "-s")]),
        ("git log && git diff | head -3", [("git", "log"), ("git", "diff"), ("head", "-3")]),
        ("echo 'a  b' \"c d\" e\\ f", [("echo", "a  b", "c d", "e f")]),
        ("ls  # list", [("ls",)]),
        ("make test 2>&1; echo 完成", [("make", "test"), ("echo", "完成")]),
        ("make 2>/dev/null", [("make",)]),
        ("cat a'b'c", [("cat", "abc")]),
    ],
)
def test_plain_lines_are_read(line: str, words: list[tuple[str, ...]]) -> None:
    assert commands.plain(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "git log $(rm -rf x)",
        "git log `rm -rf x`",
        "git log > ~/.bashrc",
        "git log >> notes",
        "git log <(rm x)",
        "git $X",
        'git "$X"',
        "git *",
        "~/bin/git log",
        "PAGER=rm git log",
        "f() { rm x; }; f",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "for x in *; do rm $x; done",
        "cat <<EOF\nx\nEOF",
        "git log 'unterminated",
        "git log {a,b}",
        "[[ -n x ]] && rm x",
        "git log >& /etc/passwd",
        "! git log",
    ],
)
def test_other_lines_have_no_plain_reading(line: str) -> None:
    assert commands.plain(line) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo hi; sudo rm -rf x", ("rm", "-rf", "x")),
        ("if true; then /bin/rm x; fi", ("rm", "x")),
        ("echo $(rm x)", ("rm", "x")),
        ("f() { rm x; }", ("rm", "x")),
        ("env A=1 nohup rm x &", ("rm", "x")),
        ("timeout 5 rm x", ("rm", "x")),
        ("A=1 rm x > y", ("rm", "x")),
    ],
)
def test_a_command_is_found_wherever_it_stands(line: str, words: tuple[str, ...]) -> None:
    assert words in commands.every(line)


@given(st.text(max_size=60))
def test_no_line_breaks_the_reader(line: str) -> None:
    plain = commands.plain(line.encode("utf-8", "replace").decode())
    assert plain is None or all(isinstance(words, tuple) for words in plain)
    assert isinstance(commands.every(line.encode("utf-8", "replace").decode()), list)


def test_letters_beyond_ascii_are_letters_wherever_they_stand() -> None:
    """The grammar's scanner reads past the end of a table for them, so they are not shown to it."""
    for char in ("é", "中", "\u2028", "\U0001f600", "\U0010ffff"):
        for form in ("{}", "${}", "${{{}}}", "<<{}\n{}", "'{}", "$({})", "{}=1", "[[ {} ]]", "`{}`", "#{}", "%{}~{}"):
            commands.every(form.format(char, char) * 50)
    assert commands.plain("rm 报告.md 'b 😀' \"é\"") == [("rm", "报告.md", "b 😀", "é")]
    assert commands.every("echo $(rm 😀)") == [("echo", "$(rm 😀)"), ("rm", "😀")]
