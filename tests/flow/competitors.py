"""The surroundings of the example flow on this machine: the pages of three products, and a mail server."""

import json
from pathlib import Path
from typing import Any

from handloom.testing.mail import MailServer
from handloom.testing.site import Site, page

EXAMPLE = Path(__file__).parents[2] / "examples" / "competitor-report.yaml"
PRODUCTS = {
    "Webstuhl": (49, "two shafts, wooden"),
    "Jacquard": (899, "punched cards, automatic"),
    "织机": (120, "foldable, light"),
}
RECEIVER = "boss@example.org"


def site() -> Site:
    return Site(
        {
            f"/{number}.html": page(
                f"<h1>{name}</h1><p>{name} is a loom. It costs {price} dollars.</p><p>Features: {features}.</p>", name
            )
            for number, (name, (price, features)) in enumerate(PRODUCTS.items())
        }
    )


def values(pages: Site) -> dict[str, Any]:
    return {"product": "Handloom", "pages": [f"{pages.url}/{number}.html" for number in range(3)], "to": RECEIVER}


def settings(pages: Site, post: MailServer, home: Path) -> dict[str, str]:
    """The variables that make a process use these surroundings."""
    return {
        "HANDLOOM_HOME": str(home),
        "HANDLOOM_NET__PRIVATE": json.dumps([pages.host]),
        "HANDLOOM_EMAIL__HOST": post.host,
        "HANDLOOM_EMAIL__PORT": str(post.port),
        "HANDLOOM_EMAIL__FROM": "loom@example.org",
        "HANDLOOM_EMAIL__TLS": "none",
    }


def mailed(post: MailServer, at: int = -1) -> str:
    """The report in a message, by default the newest, which went to whom it should."""
    received = post.received[at]
    assert received.receivers == (RECEIVER,)
    (attached,) = received.message.iter_attachments()
    assert attached.get_filename() == "report.md"
    return attached.get_content()
