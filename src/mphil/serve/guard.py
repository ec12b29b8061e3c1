"""Checks of every connection and request before anything else sees it, and what every answer carries.

A server on this machine can be reached by any page that is open in its browser. Three rules keep those out. The `Host`
must be ours, so that a name that was pointed at this machine later (DNS rebinding) does not help. A request that
changes something must come from our own origin. Bodies must have a content type that a foreign form cannot send.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mphil.limits import (
    HEADER_SECONDS,
    MAX_PEER_CONNECTIONS,
    MAX_PEER_REQUESTS,
    MAX_REQUEST_BYTES,
    MAX_REQUESTS,
    MAX_UPLOAD_BYTES,
)
from mphil.serve.requests import Kind, Pace, Refusal, Shutdown, Waiting, kind_of

LOCAL = ("127.0.0.1", "localhost", "::1")
"""What this machine is called by itself."""

EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen on that stand for all addresses of the machine."""

HEALTH = ("/healthz", "/readyz")
"""Paths that are answered however much is going on."""

UPLOAD = "/api/files"
"""The only path whose body is not JSON."""

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")
SAFE = ("GET", "HEAD", "OPTIONS")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer that does not say otherwise."""


class Guard:
    """Lets requests through that may be answered, and sets the headers of the answers.

    Args:
        app: what is guarded.
        hosts: names and addresses that a request may use for us; one of `EVERYWHERE` lets any address pass, no name.
        shutdown: tells when requests in flight are to be given up.
        queues: who waits already, by what is asked of the model.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] = LOCAL,
        shutdown: Shutdown | None = None,
        queues: Mapping[Kind, Waiting] | None = None,
    ) -> None:
        self.app, self.hosts, self._queues = app, frozenset(host.lower() for host in hosts), queues or {}
        self._shutdown, self._peers = shutdown or Shutdown(), Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, pass on all others."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _complete(message)
            await send(message)

        try:
            headers = Headers(scope=scope)
            check(scope["method"], scope["path"], headers, self.hosts, scope["scheme"])
            if scope["method"] == "POST":
                kind = kind_of(scope["path"], int(headers.get("content-length", 0)))
                if kind is not None and kind in self._queues:
                    self._queues[kind].check()
            with self._place(scope):
                await self._pass_on(scope, receive, send_with_headers)
        except Refusal as refusal:
            if not begun:
                await _refuse(refusal, send_with_headers)

    @contextmanager
    def _place(self, scope: Scope) -> Iterator[None]:
        """Count a request among those that are answered; who asks for our health is always answered.

        Raises:
            Refusal: there are too many.
        """
        if scope["path"] in HEALTH:
            yield
            return
        peer = (scope.get("client") or ("",))[0]
        if self._peers.total() >= MAX_REQUESTS or self._peers[peer] >= MAX_PEER_REQUESTS:
            raise Refusal(503, f"{self._peers.total()} requests are being answered already", "try again in a moment")
        self._peers[peer] += 1
        try:
            yield
        finally:
            self._peers[peer] -= 1
            self._peers += Counter()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered.

        Raises:
            Refusal: its body is late, or the server is being stopped.
        """
        pace = Pace(receive)

        async def send_unless_late(message: Message) -> None:
            if pace.refusal is None:
                await send(message)

        work = asyncio.ensure_future(self.app(scope, pace.receive, send_unless_late))
        end = asyncio.ensure_future(self._shutdown.wait())
        try:
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Shutdown.refusal()
            await work
        finally:
            work.cancel()
            end.cancel()
            await asyncio.gather(work, end, return_exceptions=True)
        if pace.refusal is not None:
            raise pace.refusal


def check(method: str, path: str, headers: Mapping[str, str], hosts: Collection[str], scheme: str = "http") -> None:
    """Look at a request before its body is read.

    Args:
        method: of HTTP.
        path: what is asked for.
        headers: by their names in small letters.
        hosts: what we may be called.
        scheme: by which the request came.

    Raises:
        Refusal: it must not be answered.

    Example:
        >>> check("GET", "/", {"host": "localhost:8000"}, LOCAL)
        >>> check("GET", "/", {"host": "evil.example"}, LOCAL)
        Traceback (most recent call last):
        ...
        mphil.serve.requests.Refusal: this server does not answer for 'evil.example'
    """
    host = headers.get("host", "")
    if not is_ours(host, hosts):
        remedy = "use the address that the server printed, or start it with --allow-host NAME"
        raise Refusal(421, f"this server does not answer for {host[:100]!r}", remedy)
    if method in SAFE:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    foreign = origin is not None and origin.lower() != f"{scheme}://{host}".lower()
    if foreign or site not in ("none", "same-origin"):
        raise Refusal(403, "the request comes from another page", "send it from the server's own page or a program")
    if method == "POST":
        _check_body(path, headers)


def is_ours(host: str, hosts: Collection[str]) -> bool:
    """Whether a Host header names this server; the port does not matter.

    Example:
        >>> [is_ours(host, ("localhost", "::1")) for host in ("LOCALHOST:80", "[::1]:80", "localhost.evil.example", "")]
        [True, True, False, False]
    """
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name = match["address"] or match["name"]
    if name in hosts:
        return True
    return any(wildcard in hosts for wildcard in EVERYWHERE) and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_body(path: str, headers: Mapping[str, str]) -> None:
    upload = path == UPLOAD
    wanted = "application/octet-stream" if upload else "application/json"
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        raise Refusal(415, f"the content type is {given[:100] or 'missing'!r}", f"send the body as {wanted}")
    most, length = MAX_UPLOAD_BYTES if upload else MAX_REQUEST_BYTES, headers.get("content-length")
    if length is None:
        if not upload:
            raise Refusal(411, "the request does not say how long it is", "send a Content-Length")
    elif not length.isascii() or not length.isdigit() or int(length) > most:
        raise too_large(most)


def too_large(most: int) -> Refusal:
    """What is said of a body of more bytes than are taken."""
    remedy = "send less at a time; files of any size are answered by `mphil predict BUNDLE FILE`"
    return Refusal(413, f"the body has more than {most:,} bytes", remedy)


def _complete(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = refusal.body()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    # What is left of the body is not read, so the connection cannot be used again.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


QUEUES = "queues"
"""Under which name the state of the application has who waits, by kind; see `mphil.serve.requests`."""

NEW_SECONDS = 0.5
"""How long a connection is spared that has said nothing, unless its peer has twice as many as it may."""

_ASKED = re.compile(rb"POST (/[a-z/]+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,18})\r\n", re.IGNORECASE)


class Connection(H11Protocol):
    """A connection on which the head of each request has to arrive in time.

    A peer with too many connections loses the oldest one that is not being answered and not quite new. A new connection
    that asks for something that too many wait for is told so after a look at its first lines: to take its request apart
    would cost many times as much, and under an overload nearly all requests end like this.
    """

    _timer: asyncio.TimerHandle | None = None
    _heard = _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) <= MAX_PEER_CONNECTIONS:
            return
        ours = [other for other in self.connections if isinstance(other, Connection) and other.peer == self.peer]
        if len(ours) > MAX_PEER_CONNECTIONS:
            idle = [other for other in ours if other is not self and not other.busy]
            oldest = min(idle, key=lambda other: other.begun, default=self)
            # A crowd is accepted before anything that it sends is read: who came just now has not been slow.
            if self.begun - oldest.begun > NEW_SECONDS or len(ours) > 2 * MAX_PEER_CONNECTIONS:
                oldest.transport.close()
                self.connections.discard(oldest)

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take what arrives; once the head of a request is there, its body has a time of its own."""
        if not self._heard:
            self._heard = True
            self._refuse_if_full(data)
        if self._refused:
            return
        super().data_received(data)
        if self.busy:
            self._stop_waiting()
        elif self._timer is None:
            self._await_head()

    def _refuse_if_full(self, data: bytes) -> None:
        asked, length = _ASKED.match(data), _LENGTH.search(data)
        queues = self.app_state.get(QUEUES, {})
        kind = kind_of(asked[1].decode(), int(length[1])) if asked and length else None
        if kind not in queues:
            return
        try:
            queues[kind].check()
        except Refusal as refusal:
            self._refused = True
            # The rest of the request is still heard, and forgotten: a closed end would answer it with a reset, which
            # can overtake the answer.
            self.transport.write(_rendered(refusal))
            self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self.begun = self.loop.time()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.busy:
            self.transport.close()


def _rendered(refusal: Refusal) -> bytes:
    """The whole answer, on a connection that is not used again."""
    body = refusal.body()
    own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **own}.items())
    return f"HTTP/1.1 {refusal.status} Service Unavailable\r\n{head}\r\n".encode() + body
