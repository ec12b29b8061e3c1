"""A web server on this machine that publishes one file, well or badly."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Publisher:
    """What the server holds, how it behaves and what it was asked.

    Attributes:
        content: the file.
        etag: version it claims, None for a server that does not tell.
        behaviour: answers a request; one of the functions below, or one made by them.
        asked: (path, Range, If-Range) of every request.
        over: set when the test is; whoever keeps a client waiting waits for it.
    """

    content: bytes
    etag: str | None = '"one"'
    behaviour: Callable[[Exchange], None] = field(default=lambda exchange: well(exchange))
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    publisher: ClassVar[Publisher]

    def do_GET(self) -> None:
        publisher = self.publisher
        publisher.asked.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
        publisher.behaviour(self)

    def log_message(self, *args: object) -> None: ...

    @property
    def start(self) -> int:
        """First byte asked for, as an honest server understands it."""
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        fits = self.headers.get("If-Range") in (None, self.publisher.etag)
        return int(match[1]) if match and fits else 0

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        if self.publisher.etag:
            self.send_header("ETag", self.publisher.etag)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def head_of_rest(self, start: int) -> None:
        """Headers that promise the file from `start` to the end."""
        length = len(self.publisher.content)
        rest = {"Content_Range": f"bytes {start}-{length - 1}/{length}"} if start else {}
        self.head(206 if start else 200, Content_Length=length - start, **rest)


@contextmanager
def published(content: bytes, **facts: object) -> Iterator[Publisher]:
    """Run a server while the block lasts."""
    publisher = Publisher(content, **facts)  # type: ignore[arg-type]
    with ThreadingHTTPServer(("127.0.0.1", 0), type("_", (Exchange,), {"publisher": publisher})) as server:
        server.handle_error = lambda *_: None  # a client that hangs up is what many tests are about
        publisher.url = f"http://127.0.0.1:{server.server_port}/file"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield publisher
        finally:
            publisher.over.set()
            server.shutdown()
            thread.join()


def well(exchange: Exchange) -> None:
    """As a good server does."""
    content, start = exchange.publisher.content, exchange.start
    if start and start >= len(content):
        return exchange.head(416, Content_Range=f"bytes */{len(content)}")
    exchange.head_of_rest(start)
    exchange.wfile.write(content[start:])
    return None


def without_ranges(exchange: Exchange) -> None:
    """Sends the whole file, whatever is asked."""
    exchange.head_of_rest(0)
    exchange.wfile.write(exchange.publisher.content)


def wrong_range(exchange: Exchange) -> None:
    """Sends another range than the one asked for, until asked for everything."""
    if not exchange.start:
        return well(exchange)
    exchange.head_of_rest(exchange.start - 1)
    exchange.wfile.write(exchange.publisher.content[exchange.start - 1 :])
    return None


def nameless(exchange: Exchange) -> None:
    """Does not say how long the file is."""
    exchange.head(200)
    exchange.wfile.write(exchange.publisher.content)


def endless(exchange: Exchange) -> None:
    """Does not say how long the file is, and does not end."""
    exchange.head(200)
    while not exchange.publisher.over.is_set():
        exchange.wfile.write(bytes(1000))


def silent(exchange: Exchange) -> None:
    """Takes the request and never answers."""
    exchange.publisher.over.wait()


def cut(after: int) -> Callable[[Exchange], None]:
    """Ends each connection after so many bytes."""

    def behave(exchange: Exchange) -> None:
        start = exchange.start
        exchange.head_of_rest(start)
        exchange.wfile.write(exchange.publisher.content[start : start + after])

    return behave


def stuck(after: int) -> Callable[[Exchange], None]:
    """Begins at the beginning whatever is asked, promises everything, and ends after so many bytes."""

    def behave(exchange: Exchange) -> None:
        exchange.head_of_rest(0)
        exchange.wfile.write(exchange.publisher.content[:after])

    return behave


def held(after: int) -> Callable[[Exchange], None]:
    """Falls silent after so many bytes."""

    def behave(exchange: Exchange) -> None:
        cut(after)(exchange)
        exchange.wfile.flush()
        exchange.publisher.over.wait()

    return behave


def dripping(piece: int, seconds: float) -> Callable[[Exchange], None]:
    """Sends a few bytes at a time, never silent for long."""

    def behave(exchange: Exchange) -> None:
        start = exchange.start
        exchange.head_of_rest(start)
        for at in range(start, len(exchange.publisher.content), piece):
            exchange.wfile.write(exchange.publisher.content[at : at + piece])
            if exchange.publisher.over.wait(seconds):
                return

    return behave


def claiming(length: int) -> Callable[[Exchange], None]:
    """Says that the file has another length than it has."""

    def behave(exchange: Exchange) -> None:
        exchange.head(200, Content_Length=length)
        exchange.wfile.write(exchange.publisher.content)

    return behave


def answering(status: int, **headers: object) -> Callable[[Exchange], None]:
    """Answers with a status and no file."""
    return lambda exchange: exchange.head(status, Content_Length=0, **headers)


def moved(to: str) -> Callable[[Exchange], None]:
    """Sends requests for `/file` to another address; any other address works."""
    away = answering(302, Location=to)
    return lambda exchange: away(exchange) if exchange.path == "/file" else well(exchange)


def in_turn(*behaviours: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    """The first request is answered by the first, and so on; all after the last by a good server."""
    left = list(behaviours)
    return lambda exchange: (left.pop(0) if left else well)(exchange)
