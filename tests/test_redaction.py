"""Secrets do not show themselves, and known values are taken out in every form."""

import base64
import copy
import json
import logging
import pickle
import subprocess
import sys
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.redaction import LogFilter, Redactor, Secret

VALUE = 'käse/"geheim"+42\n'


def test_a_secret_shows_itself_to_nobody_but_reveal() -> None:
    secret = Secret("hunter2hunter2")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", json.dumps({"k": secret}, default=str)]
    assert all("hunter2" not in text for text in shown)
    assert pickle.loads(pickle.dumps(secret)).reveal() == "***"
    assert copy.deepcopy(secret).reveal() == secret.reveal() == "hunter2hunter2"
    assert (bool(Secret("")), secret == Secret("hunter2hunter2")) == (False, True)
    with pytest.raises(TypeError, match="reveal"):
        list(secret)


@pytest.mark.parametrize("lead", ["", "a", "ab", "abc"])
def test_a_value_is_found_in_each_form(lead: str) -> None:
    redactor = Redactor.of(VALUE)
    raw = (lead + VALUE + "tail").encode()
    forms = [
        VALUE,
        json.dumps({"k": VALUE}),
        json.dumps({"k": VALUE}, ensure_ascii=False),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ]
    for form in forms:
        cleaned = redactor.clean(f"x {form} y")
        assert "***" in cleaned, form
        assert not redactor.finds(cleaned)
        assert json.loads(redactor.clean_json(json.dumps({"t": form}).encode()))["t"].count("***") >= 1


@given(st.text(min_size=8, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_value_survives_in_json(value: str, before: str, after: str) -> None:
    value = value.encode("utf-8", "replace").decode()
    data = json.dumps({"a": before + value + after}).encode()
    assert value not in json.loads(Redactor.of(value).clean_json(data))["a"] or value in "***"


def test_values_come_from_names_and_from_dotenv() -> None:
    redactor = Redactor.of(
        Secret("given-secret"),
        environment={
            "MY_API_KEY": "from-the-env",
            "HOME": "/home/somebody",
            "GITHUB_TOKEN": "tok",
            "PGPASSWORD": "pg-password",
        },
        dotenv="# no\nexport A_TOKEN=dotenv-value\nDB_PASS='quoted value'\nPIN_SECRET=80\n",
    )
    assert redactor.values == {"given-secret", "from-the-env", "pg-password", "dotenv-value", "quoted value"}


def test_ordinary_values_of_a_dotenv_are_no_secrets() -> None:
    lines = (
        "NODE_ENV=production",
        "DB_USER=postgres",
        "BASE=http://localhost:8000/@scope",
        "PAGE=https://example.org/?page=2#a:b@c",
        "LOG=/var/log/app.log",
        "COMPASS=north-north-east",
        "PWD=/home/somebody",
    )
    assert Redactor.of(dotenv="\n".join(lines)).values == frozenset()


def test_a_comment_behind_a_value_of_a_dotenv_is_no_part_of_it() -> None:
    lines = "A_KEY=bare-value # of Ann\nB_KEY='quoted # value' # of Bob's\nC_KEY=with#sign\nD_KEY='open-quote\nE_KEY= # yours\n"
    assert Redactor.of(dotenv=lines).values == {"bare-value", "quoted # value", "with#sign", "'open-quote"}


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        ("postgres://app:s3cret-pw@db/x", {"postgres://app:s3cret-pw@db/x", "s3cret-pw"}),
        ("redis://:s3cret%2Dpw@db:6379", {"redis://:s3cret%2Dpw@db:6379", "s3cret%2Dpw", "s3cret-pw"}),
        ("postgresql+asyncpg://postgres:postgres@db", {"postgresql+asyncpg://postgres:postgres@db"}),
        ("https://example.org/hook?v=1&access_token=abc", {"https://example.org/hook?v=1&access_token=abc"}),
        ("host=db user=app password=s3cret", {"host=db user=app password=s3cret"}),
        ("ghp_abcdefghijklmnopqrst12", {"ghp_abcdefghijklmnopqrst12"}),
    ],
)
def test_a_value_of_a_dotenv_can_show_itself_that_it_is_secret(value: str, secrets: set[str]) -> None:
    assert Redactor.of(dotenv=f"THING={value}\n").values == secrets


@pytest.mark.parametrize("size", [6, 9, 15])
def test_what_a_cut_leaves_of_a_value_goes_too(size: int) -> None:
    value = "hunter2-hunter2!"
    text = f"a {value[:size]}\n[... 99 or more characters left out; read more ...]\n{value[-size:]} b {value[:size]}"
    assert Redactor.of(value).clean_cut(text) == "a ***\n[... 99 or more characters left out; read more ...]\n*** b ***"


def test_nothing_known_changes_nothing() -> None:
    assert Redactor().clean("text") == "text"
    assert Redactor().clean_bytes(b"text") == b"text"


def test_logs_lose_known_values_and_the_shapes_of_keys() -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep()
    handler.addFilter(LogFilter(Redactor.of("known-value-1")))
    log = logging.getLogger("handloom.test_redaction")
    log.addHandler(handler)
    log.propagate = False
    try:
        int("known-value-1 and sk-abcdefghijklmnop1234")
    except ValueError:
        log.exception("failed with %s", "known-value-1")
    log.removeHandler(handler)
    assert "failed with ***" in lines[0]
    assert "'*** and ***'" in lines[0]


def test_what_a_command_logs_loses_them_too() -> None:
    code = (
        "import logging; from handloom.cli.desk import redact_logs; from handloom.redaction import Redactor; "
        "redact_logs(Redactor.of('known-value-1')); logging.getLogger('handloom.x').warning('it is %s', 'known-value-1')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "it is ***\n"
