"""A process that reads batches of SMILES for another one: `python -m mphil.chem.reader_process`.

RDKit is C++ that meets whatever people have in their tables. In a process of its own a molecule that kills or stalls
it costs one row. Requests come on the standard input and answers go to the standard output, as frames of a JSON text
and a NumPy archive, each behind its length; nothing is pickled. The first frame says that the process is ready; it ends
when its input does.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import traceback
from dataclasses import astuple
from typing import Any, BinaryIO

import numpy as np

from mphil.chem.read_rows import Arrays, read_batch

_LENGTHS = struct.Struct("<QQ")


def send(stream: BinaryIO, message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one frame."""
    text, archive = json.dumps(message).encode(), io.BytesIO()
    if arrays:
        np.savez(archive, allow_pickle=False, **arrays)
    stream.write(_LENGTHS.pack(len(text), archive.tell()) + text)
    stream.write(archive.getbuffer())
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], Arrays]:
    """Read one frame.

    Raises:
        EOFError: the stream ended before or inside it.
    """
    length, archive_length = _LENGTHS.unpack(_exactly(stream, _LENGTHS.size))
    message = json.loads(_exactly(stream, length))
    if not archive_length:
        return message, {}
    with np.load(io.BytesIO(_exactly(stream, archive_length)), allow_pickle=False) as archive:
        return message, dict(archive)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def answer(message: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Read a batch; a fault of ours travels back as text."""
    try:
        batch = read_batch(message["smiles"], **message["options"])
    except Exception:
        return {"fault": traceback.format_exc()}, {}
    return {"issues": list(map(astuple, batch.issues))}, batch.arrays


def main() -> None:
    # Whatever C++ code prints must not get between the frames.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    send(answers, {"ready": True})
    while True:
        try:
            message, _ = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, *answer(message))


if __name__ == "__main__":
    main()
