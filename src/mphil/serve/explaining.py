"""The process that predicts or explains: `python -m mphil.serve.explaining FOLDER BATCH_SIZE DEVICE KIND`.

The folder holds a bundle.

Requests come on its standard input and answers go to its standard output, as JSON text behind its length; the first
answer says that the process is ready. It ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import BinaryIO

from mphil.errors import MphilError
from mphil.model.bundle import read_bundle
from mphil.model.predictor import Predictor
from mphil.registry import load_plugins
from mphil.serve import answers
from mphil.serve.explainer import ANSWER, REQUEST
from mphil.serve.requests import Refusal
from mphil.serve.service import ModelService

READY = b"ready"
NICENESS = {"predict": 2, "predict-long": 5, "explain": 7}
"""How much work gives way to the event loop, which has to turn others away, and long work to short."""


def answer(service: ModelService, request: bytes, kind: str) -> tuple[int, bytes]:
    """HTTP status and body of the answer to one request; a fault of ours travels back as text."""
    try:
        asked = json.loads(request)
        if kind == "explain":
            return 200, answers.explain(service, asked["smiles"], asked["target"]).model_dump_json().encode()
        return 200, answers.predict(service, asked["smiles"]).model_dump_json().encode()
    except Refusal as refusal:
        return refusal.status, refusal.body()
    except MphilError as error:
        return 400, Refusal(400, str(error), "change the request accordingly").body()
    except Exception:
        return 500, traceback.format_exc().encode()


def _send(stream: BinaryIO, status: int, body: bytes) -> None:
    stream.write(ANSWER.pack(status, len(body)) + body)
    stream.flush()


def main(folder: str, batch_size: str, device: str, kind: str) -> None:
    """Answer requests until there are no more."""
    # Whatever other code prints must not get between the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    load_plugins()
    predictor = Predictor(read_bundle(folder), batch_size=int(batch_size), device=device)
    with ModelService(predictor) as service:
        if sys.platform != "win32":
            os.nice(NICENESS[kind])
        _send(out, 200, READY)
        while head := sys.stdin.buffer.read(REQUEST.size):
            (length,) = REQUEST.unpack(head)
            _send(out, *answer(service, sys.stdin.buffer.read(length), kind))


if __name__ == "__main__":
    main(*sys.argv[1:])
