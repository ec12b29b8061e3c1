"""Parquet files, plain or gzip, with every fault in a sentence."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mphil.errors import DataError
from mphil.tables.delimited import open_bytes


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """The open parquet file; every fault that a damaged one brings to light is a `DataError`."""
    import pyarrow
    from pyarrow import parquet

    with open_bytes(path) as content, _seekable(content) as file:
        try:
            yield parquet.ParquetFile(file, pre_buffer=False, memory_map=False)
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{path}: not a readable parquet file ({reason}); write it again") from error


def column_texts(column: Any) -> list[str]:
    """(n,) the cells of an Arrow column as text, missing ones empty."""
    import pyarrow

    try:
        values = column.cast(pyarrow.string()).to_pylist()
    except pyarrow.ArrowException:  # nested values, bytes that are no text
        values = column.to_pylist()
    return ["" if value is None or value == "nan" else str(value) for value in values]


@contextmanager
def _seekable(content: BinaryIO) -> Iterator[BinaryIO]:
    """Gzip cannot be read from its end, where parquet keeps its index: it is unpacked to a temporary file."""
    if isinstance(content, io.BufferedReader):
        yield content
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(content, unpacked)
        unpacked.seek(0)
        yield unpacked
