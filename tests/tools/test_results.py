"""Text of tools, made ready for a model."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.tools.results import clean, cut


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended\nthe rest stays\n", "\nthe rest stays\n"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("nul\x00 bell\x07", "nul bell"),
        ("\u202eright\u202c to left\u2066", "right to left"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("family 👨‍👩‍👧 stays", "family 👨‍👩‍👧 stays"),
        ("中文 и кириллица", "中文 и кириллица"),
        ("lone \ud83d half", "lone ? half"),
    ],
)
def test_what_cannot_be_seen_is_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text(st.characters(codec=None)))
def test_clean_text_is_utf8_without_controls(text: str) -> None:
    once = clean(text)
    assert once.encode().decode() == once
    assert not any(ord(mark) < 32 and mark not in "\n\t" for mark in once)


def test_cleaning_a_long_line_takes_time_in_proportion_to_its_length() -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        clean("x" * size)
        return time.process_time() - started

    seconds(1_000_000)
    assert seconds(4_000_000) < 40 * max(seconds(400_000), 1e-3), "ten times the text, not a hundred times the time"


@given(st.text(min_size=0, max_size=2_000), st.integers(200, 1_000))
def test_a_cut_text_keeps_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    if len(text) > limit:
        assert short.startswith(text[:50])
        assert short.endswith(text[-20:])
        assert "characters left out" in short
