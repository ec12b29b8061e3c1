"""Clients that ask a server faster than it can answer, in a process of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

PATIENCE = 60.0
MOST_OPEN = 150
"""Connections at a time; a server closes the oldest of more than 200."""


class Asked(NamedTuple):
    """A request: what was asked for, the status (0: the connection was closed), seconds, and a digest of the body."""

    kind: str
    status: int
    seconds: float
    digest: str


def request_of(kind: str, smiles: list[str]) -> bytes:
    body = json.dumps({"smiles": smiles}).encode()
    head = f"POST /api/{kind} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(port: int, kind: str, smiles: list[str]) -> Asked:
    begun = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_of(kind, smiles))
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
            writer.close()
            status = int(head.split()[1]) if head else 0
    except OSError:
        status, body = 0, b""
    return Asked(kind, status, time.monotonic() - begun, hashlib.sha256(body).hexdigest())


async def overload(port: int, rate: float, seconds: float, share: float, smiles: list[str]) -> list[Asked]:
    """Ask at a steady rate, whatever comes back; a share of the requests wants explanations."""
    rng, begun, tasks, found = random.Random(0), time.monotonic(), set(), []
    number = 0
    while (now := time.monotonic() - begun) < seconds:
        while number < now * rate and len(tasks) < MOST_OPEN:
            kind = "explain" if rng.random() < share else "predict"
            task = asyncio.ensure_future(ask(port, kind, smiles))
            tasks.add(task)
            task.add_done_callback(lambda task: (tasks.discard(task), found.append(task.result())))
            number += 1
        number = max(number, int(now * rate) - MOST_OPEN)  # who finds no free connection gives up
        await asyncio.sleep(0.005)
    while tasks:
        await asyncio.sleep(0.01)
    return found


async def vanish(port: int, number: int) -> int:
    """Connect and leave: at once, within the head, within the body, or before the answer; some stay for a moment."""
    whole = request_of("predict", ["CCO"])
    places = (0, 20, len(whole) - 10, len(whole))
    gone = 0
    for index in range(number):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[: places[index % 4]])
        await writer.drain()
        if index % 16 == 3:
            await asyncio.sleep(0.01)
        (writer.transport.abort if index % 2 else writer.close)()
        gone += 1
    return gone


@contextmanager
def second_process(work, *arguments) -> Iterator[multiprocessing.Queue]:
    """Runs `asyncio.run(work(*arguments))` in another process; its result comes through the queue."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(asyncio.run(work(*arguments))))
    process.start()
    try:
        yield queue
    finally:
        process.kill()
        process.join()
