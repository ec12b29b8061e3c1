"""Clients that ask a server faster than it can answer, in a process of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import random
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

PATIENCE = 60.0
MOST_OPEN = 150
"""Connections at a time; a server closes the oldest of more than 200."""


class Answer(NamedTuple):
    """What was asked for, the status (0: the connection was closed), and a digest of the body."""

    kind: str
    status: int
    digest: str


Answers = dict[Answer, array]
"""The seconds of all requests with the same answer: numbers, since the process that serves has to hold them."""


def request_of(kind: str, smiles: list[str]) -> bytes:
    body = json.dumps({"smiles": smiles}).encode()
    head = f"POST /api/{kind} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(port: int, kind: str, smiles: list[str]) -> tuple[Answer, float]:
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
    return Answer(kind, status, hashlib.sha256(body).hexdigest()), time.monotonic() - begun


async def overload(port: int, rate: float, seconds: float, share: float, smiles: list[str]) -> Answers:
    """Ask at a steady rate, whatever comes back; a share of the requests wants explanations."""
    rng, begun, tasks = random.Random(0), time.monotonic(), set()
    found: Answers = defaultdict(partial(array, "d"))
    number = 0

    def done(task: asyncio.Task[tuple[Answer, float]]) -> None:
        tasks.discard(task)
        answer, seconds = task.result()
        found[answer].append(seconds)

    while (now := time.monotonic() - begun) < seconds:
        while number < now * rate and len(tasks) < MOST_OPEN:
            kind = "explain" if rng.random() < share else "predict"
            task = asyncio.ensure_future(ask(port, kind, smiles))
            tasks.add(task)
            task.add_done_callback(done)
            number += 1
        number = max(number, int(now * rate) - MOST_OPEN)  # who finds no free connection gives up
        await asyncio.sleep(0.005)
    while tasks:
        await asyncio.sleep(0.01)
    return dict(found)


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
