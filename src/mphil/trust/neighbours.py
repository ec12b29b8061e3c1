"""The nearest of many: found block by block, so that memory does not grow with the product of the two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mphil.errors import DataError, UsageError
from mphil.nn.fast.library import status
from mphil.trust.values import Floats, as_rows

if TYPE_CHECKING:
    from torch import Tensor

PAIRS = 2**21
"""Similarities held at a time."""
BLOCK = 8192
"""References whose bits numpy transposes at a time: 16 MB."""
FEW = 128
"""Up to so many queries, counting the bits of pairs is quicker in numpy than transposing those of all references."""
PAYS = 3
"""From so many queries on, the compiled loop, which transposes too, is quicker than counting pairs."""

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def cosine_to_nearest(embeddings: ArrayLike | Tensor, references: ArrayLike | Tensor, neighbours: int) -> Floats:
    """Cosine between each row of (n, p) and the `neighbours`-th most similar of the references (m, p).

    With fewer references it is the least similar one. A row of zeros has no direction: its cosines are 0.
    """
    if neighbours < 1:
        raise UsageError(f"neighbours must be 1 or more, not {neighbours}")
    points, known = as_rows(embeddings, None, "embeddings"), as_rows(references, None, "references")
    if not len(known):
        raise DataError("there is no reference to compare with; give the embeddings of training graphs")
    if points.shape[1] != known.shape[1]:
        raise DataError(f"embeddings have {points.shape[1]} columns, the references {known.shape[1]}")
    points, columns = _unit(points).astype(np.float32), _unit(known).astype(np.float32).T
    place = max(0, len(known) - neighbours)
    step = max(1, PAIRS // len(known))
    found = np.empty(len(points))
    for first in range(0, len(points), step):
        similarity = points[first : first + step] @ columns
        found[first : first + step] = np.partition(similarity, place, axis=1)[:, place]
    return found


def most_similar(fingerprints: Bytes, references: Bytes) -> tuple[NDArray[np.int64], Floats]:
    r"""The nearest reference of each row by Tanimoto similarity :math:`|a \cap b| / |a \cup b|`, the first of equals.

    Args:
        fingerprints: (n, bytes) packed bits.
        references: (m, bytes) packed bits, m > 0.

    Returns:
        (n,) row of the reference, and (n,) its similarity, 0 when neither has any bit.

    Example:
        >>> bits = np.array([[0b0011], [0b0111]], np.uint8)
        >>> [found.tolist() for found in most_similar(bits, np.array([[0b1000], [0b0001]], np.uint8))]
        [[1, 1], [0.5, 0.3333333333333333]]
    """
    _check_bits(fingerprints, references)
    found = _compiled(_words(fingerprints), _words(references)) if len(fingerprints) >= PAYS else None
    return found or _counted(fingerprints, references)


def _compiled(rows: Words, references: Words) -> tuple[NDArray[np.int64], Floats] | None:
    """The answer of the compiled loop; None when there is none, or no memory for it."""
    library = status().library
    if library is None:
        return None
    index, best = np.empty(len(rows), np.int64), np.empty(len(rows))
    refused = library.nearest(
        index=index,
        best=best,
        rows=rows,
        references=references,
        n=len(rows),
        m=len(references),
        words=rows.shape[1],
    )
    return None if refused else (index, best)


def _counted(fingerprints: Bytes, references: Bytes) -> tuple[NDArray[np.int64], Floats]:
    """The same in numpy."""
    sizes, known_sizes = (np.bitwise_count(rows).sum(1, dtype=np.int64) for rows in (fingerprints, references))
    index, best = np.zeros(len(fingerprints), np.int64), np.full(len(fingerprints), -1.0)
    count = _count_pairs if len(fingerprints) <= FEW else _count_planes
    for first in range(0, len(references), BLOCK):
        block, block_sizes = references[first : first + BLOCK], known_sizes[first : first + BLOCK]
        for row, common in enumerate(count(fingerprints, block)):
            either = sizes[row] + block_sizes - common
            similarity = common / np.maximum(either, 1)
            place = similarity.argmax()
            if similarity[place] > best[row]:
                index[row], best[row] = first + place, similarity[place]
    return index, best


def _count_pairs(fingerprints: Bytes, block: Bytes) -> Iterator[NDArray[np.int64]]:
    """Common bits of each row with every reference of the block, by counting those of the pairs."""
    words = _words(block)
    for row in _words(fingerprints):
        yield np.bitwise_count(row & words).sum(1, dtype=np.int64)


def _count_planes(fingerprints: Bytes, block: Bytes) -> Iterator[NDArray[np.int64]]:
    """The same, by adding up the columns of the bits that a row has: ten times quicker once they are transposed."""
    planes = np.ascontiguousarray(np.unpackbits(block, axis=1).T)
    for row in fingerprints:
        bits = np.flatnonzero(np.unpackbits(row))
        # Sums of bytes are quickest, and right while there are fewer than 256 of them.
        yield planes[bits].sum(0, dtype=np.uint8 if len(bits) < 256 else np.int64).astype(np.int64)


def _words(rows: Bytes) -> Words:
    """The same bits, eight bytes at a time."""
    missing = -rows.shape[1] % 8
    padded = np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
    return padded.view(np.uint64)


def _check_bits(fingerprints: Bytes, references: Bytes) -> None:
    for what, rows in (("fingerprints", fingerprints), ("references", references)):
        if rows.ndim != 2 or rows.dtype != np.uint8:
            raise DataError(f"{what} are {rows.dtype} of shape {rows.shape}, not packed bytes of shape (rows, bytes)")
    if fingerprints.shape[1] != references.shape[1]:
        raise DataError(f"fingerprints have {fingerprints.shape[1]} bytes, the references {references.shape[1]}")
    if not len(references):
        raise DataError("there is no reference to compare with; give the fingerprints of training molecules")


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = rows / np.where(length > 0, length, 1.0)
    return unit


ASKED = 300
"""Test molecules whose nearest training molecule is looked for, evenly spaced when there are more."""

HARDLY = 0.05
"""A smaller difference of the medians makes a split hardly harder than a random one."""


def similarity_to_training(fingerprints: Bytes, train: NDArray[np.int64], test: NDArray[np.int64]) -> float | None:
    """Median Tanimoto similarity of test molecules to their nearest training molecule; None when a part is empty.

    Args:
        fingerprints: (n, bytes) packed bits of all molecules.
        train: positions of the training molecules.
        test: positions of the test molecules.

    Example:
        >>> bits = np.array([[0b1100], [0b1111], [0b0011]], np.uint8)
        >>> similarity_to_training(bits, np.array([0]), np.array([1, 2]))
        0.25
    """
    if not len(train) or not len(test):
        return None
    asked = test[np.linspace(0, len(test) - 1, min(len(test), ASKED)).astype(np.int64)]
    return float(np.median(most_similar(fingerprints[asked], fingerprints[train])[1]))


def hardness(similarity: Mapping[str, float | None]) -> str:
    """What the similarities of the test parts say about a split, in a sentence; empty when they are not known.

    Args:
        similarity: `id_test` and `ood_test` to the median similarity of their molecules to training.

    Example:
        >>> hardness({"id_test": 0.62, "ood_test": 0.60})
        'nearly random here: OOD test is as similar to training (0.60) as ID test (0.62)'
    """
    inside, outside = similarity.get("id_test"), similarity.get("ood_test")
    if inside is None or outside is None:
        return ""
    if outside > inside - HARDLY:
        return f"nearly random here: OOD test is as similar to training ({outside:.2f}) as ID test ({inside:.2f})"
    return f"OOD test is less similar to training ({outside:.2f}) than ID test ({inside:.2f})"
