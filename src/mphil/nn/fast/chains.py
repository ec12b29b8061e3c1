"""Products of our own with the bits of the BLAS of torch, where a comparison with it finds them."""

from __future__ import annotations

import functools
from itertools import product as combinations

import torch
from torch import Tensor

from mphil.nn.fast.library import PRECISIONS, kernels, products_pay, status
from mphil.nn.threads import one_thread

LEAST_ROWS, LEAST_COLUMNS = 4, 12
"""A BLAS has other loops for fewer, which add in other orders."""
WORTHWHILE = 1 << 19
"""Multiplications from which on a call of ours is not slower than one of a BLAS."""
LEAST_WIDTH = 128
"""Columns of a result from which on it pays to leave out zeros: fewer sums wait for each other."""
DEPTHS = (1, 7, 128, 191, 192, 193, 250, 301, 383, 384, 385, 600, 1000)
"""Compared with the BLAS: it cuts sums of different lengths in different ways."""
SMALL = ((4, 65), (19, 12), (31, 40))
LARGE = ((300, 300, 160), (130, 1000, 130))
"""Rows and columns that are compared at each of these depths; rows, depth and columns that are compared besides."""


def chained(left: Tensor, right: Tensor) -> bool:
    """Whether a product is one for `chained_product`: a call of ours pays, and the bits are those of torch."""
    if kernels(left) is None:  # first, since who traces a model knows no sizes
        return False
    rows, depth, columns = *left.shape, right.shape[1]
    fits = depth == len(right) and left.dtype == right.dtype == torch.float32
    many = rows >= LEAST_ROWS and columns >= LEAST_COLUMNS and rows * depth * columns >= WORTHWHILE
    return fits and many and why_not() is None


def chained_product(
    out: Tensor, left: Tensor, right: Tensor, bias: Tensor | None = None, *, zeros: bool = False
) -> Tensor:
    """The product of two matrices, plus `bias` in every row, written to `out`, of which a row is contiguous.

    With `zeros`, as many of `left` has that came out of a ReLU, these are left out where that pays.
    """
    if kernels(left).chained_product(  # type: ignore[union-attr]
        out=out,
        a=left,
        b=right,
        bias=None if bias is None else bias.contiguous(),
        out_stride=out.stride(0),
        row=left.stride(0),
        step=left.stride(1),
        down=right.stride(0),
        column=right.stride(1),
        rows=left.shape[0],
        depth=left.shape[1],
        columns=right.shape[1],
        zeros=zeros and right.shape[1] >= LEAST_WIDTH,
    ):
        raise MemoryError("no room for the panels of a product")
    return out


def why_not() -> str | None:
    """Why our products do not replace those of the BLAS, or None where they do; compared once in a process."""
    library = status(PRECISIONS[torch.float32]).library
    if library is None:
        return "there are no compiled loops"
    if not library.chains_pay():
        return "ours are for processors with AVX-512"
    other = other_bits()
    return None if other is None else f"it gives other bits, for rows, depth and columns of {other}"


@functools.cache
def other_bits() -> tuple[int, int, int] | None:
    """Rows, depth and columns of a product of ours that has not the bits of the BLAS; None if all of them have."""
    draw = torch.Generator().manual_seed(0)
    small = ((rows, depth, columns) for (rows, columns), depth in combinations(SMALL, DEPTHS))
    with one_thread():
        return next((shape for shape in (*small, *LARGE) if not _same_bits(*shape, draw)), None)


def our_products() -> bool:
    """Whether products of our own run, of one kind or the other."""
    return products_pay() or why_not() is None


def products_run() -> str:
    """Which products run, and why, in the words of `mphil doctor`.

    Example:
        >>> products_run().split(",")[0] in ("our own", "the BLAS of torch")
        True
    """
    if products_pay():
        return "our own, which are faster here"
    reason = why_not()
    if reason is None:
        return "our own, which are faster here and have the bits of the BLAS of torch"
    return f"the BLAS of torch, since {reason}"


def _same_bits(rows: int, depth: int, columns: int, draw: torch.Generator) -> bool:
    """Whether our products of random matrices, as they lie in forward and backward passes, are those of the BLAS."""
    left, right = _numbers(rows, depth, draw), _numbers(depth, columns, draw)
    left_transposed, right_transposed = left.T.contiguous().T, right.T.contiguous().T
    bias, out = _numbers(1, columns, draw)[0], torch.empty(rows, columns)
    pairs = [(left, right_transposed, bias, False), (left, right, None, False), (left_transposed, right, None, False)]
    pairs += [(a.relu(), b, c, True) for a, b, c, _ in pairs if columns >= LEAST_WIDTH]
    return all(
        torch.equal(chained_product(out, a, b, c, zeros=zeros), torch.mm(a, b) if c is None else torch.addmm(c, a, b))
        for a, b, c, zeros in pairs
    )


def _numbers(rows: int, columns: int, draw: torch.Generator) -> Tensor:
    return torch.rand(rows, columns, generator=draw).sub_(0.5)
