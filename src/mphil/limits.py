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

MAX_BUNDLE_TENSOR_BYTES = 4 * 1024**3
"""Bytes of a file of tensors in a bundle."""

MAX_BUNDLE_TEXT_BYTES = 64 * 1024**2
"""Bytes of any other file of a bundle, except for the training molecules unpacked."""

MAX_BUNDLE_SETTINGS_BYTES = 4 * 1024**2
MAX_MANIFEST_BYTES = 64 * 1024
MAX_TENSOR_HEADER_BYTES = 1024**2
"""Bytes of the settings of a bundle, of its manifest, and of the header of a file of tensors."""

MAX_EMBEDDINGS = 20_000
"""Tables of codes in the encoder of a bundle: one for a column of node features, one for a column of edge features in
each layer."""

MAX_NAMES = 10_000
"""Tasks of a bundle, and its classes."""

MAX_REFERENCE_BYTES = 1024**3
"""Bytes of the training molecules of a bundle, unpacked: a small gzip file can hold much."""

MAX_REQUEST_BYTES = 8 * 1024**2
MAX_REQUEST_ROWS = 1_000
MAX_EXPLAINED_ROWS = 20
"""Of a request to the server: its bytes, the molecules it asks about, and those it wants explained."""

MAX_REQUEST_CHARACTERS = 200_000
"""Characters of all molecules of a request together, and so a limit of their atoms and bonds."""

MAX_SHORT_BYTES = 10_000
"""Bytes of a request for predictions that is short: half a second of work at most. Longer ones do not delay it."""

MAX_EXPLAINED_ATOMS = 250
"""Atoms of a molecule that the server explains: each part is hidden in turn, so the work grows with their square."""

MAX_DRAWN_ATOMS = 150
"""Atoms of a molecule that is drawn among others on a page: nobody is answered while RDKit lays them out, which takes
more than in proportion to their number, and in a small picture those of a larger one cannot be told apart."""

REQUEST_SECONDS = 30.0
"""How long the server works on a request before it gives up."""

MAX_UPLOAD_BYTES = 64 * 1024**2
MAX_UNPACKED_BYTES = 512 * 1024**2
MAX_UPLOAD_ROWS = 100_000
"""Of a file sent to the server: its bytes, those it unpacks to, and its rows."""

UPLOAD_SECONDS = 20.0
MIN_BODY_RATE = 10_000
UPLOAD_TOTAL_SECONDS = 1_800.0
"""Time for the body of a request: so much to begin with, a second more for so many bytes, and so much at most."""

HEADER_SECONDS = 10.0
"""Time for the head of a request."""

MAX_REQUESTS = 100
MAX_PEER_REQUESTS = 64
MAX_PEER_CONNECTIONS = 200
"""Requests that are answered at a time, those of one address among them, and its connections."""

MAX_JOBS = 16
"""Files that the server keeps with their answers; the oldest finished one makes room."""

MAX_WAITING_REQUESTS = 32
"""Requests that may wait for the model of the server."""
