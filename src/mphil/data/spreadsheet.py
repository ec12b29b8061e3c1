"""Cells that a spreadsheet program would run instead of showing them."""

from __future__ import annotations

from mphil.data.labels import as_number

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SIGNS = ("+", "-")


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet may take a cell of a CSV file for a formula; a number or a lone sign is none.

    Example:
        >>> [is_formula(cell) for cell in ("=1+1", "-1.5", "-", "@SUM(A1)", "C=O")]
        [True, False, False, True, False]
    """
    return cell.startswith(_STARTS) and cell not in _SIGNS and as_number(cell) is None


def harmless(cell: str) -> str:
    """The cell, behind an apostrophe if it could be taken for a formula."""
    return f"'{cell}" if is_formula(cell) else cell
