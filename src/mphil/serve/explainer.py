"""Answers from a process of their own, which can be ended: a molecule that takes too long costs its request only.

This is the side of the server; `mphil.serve.explaining` is the process. Short predictions, long ones and explanations
have one each, so that none waits for another kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from contextlib import AbstractAsyncContextManager, suppress

from mphil.model.bundle import write_bundle
from mphil.model.predictor import Predictor
from mphil.serve.requests import Kind, Refusal, Waiting
from mphil.serve.results import Scratch
from mphil.serve.service import TRIAL

REQUEST = struct.Struct("<Q")
ANSWER = struct.Struct("<HQ")
"""Lengths of a request and of an answer, the latter behind its HTTP status."""


START_SECONDS = 600.0
"""How long a process may take to load the model before another one takes its place."""

LINGER_SECONDS = 1.0
"""How long work goes on that nobody waits for any more. To start another process takes longer than most answers, so
that clients who leave early would otherwise keep the server from everybody else."""


class Explainer(AbstractAsyncContextManager["Explainer"]):
    """Has molecules predicted or explained, one request after the other.

    Args:
        predictor: the model; the process has a copy.
        kind: what is asked of it.
        waiting: counts those who wait for it.
    """

    def __init__(self, predictor: Predictor, kind: Kind, waiting: Waiting) -> None:
        self._predictor, self._kind, self._waiting = predictor, kind, waiting
        self._folder = Scratch()
        self._turn = asyncio.Lock()
        self._closed = False
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._working: set[asyncio.Task[bytes]] = set()

    async def warm_up(self) -> None:
        """Answer once, so that the first visitor does not wait for the process."""
        await self.ask([TRIAL])

    async def ask(self, smiles: list[str], target: str | None = None) -> bytes:
        """The JSON text of a `PredictResponse` or an `ExplainResponse`.

        When the caller stops waiting for it the process is ended, unless it has finished a moment later.

        Raises:
            Refusal: too many requests are waiting, or this one cannot be answered.
            RuntimeError: a fault of the process.
        """
        with self._waiting.place():
            await self._turn.acquire()
            work = asyncio.ensure_future(self._in_turn(json.dumps({"smiles": smiles, "target": target}).encode()))
            self._working.add(work)
            work.add_done_callback(self._working.discard)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(LINGER_SECONDS, work.cancel)
                raise

    async def _in_turn(self, request: bytes) -> bytes:
        try:
            return await self._ask(request)
        finally:
            self._turn.release()

    async def _ask(self, request: bytes) -> bytes:
        try:
            # A start is nobody's alone: who stops waiting for it does not end it, or a busy machine never got through.
            process = await asyncio.shield(self._begin())
        except (asyncio.IncompleteReadError, OSError):
            await self._end()
            raise self._lost() from None
        try:
            assert process.stdin is not None
            with self._waiting.work():
                process.stdin.write(REQUEST.pack(len(request)) + request)
                status, body = await _answer(process)
        except (asyncio.IncompleteReadError, OSError):
            await self._renew()
            raise self._lost() from None
        except BaseException:
            await self._renew()
            raise
        if status == 500:
            raise RuntimeError(f"{self._kind} failed in another process:\n{body.decode()}")
        if status != 200:
            raise Refusal(status, **json.loads(body))
        return body

    def _lost(self) -> Refusal:
        return Refusal(503, "the process that worked on it was lost", "ask again")

    def _begin(self) -> asyncio.Task[asyncio.subprocess.Process]:
        """Start a process, unless there is one."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(lambda start: start.cancelled() or start.exception())
        return self._starting

    async def _start(self) -> asyncio.subprocess.Process:
        """A process that has said that it is ready."""
        folder = self._folder.path / "bundle"
        if not folder.exists():
            await asyncio.to_thread(write_bundle, folder, self._predictor.bundle)
        options = [str(folder), str(self._predictor.batch_size), self._predictor.device, self._kind]
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "mphil.serve.explaining", *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            # Ctrl-C in a terminal is meant for the server, which then ends this process.
            start_new_session=True,
        )
        async with asyncio.timeout(START_SECONDS):
            await _answer(self._process)
        return self._process

    async def _renew(self) -> None:
        """Put another process in the place of one that is lost, or busy with what nobody wants any more."""
        await self._end()
        if not self._closed:
            self._begin()

    async def _end(self) -> None:
        process, self._process = self._process, None
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def __aexit__(self, *exception: object) -> None:
        self._closed = True
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._end()
        self._folder.close()


async def _answer(process: asyncio.subprocess.Process) -> tuple[int, bytes]:
    assert process.stdout is not None
    status, length = ANSWER.unpack(await process.stdout.readexactly(ANSWER.size))
    return status, await process.stdout.readexactly(length)
