"""macOS's profile, as text; it cannot be run elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.sandbox.seatbelt import Rules, _text, profile

RULES = Rules(
    workspace=Path("/Users/ada/工作"),
    read=[Path("/Users/ada/.venv")],
    write=[Path("/private/tmp/scratch/tmp")],
    pipes=Path("/private/tmp/scratch/run"),
    protected=(".git/hooks", ".envrc"),
    home=Path("/Users/ada"),
    net="none",
)


def balanced(text: str) -> bool:
    depth, quoted, escaped = 0, False, False
    for sign in text:
        if escaped:
            escaped = False
        elif quoted and sign == "\\":
            escaped = True
        elif sign == '"':
            quoted = not quoted
        elif not quoted:
            depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0 and not quoted


def test_what_is_not_named_is_denied_and_later_rules_narrow_earlier_ones():
    lines = profile(RULES).splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    write = next(
        n for n, line in enumerate(lines) if line.startswith("(allow file-read* file-write*") and "工作" in line
    )
    deny = next(n for n, line in enumerate(lines) if line.startswith("(deny file-write*") and "工作/.git/hooks" in line)
    assert write < deny
    assert '(deny file-write-unlink (literal "/Users/ada/工作/.git"))' in lines
    assert any('.ssh"' in line and line.startswith("(deny file-read*") for line in lines)


@pytest.mark.parametrize(
    ("net", "words", "missing"),
    [
        ("none", "(deny default)", "network"),
        ("allowlist", '(allow network-outbound (remote ip "localhost:8080"))', "network*"),
        ("full", "(allow network* system-socket)", "8080"),
    ],
)
def test_the_network_is_what_was_asked_for(net, words: str, missing: str):
    text = profile(replace(RULES, net=net, proxy_port=8080))
    assert words in text
    assert missing not in text


def test_nothing_protected_gives_no_empty_rule():
    assert "()" not in profile(replace(RULES, protected=()))
    assert "(deny file-write* )" not in profile(replace(RULES, protected=()))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_no_name_of_a_folder_can_leave_its_string(name: str):
    workspace = Path("/w") / name.replace("/", "").replace("\0", "").lstrip(".")
    text = profile(replace(RULES, workspace=workspace))
    assert balanced(text)
    assert _text(str(workspace)) in text
