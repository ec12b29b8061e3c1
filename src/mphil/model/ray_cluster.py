"""Connecting to a Ray cluster, or to one of our own on this machine that ends with us."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mphil.errors import UsageError
from mphil.registry import VARIABLE

STORE_BYTES = 100 * 1024**2
"""Memory for what travels, on a cluster that we start ourselves: records are small."""

KNOCK_SECONDS = 5.0


def import_ray() -> Any:
    """The package, or a sentence that says how to get it."""
    try:
        import ray
    except ImportError:
        raise UsageError("--engine ray needs Ray; install it with `pip install 'mphil[ray]'`") from None
    return ray


def cluster_address(given: str | None) -> str:
    """The address that was given, or that of `RAY_ADDRESS`, or `local`: a cluster of our own."""
    return given or os.environ.get("RAY_ADDRESS") or "local"


@contextmanager
def connected(ray: Any, address: str, jobs: int | None = None) -> Iterator[None]:
    """Connected to the cluster while the block runs.

    Args:
        ray: the package.
        address: what `cluster_address` gave.
        jobs: processors of a cluster of our own; all when not given.

    Raises:
        UsageError: there is no cluster at the address.
    """
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    if address == "local":
        options |= {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    if os.environ.get(VARIABLE):  # the machines of a cluster have an environment of their own
        options["runtime_env"] = {"env_vars": {VARIABLE: os.environ[VARIABLE]}}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would answer SIGTERM by leaving on the spot.
    handler = signal.getsignal(signal.SIGTERM)
    try:
        knock(address)
        ray.init(address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"--address {address}: no Ray cluster that can be used ({reason})") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        ray.shutdown()


def knock(address: str) -> None:
    """Raise `OSError` if nobody answers at `HOST:PORT`; Ray itself would try for several minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()
