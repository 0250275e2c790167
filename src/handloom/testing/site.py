"""Site: a web site on loopback for tests of fetching, searching and browsing; it can also behave badly on purpose.

    with Site({"/": page("<a href=/deep>further</a>"), "/deep": page("the answer")}) as site:
        ...
    assert site.paths == ["/", "/deep"]

A value is a `Page`, or a function of the request that gives one. `search_page` answers in SearXNG's form.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came: `query` and `form` hold the last value of each name."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Page:
    """An answer. `pieces` are sent one by one after the body, `pause` seconds apart, without a length."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pieces: Iterable[bytes] = ()
    pause: float = 0.0


Answer = Page | Callable[[Asked], Page]


def page(html: str, title: str = "A page", *, status: int = 200, **headers: str) -> Page:
    """An HTML page; a name such as `set_cookie` is the header Set-Cookie."""
    body = f"<!doctype html><html><head><meta charset=utf-8><title>{title}</title></head><body>{html}</body></html>"
    return raw(body.encode(), HTML, status=status, **headers)


def raw(body: bytes, type: str, *, status: int = 200, **headers: str) -> Page:  # noqa: A002 - the word for it
    """Bytes of a media type."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Page(body=body, status=status, headers={"Content-Type": type, **named})


def redirect(to: str, status: int = 302) -> Page:
    """An answer that sends the reader elsewhere."""
    return Page(status=status, headers={"Location": to})


def search_page(hits: Iterable[tuple[str, str, str]]) -> Answer:
    """What SearXNG answers with `format=json`: those hits (title, url, text) that share a word with the query."""
    listed = list(hits)

    def answer(asked: Asked) -> Page:
        words = {word for word in asked.query.get("q", "").lower().split() if len(word) > 1}
        found = [
            {"title": title, "url": url, "content": text}
            for title, url, text in listed
            if any(word in f"{title} {text}".lower() for word in words)
        ]
        body = {"query": asked.query.get("q", ""), "results": found, "unresponsive_engines": []}
        return raw(json.dumps(body, ensure_ascii=False).encode(), "application/json")

    return answer


class Site:
    """Serves its pages between `with` and its end. `asked` holds each request but those for icons, in order."""

    def __init__(self, pages: Mapping[str, Answer], *, host: str = "127.0.0.1") -> None:
        self.pages = dict(pages)
        self.asked: list[Asked] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site._answer(self)

            do_POST = do_HEAD = do_GET  # noqa: N815 - the names it has there

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
                """Requests are kept, not printed."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._ending = threading.Event()

    @property
    def host(self) -> str:
        """Host and port, as a guard names them."""
        return f"{self._server.server_address[0]}:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [each.path for each in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        with suppress(ConnectionError, ValueError):
            asked = _read(handler)
            if asked.path != "/favicon.ico":
                self.asked.append(asked)
            found = self.pages.get(asked.path) or self.pages.get("*")
            answer = found(asked) if callable(found) else found
            self._send(handler, answer or page("<p>nothing is here</p>", "Not found", status=404))

    def _send(self, handler: BaseHTTPRequestHandler, answer: Page) -> None:
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.pieces:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        else:
            handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(answer.body)
            for piece in answer.pieces:
                if self._ending.is_set():
                    return
                handler.wfile.write(piece)
                handler.wfile.flush()
                time.sleep(answer.pause)


def _read(handler: BaseHTTPRequestHandler) -> Asked:
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    parts = urlsplit(handler.path)
    is_form = "urlencoded" in (handler.headers.get("Content-Type") or "")
    return Asked(
        method=handler.command,
        path=parts.path,
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        form=dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)) if is_form else {},
        headers={name.lower(): value for name, value in handler.headers.items()},
        body=body,
    )
