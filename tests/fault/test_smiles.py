"""Thousands of spoilt SMILES: each is read or refused with a code, none ends or stalls the process that reads it."""

from typing import get_args

import numpy as np
import pytest

from mphil.chem.parse import Code
from mphil.tables.pool import run
from tests.mutated import mutated

pytestmark = pytest.mark.promise("hostile molecules")


def read(rows):
    batch = run(rows, {"wanted": ["graph"], "schema": "drugood", "lenient": True}, workers=1)
    refused = {issue.row for issue in batch.issues if issue.status != "partial"}
    assert {issue.status for issue in batch.issues} <= {*get_args(Code), "partial"}
    assert len(batch.arrays["n_nodes"]) == len(rows) - len(refused)
    assert np.isfinite(batch.arrays["x"]).all()
    for row, text in enumerate(rows):
        if row not in refused:
            assert text.isascii()
            assert text.isprintable()
            assert " " not in text
    return batch


def test_two_thousand_mutated_smiles():
    batch = read(mutated(2_000, seed=3))
    # The mutations must reach every kind of fault, and leave some molecules whole.
    codes = {issue.status for issue in batch.issues}
    assert codes >= {"syntax", "aromaticity", "not-ascii", "whitespace", "charge", "query", "control", "too-long"}
    assert len(batch.arrays["n_nodes"]) > 100
