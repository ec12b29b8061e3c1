"""Opening a web address without surprises: http and https only, few redirects, faults sorted by whether they pass."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from mphil.errors import DataError
from mphil.limits import MAX_REDIRECTS

_MOVED = (301, 302, 303, 307, 308)


class Setback(Exception):
    """This attempt failed; the next may not."""


def open_address(url: str, headers: Mapping[str, str], timeout: float) -> HTTPResponse:
    """Open an address for reading.

    Redirects are followed here because urllib reads their bodies without limit, and follows them to ftp.

    Args:
        url: http or https; redirects stay within these two, and never leave https.
        headers: what to send along.
        timeout: seconds the server may be silent.

    Raises:
        Setback: the network failed in a way that may pass.
        HTTPError: the server answered with an error.
        DataError: the address cannot be opened, now or later.
    """
    address = _next_address(url, url, url)
    for _ in range(MAX_REDIRECTS + 1):
        try:
            with network(url):
                response: HTTPResponse = _OPENER.open(Request(address, headers=dict(headers)), timeout=timeout)
                return response
        except HTTPError as error:
            if error.code not in _MOVED:
                raise
            with error:
                address = _next_address(url, address, error.headers.get("Location", ""))
    raise DataError(f"cannot download {url}: more than {MAX_REDIRECTS} redirects")


@contextmanager
def network(url: str) -> Iterator[None]:
    """Tell faults of the network that may pass (`Setback`) from those that will not (`DataError`)."""
    try:
        yield
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, (socket.gaierror, ssl.SSLCertVerificationError)):
            raise DataError(f"cannot download {url}: {cause}") from error
        raise Setback(f"the connection failed ({str(cause) or type(cause).__name__})") from error
    except ValueError as error:  # what urllib makes of an address that is none
        raise DataError(f"cannot download {url}: {error}") from error


def _next_address(url: str, address: str, location: str) -> str:
    """Where `location` leads from `address`, if one may go there."""
    with network(url):
        target = urljoin(address, location)
        old, new = urlsplit(address).scheme, urlsplit(target).scheme
    if not location or new not in ("http", "https") or (old, new) == ("https", "http"):
        raise DataError(f"cannot download {url}: {location[:100]!r} is no address to follow from there")
    return target


def _opener() -> OpenerDirector:
    """Knows http and https, directly or through the user's proxy, and nothing else: no files, no ftp, no redirects."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener


_OPENER = _opener()
