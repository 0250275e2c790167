"""Secrets: a value that does not show itself, and the one place that takes known values out of everything that is recorded."""

import base64
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, cast
from urllib.parse import quote, quote_plus, unquote

import msgspec

MASK = "***"
LEFT = 6  # characters of a value at the edge of a cut that are taken for it
_NOTE = re.compile(r"(\n\[\.\.\. [^\n]* \.\.\.\]\n)")
SHORTEST = 8  # characters: a shorter value would black out ordinary words
SHAPED = 4_000  # characters of a value that are searched for the shape of a key
_NAMES = re.compile(
    r"(?i)(key|token|secret|passw(or)?d|passphrase|credential)s?(_|$)|_(pat|dsn|auth|pass|pwd|salt)$|(webhook_url|connection_string)$"
)
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=(.*)")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""")
_COMMENT = re.compile(r"\s#.*")
_URL = re.compile(r"[A-Za-z][\w+.-]*://[^/?#:\s]*:([^/?#\s]+)@")  # its password, as it is written there
_PARAMETERS = re.compile(r"[?&;\s]([\w.-]+)=")  # names within a value: `?token=...`, `host=... password=...`
# Shapes of keys, for logs and a `.env` file: in a result they may well be ordinary text.
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
)


class Secret:
    """A value whose every form but `reveal()` is `***`: repr, str, format, JSON by way of str, pickle and copies."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the one request that needs it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return MASK

    def __format__(self, _spec: str) -> str:
        return MASK

    def __reduce__(self) -> "tuple[type[Secret], tuple[str]]":
        return Secret, (MASK,)

    def __deepcopy__(self, _memo: object) -> "Secret":
        return self

    __copy__ = __deepcopy__

    def __iter__(self) -> NoReturn:
        raise TypeError("a secret is not a sequence; reveal() gives its value")


@dataclass(frozen=True)
class Redactor:
    """Takes known values, and their JSON, URL and base64 forms, out of text. Without values it costs nothing."""

    values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *values: "str | Secret", environment: Mapping[str, str] | None = None, dotenv: str = "") -> "Redactor":
        """The values that are given, those of variables whose names say that they are secret, and those of a `.env` file whose names or looks say so."""
        given = [value.reveal() if isinstance(value, Secret) else value for value in values]
        named = [value for name, value in (environment or {}).items() if _NAMES.search(name)]
        return cls(frozenset(value for value in (*given, *named, *_assigned(dotenv)) if len(value) >= SHORTEST))

    def __or__(self, other: "Redactor") -> "Redactor":
        return Redactor(self.values | other.values)

    def clean(self, text: str) -> str:
        """The text with `***` for each known value."""
        return self._text.sub(MASK, text) if self.finds(text) else text

    def clean_cut(self, text: str) -> str:
        """The same for text of which parts were left out (`[... N left out ...]`): what a cut left of a value at its edges goes too."""
        if not self.values:
            return text
        parts = _NOTE.split(self.clean(text))
        return "".join(part if place % 2 else self._trimmed(part) for place, part in enumerate(parts))

    def _trimmed(self, part: str) -> str:
        for form in self._forms:
            for size in range(min(len(form), len(part) + 1) - 1, LEFT - 1, -1):
                if part.endswith(form[:size]):
                    part = part[:-size] + MASK
                    break
            for size in range(min(len(form), len(part) + 1) - 1, LEFT - 1, -1):
                if part.startswith(form[-size:]):
                    part = MASK + part[size:]
                    break
        return part

    def clean_bytes(self, data: bytes) -> bytes:
        """The same for bytes."""
        return self._bytes.sub(MASK.encode(), data) if self._is_in(data) else data

    def clean_json(self, data: bytes) -> bytes:
        """The same for the strings of a JSON text; the very bytes when nothing was found."""
        if not self._is_in(data):
            return data
        return msgspec.json.encode(self._walked(msgspec.json.decode(data)))

    def _is_in(self, data: bytes) -> bool:
        return any(form in data for form in self._byte_forms)  # much faster than a pattern, and seldom true

    def _walked(self, value: Any) -> Any:
        match value:
            case str():
                return self.clean(value)
            case list():
                return [self._walked(each) for each in cast("list[Any]", value)]
            case dict():
                return {self.clean(key): self._walked(each) for key, each in cast("dict[str, Any]", value).items()}
            case _:
                return value

    def finds(self, text: str) -> bool:
        """Whether a known value is in the text."""
        return any(form in text for form in self._forms)

    @cached_property
    def _forms(self) -> tuple[str, ...]:
        """Longest first, so that a value inside another does not leave the rest of it behind."""
        return tuple(sorted({form for value in self.values for form in _forms(value)}, key=len, reverse=True))

    @cached_property
    def _byte_forms(self) -> tuple[bytes, ...]:
        return tuple(form.encode() for form in self._forms)

    @cached_property
    def _text(self) -> "re.Pattern[str]":
        return re.compile("|".join(map(re.escape, self._forms)))

    @cached_property
    def _bytes(self) -> "re.Pattern[bytes]":
        return re.compile(b"|".join(map(re.escape, self._byte_forms)))


class LogFilter(logging.Filter):
    """For the handlers of logs: known values and whatever has the shape of a key is taken out of each record."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.exc_info:
            text += f"\n{logging.Formatter().formatException(record.exc_info)}"
            record.exc_info, record.exc_text = None, None
        record.msg, record.args = _SHAPES.sub(MASK, self._redactor.clean(text)), ()
        return True


def _assigned(dotenv: str) -> Iterable[str]:
    """The secrets of a `.env` file, which holds ordinary words too: a value goes by its name, by its shape, or by a password in it."""
    for line in dotenv.splitlines():
        if found := _LINE.match(line):
            name, value = found[1], _value(found[2])
            url = _URL.match(value)
            if url or _NAMES.search(name) or _SHAPES.search(value[:SHAPED]) or _has_secret_parameter(value):
                yield value
            if url and not url[1].isalpha():  # of `postgres:postgres` the password is a word, which may stand anywhere
                yield from (url[1], unquote(url[1]))


def _value(text: str) -> str:
    """What stands in quotes or, without them, before a comment."""
    quoted = _QUOTED.match(text.strip())
    return quoted[2] if quoted else _COMMENT.split(text, maxsplit=1)[0].strip()


def _has_secret_parameter(value: str) -> bool:
    return any(_NAMES.search(name) for name in _PARAMETERS.findall(value))


def _forms(value: str) -> set[str]:
    once = _escaped(value)
    escaped = once | {
        form for text in once for form in _escaped(text)
    }  # a result that is JSON stands in a record that is JSON
    urls = {quote(value), quote(value, safe=""), quote_plus(value)}
    return {value, *escaped, *urls, *_base64_forms(value.encode())}


def _escaped(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _base64_forms(data: bytes) -> set[str]:
    """What base64 of any text that holds the value has in it: the characters that the value alone decides, at each of three alignments."""
    forms: set[str] = set()
    for lead in range(3):
        encoded = base64.b64encode(b"\0" * lead + data).decode()
        first = (0, 2, 3)[lead]
        last = len(encoded.rstrip("=")) - (0 if (lead + len(data)) % 3 == 0 else 1)
        if last - first >= SHORTEST:
            forms |= {encoded[first:last], encoded[first:last].translate(_URL_SAFE)}
    return forms


_URL_SAFE: Any = str.maketrans("+/", "-_")
