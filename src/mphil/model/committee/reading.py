"""The features of many molecules, read in several processes."""

from __future__ import annotations

from collections.abc import Sequence

from mphil.errors import DataError
from mphil.model.committee.features import MoleculeFeatures
from mphil.nn.threads import usable_cores
from mphil.progress import row_bar
from mphil.tables.pool import SMALL, run


def read_features(smiles: Sequence[str], *, workers: int | None = None) -> MoleculeFeatures:
    """Features of molecules that were read before.

    Args:
        smiles: canonical spellings.
        workers: processes; 0 works in this one, None chooses by the number of rows and of cores.

    Raises:
        DataError: one of them cannot be read.
    """
    if workers is None and usable_cores() == 1:
        workers = 0
    with row_bar("descriptors", len(smiles), len(smiles) > SMALL) as advance:
        batch = run(list(smiles), {"wanted": ["features"]}, workers=workers, advance=advance)
    if batch.issues:
        raise DataError(f"{batch.issues[0].message}; it was read a moment ago, so try again")
    return MoleculeFeatures.of(batch.arrays)
