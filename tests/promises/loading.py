"""Clients that ask a server faster than it can answer, in a process of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


BRIEF, SLOW, PAUSE = 0.01, 1.0, 0.05
"""Seconds for which clients stay, and between two bytes of those that send slowly."""


async def vanish(port: int, number: int) -> tuple[int, int]:
    """Connect and leave without an answer, many at a time; returns how many left soon, and how many sent slowly."""
    places, slow = asyncio.Semaphore(MOST_OPEN), []

    async def one(index: int) -> None:
        async with places:
            slow.append(await _vanish(port, index))

    await asyncio.gather(*(one(index) for index in range(number)))
    return slow.count(False), slow.count(True)


async def _vanish(port: int, index: int) -> bool:
    """Leave at once, within the head, within the body, before the answer, or after a second of single bytes."""
    whole = request_of("predict", ["CCO"])
    body = whole.index(b"\r\n\r\n") + 4
    told, stays, slow = (
        (0, 0.0, False),
        (20, 0.0, False),
        (20, BRIEF, False),
        (len(whole) - 10, 0.0, False),
        (len(whole), 0.0, False),
        (len(whole), BRIEF, False),
        (20, SLOW, True),
        (body, SLOW, True),
    )[index % 8]
    with suppress(OSError):  # a server may close the oldest of many connections
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[:told])
        await writer.drain()
        for place in range(told, told + round(SLOW / PAUSE) if slow else told):
            writer.write(whole[place : place + 1])
            await asyncio.sleep(PAUSE)
        await asyncio.sleep(0 if slow else stays)
        (writer.transport.abort if index % 3 else writer.close)()
    return slow


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
