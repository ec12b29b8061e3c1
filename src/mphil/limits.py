"""Every limit in one place: what lies beyond is refused with a message, never tried."""

from __future__ import annotations

MAX_SMILES_LENGTH = 4_000
"""Characters of a SMILES; the longest of the HIV set has 580."""

MAX_ATOMS = 1_000
"""Atoms of a molecule, without the hydrogens that belong to other atoms; the largest of the HIV set has 222."""

MAX_CHARGE = 15
"""Formal charge of an atom, either sign: RDKit keeps charges in a signed byte and wraps what does not fit."""

MAX_DOWNLOAD_BYTES = 2 * 1024**3
"""Bytes of a download whose size is not known beforehand."""

MAX_REDIRECTS = 5
"""How often a download may be sent to another address."""

WORKER_SECONDS = 30.0
ROW_SECONDS = 0.1
"""A process that reads molecules is given up after this time and so much more for every row it was asked to read."""
