"""Files of records: one line of JSON a run, appended so that neither a crash nor a second writer can spoil them.

A record is what a run reports (scores, settings, seeds, seconds, versions, machine), the scores of every epoch, the
command that repeats it, and what the lab knows of it: cell, setting, suite, row, budget, selection.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mphil.files import lock, sync_folder
from mphil.provenance import NUMERICS

Record = dict[str, Any]
_ALWAYS = ("cell", "setting", "suite", "row", "benchmark", "method", "seed", "budget", "versions", "command")
_RUN = ("metric", "selections", "last", "seconds", "config", "data_digest", "split_digest")
NEEDED = {"run": (*_ALWAYS, *_RUN), "refused": (*_ALWAYS, "reason"), "failed": (*_ALWAYS, "error")}
"""What a record of each kind cannot do without."""
FAILED = ".failed.jsonl"
FORMAT = 2
"""Of a line that ends with a checksum; lines of before have neither."""
_CHECKSUM = re.compile(rb', "sha256": "([0-9a-f]{64})"}$')
_LOG = logging.getLogger(__name__)


class RecordFile:
    """A file of records.

    Args:
        path: a `.jsonl` file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record, *, once: bool = True) -> bool:
        """Add a record for good, unless the cell has one.

        When this returns the record is on disk; when it raises, the file is as it was before.

        Args:
            record: what to add.
            once: leave the file alone if it has a record of the same cell.

        Returns:
            Whether it was added.
        """
        line = render(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as handle:
            size = self._mend(handle)
            if once and record["cell"] in self.cells():
                return False
            try:
                written = os.write(handle, line)
                if written < len(line):
                    raise OSError(28, os.strerror(28), str(self.path))
                os.fsync(handle)
            except OSError as error:
                os.ftruncate(handle, size)
                raise OSError(error.errno, error.strerror, str(self.path)) from error
        if not size:
            sync_folder(self.path.parent)
        return True

    def read(self) -> tuple[list[Record], list[str]]:
        """The records of the present numerics, and a sentence about all that is left out."""
        records, problems = [], []
        others: Counter[int] = Counter()
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return [], []
        for number, line in enumerate(lines, start=1):
            try:
                record = parse(line)
            except ValueError as error:
                problems.append(f"{self.path.name}:{number}: not a record ({error}); the line is left out")
                continue
            if record["numerics"] == NUMERICS:
                records.append(record)
            else:
                others[record["numerics"]] += 1
        if others:
            told = (_counted(count, numerics) for numerics, count in sorted(others.items()))
            problems.append(f"{self.path.name}: {', '.join(told)} left out; this is numerics {NUMERICS}")
        return records, problems

    def cells(self) -> set[str]:
        """The cells that have a record here."""
        return {record["cell"] for record in self.read()[0]}

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open for reading and appending, held by this process; a killed holder holds nothing."""
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            lock(handle)
            yield handle
        finally:
            os.close(handle)

    def _mend(self, handle: int) -> int:
        """End the last line, or take it away if its writer was stopped inside it; returns the size of the file."""
        content = self.path.read_bytes()
        kept = content[: content.rfind(b"\n") + 1]
        if len(kept) == len(content):
            return len(content)
        try:
            parse(content[len(kept) :])
        except ValueError:
            _LOG.warning("%s: the last line was torn, %d bytes are removed", self.path, len(content) - len(kept))
            os.ftruncate(handle, len(kept))
            return len(kept)
        os.write(handle, b"\n")
        return len(content) + 1


def render(record: Record) -> bytes:
    """The line of a record, which ends with a checksum of all that stands before it."""
    body = json.dumps({**record, "format": FORMAT}, allow_nan=False).encode()
    return body[:-1] + f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


def parse(line: bytes) -> Record:
    """A record from its line.

    Raises:
        ValueError: it is broken or lacks something; the message says what.
    """
    line = line.rstrip(b"\n")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"broken JSON: {line[:40].decode(errors='replace')!r}") from None
    _check_whole(line, record)
    if not isinstance(record, dict) or record.get("kind") not in NEEDED:
        raise ValueError(f"it has none of the kinds {', '.join(NEEDED)}")
    missing = [key for key in NEEDED[record["kind"]] if key not in record]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    if record["kind"] == "run":
        _check_scores(record)
    if type(record.setdefault("numerics", 0)) is not int:
        raise ValueError(f"{str(record['numerics'])[:40]!r} is no version of the numerics")
    return record


def _check_whole(line: bytes, record: Any) -> None:
    """Compare a line with its checksum, and take format and checksum out of the record."""
    if not isinstance(record, dict) or not record.keys() & {"format", "sha256"}:
        return
    found = _CHECKSUM.search(line)
    body = line[: found.start()] + b"}" if found else line
    if found is None or record.get("format") != FORMAT or hashlib.sha256(body).hexdigest().encode() != found[1]:
        raise ValueError("it does not match its checksum")
    del record["format"], record["sha256"]


def _counted(count: int, numerics: int) -> str:
    """`2 records of numerics 0 (before they had a number)`."""
    remark = "" if numerics else " (before they had a number)"
    return f"{count:,} record{'s' if count != 1 else ''} of numerics {numerics}{remark}"


def _check_scores(record: Record) -> None:
    """Every score is a number or absent, at the chosen epochs and at the last one."""
    try:
        epochs = [*record["selections"].values(), record["last"]]
        values = [value for epoch in epochs for value in epoch["scores"].values()]
    except (TypeError, AttributeError, KeyError):
        raise ValueError("its selections, or its last epoch, have no scores") from None
    for value in values:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{str(value)[:40]!r} is no score")


def read_folder(folder: Path) -> tuple[list[Record], list[str]]:
    """All records of the suites in a folder, each cell once, and a sentence about everything left out.

    Records of other numerics are left out. Files that are not the lab's (of speed, say) are passed over.
    """
    found: dict[str, Record] = {}
    problems = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.name.endswith(FAILED) or not is_ours(path):
            continue
        records, broken = RecordFile(path).read()
        problems += broken
        for record in records:
            if record["cell"] not in found:
                found[record["cell"]] = record
            else:
                agree = "agree" if scores(record) == scores(found[record["cell"]]) else "disagree"
                problems.append(f"{path.name}: cell {record['cell']} has two records that {agree}; the first is taken")
    return list(found.values()), problems


def is_ours(path: Path) -> bool:
    """Whether a file holds records of the lab, by its first line that can be read at all."""
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        return isinstance(record, dict) and "kind" in record
    return True


def scores(record: Record) -> Any:
    """What must agree between two records of one cell."""
    return record.get("selections", record.get("reason"))
