"""Text that a tool made, ready for a model: valid UTF-8, no control sequences, bounded."""

import re

# ECMA-48: CSI sequences, OSC strings ended by BEL or ST (one that is not ends with its line, or it would swallow the rest), and two-character escapes.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]?")
# C0 and C1 controls but tab and newline; bidi controls (UAX 9), zero-width marks but the joiners of emoji and Indic scripts, tag characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """The text as a terminal would leave it, without what cannot be seen; lone surrogates become `?`."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return _INVISIBLE.sub("", text).encode("utf-8", "replace").decode()


def cut(text: str, limit: int, *, where: str = "") -> str:
    """Head and tail of a text that is longer than `limit` characters, with the count left out between them.

    `where` says how to read the rest. The answer is never longer than `limit`, except that the note itself is always whole.
    """
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit:,} or more characters left out{'; ' + where if where else ''} ...]\n"
    room = max(0, limit - len(note))
    head = room * 2 // 3
    tail = room - head
    return text[:head] + note + (text[-tail:] if tail else "")
