"""The example flow on the embedded model, offline: judged by the mail that arrives, within a bounded time."""

import json
from pathlib import Path

import pytest
from competitors import EXAMPLE, PRODUCTS, mailed, settings, site, values

from conftest import Command
from handloom.testing.mail import MailServer

pytestmark = [pytest.mark.model, pytest.mark.timeout(1_800)]

TRIES = 2


def test_the_example_runs_to_the_mail_on_the_embedded_model(
    embedded: Command, model_home: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    with site() as pages, MailServer() as post:
        variables = settings(pages, post, model_home)

        def handloom(folder: Path, *words: str):
            done = embedded(folder, *words, **variables)
            said.append(done.stderr)
            return done

        for number in range(TRIES):
            folder = tmp_path / f"work{number}"
            folder.mkdir()
            given = [word for name, value in values(pages).items() for word in ("-i", f"{name}={_word(value)}")]
            asked = handloom(folder, "flow", "run", str(EXAMPLE), "-m", "local", *given)
            if asked.returncode != 3:
                continue
            assert post.received == [], "nothing is sent before a person has agreed"
            run = handloom(folder, "runs", "list", "-n", "1").stdout.split()[0]
            handloom(folder, "runs", "answer", run, "yes")  # the approval of the step
            assert post.received == [], "the policy asks too, before anything leaves the machine"
            sent = handloom(folder, "runs", "answer", run, "once")
            if sent.returncode == 0 and post.received:
                break
        assert post.received, "\n\n".join(said)
        report = mailed(post)
        assert all(name in report and str(price) in report for name, (price, _) in PRODUCTS.items()), report
        assert "Handloom" in report


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
