"""From a ChEMBL SQLite file to the molecules and values of DrugOOD (Ji et al., 2022, arXiv:2201.09637)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from mphil.chem.parse import parse_smiles
from mphil.errors import DataError
from mphil.graphs.cache import Entry, remember
from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, Assignment, IntArray

FloatArray = npt.NDArray[np.float64]

OOD_SHARES = (0.6, 0.2)
"""Of all rows: training domains, then OOD validation domains; the others are tested on."""
ID_SHARES = (0.6, 0.2)
"""Of the rows of a training domain: `train`, then `id_val`; the others are `id_test`."""
MEDIAN_RANGE = (4.0, 6.0)
FIXED_THRESHOLD = 5.0


def activity_threshold(values: FloatArray) -> float:
    """The pChEMBL value from which on a molecule is active: the upper median when it lies in 4 to 6, else 5.

    Example:
        >>> activity_threshold(np.array([4.2, 4.6, 9.0])), activity_threshold(np.array([7.0, 8.0]))
        (4.6, 5.0)
    """
    median = float(np.sort(values)[len(values) // 2])
    return median if MEDIAN_RANGE[0] <= median <= MEDIAN_RANGE[1] else FIXED_THRESHOLD


def activity_classes(values: FloatArray) -> IntArray:
    """(n,) 1 = active, 0 = inactive, by the threshold of these values."""
    return (values >= activity_threshold(values)).astype(np.int64)


def number_domains(values: Sequence[Hashable]) -> IntArray:
    """Number the distinct values in the order of their first appearance, (n,).

    Example:
        >>> number_domains(["b", "a", "b"]).tolist()
        [0, 1, 0]
    """
    number: dict[Hashable, int] = {}
    return np.fromiter((number.setdefault(value, len(number)) for value in values), np.int64, len(values))


def ood_parts(domain: IntArray, weight: npt.NDArray[Any]) -> IntArray:
    """Give whole domains to training, OOD validation and OOD test, the heaviest first.

    A domain goes to training while less than 60 % of the rows are there, then to validation while less than 80 % are
    in either. Domains of equal weight keep their order.

    Args:
        domain: (n,) domain of each row, from 0.
        weight: (n_domains,) what domains are sorted by.

    Returns:
        (n,) `TRAIN`, `OOD_VAL` or `OOD_TEST`.
    """
    count = np.bincount(domain, minlength=len(weight))
    order = np.argsort(-weight, kind="stable")
    before = np.empty_like(count)
    before[order] = np.cumsum(count[order]) - count[order]
    train, val = (int(share * len(domain)) for share in OOD_SHARES)
    part = np.select([before < train, before < train + val], [TRAIN, OOD_VAL], OOD_TEST)
    return part[domain].astype(np.int64)


def divide_training_domains(part: IntArray, domain: IntArray, seed: int) -> Assignment:
    """Take `id_val` and `id_test` out of each training domain; the domains become the environments.

    Shares are rounded down and the rest is `id_test`, so a domain of one molecule is wholly in `id_test`.

    Args:
        part: (n,) `TRAIN`, `OOD_VAL` or `OOD_TEST`.
        domain: (n,) domain of each row; a training domain may have rows elsewhere, which stay there.
        seed: of the shuffle inside each domain.
    """
    part = part.copy()
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(part == TRAIN))
    rows = shuffled[np.argsort(domain[shuffled], kind="stable")]
    _, start, count = np.unique(domain[rows], return_index=True, return_counts=True)
    for first, n in zip(start.tolist(), count.tolist(), strict=True):
        train, val = (int(share * n) for share in ID_SHARES)
        part[rows[first + train : first + train + val]] = ID_VAL
        part[rows[first + train + val : first + n]] = ID_TEST
    provenance = {"rule": "DrugOOD, by whole domains", "seed": seed}
    return Assignment(part, training_environments(part, domain), provenance)


def split_by_domain(domain: IntArray, weight: npt.NDArray[Any], seed: int) -> Assignment:
    """The whole split: `ood_parts`, then `divide_training_domains`."""
    return divide_training_domains(ood_parts(domain, weight), domain, seed)


def training_environments(part: IntArray, domain: IntArray) -> IntArray:
    """(n,) the training domains numbered from 0 without gaps, -1 for rows of the OOD parts."""
    env = np.full(len(part), -1)
    inside = np.isin(part, (TRAIN, ID_VAL, ID_TEST))
    env[inside] = np.unique(domain[inside], return_inverse=True)[1]
    return env


Measurement = Literal["ic50", "ec50"]
UNITS = ("nM", "uM")
UNCERTAINTY = {"<": -1.0, "<=": -1.0, ">": 1.0, ">=": 1.0}
"""Added to the value of a record with such a relation."""

MOST_NEIGHBOURS = 5
MOST_IMPLICIT_HYDROGENS = 4
"""An atom with more has no place in DrugOOD's features."""


@dataclass(frozen=True)
class NoiseLevel:
    """How clean an assay and its records must be.

    Attributes:
        records: fewest and most records of an assay.
        confidence: least confidence score of its target; None = any, even unknown.
        relations: accepted relations between the measured value and the truth.
    """

    records: tuple[int, int]
    confidence: int | None
    relations: tuple[str, ...]


CORE = NoiseLevel((50, 3000), 9, ("=", "~"))
REFINED = NoiseLevel((32, 5000), 3, ("=", "~", ">=", "<="))
GENERAL = NoiseLevel((10, 5000), None, ("=", "~", ">=", "<=", "<", ">"))


@dataclass(frozen=True, eq=False)
class CuratedMolecules:
    """Distinct molecules with one value each, in the order of their first record.

    Attributes:
        smiles: (n,) ChEMBL's canonical SMILES.
        value: (n,) mean pChEMBL value.
        assay: (n,) ChEMBL's number of the assay of the first record.
        release: what the database calls itself, such as "ChEMBL_30".
    """

    smiles: list[str]
    value: FloatArray
    assay: IntArray
    release: str


_VERSION = 1
"""Of these rules: a change of what they give is a new one, so that nothing old is taken from a cache."""

_RECORDS = """
WITH kept AS (
    SELECT assay_id, MIN(activity_id) AS first_activity
    FROM activities
    GROUP BY assay_id
    HAVING COUNT(*) BETWEEN :fewest AND :most
       AND SUM(standard_type IS NOT :type) = 0
       AND SUM(standard_units IS NULL OR standard_units NOT IN ({units})) = 0
)
SELECT activities.assay_id, canonical_smiles, standard_relation, pchembl_value
FROM kept
JOIN assays ON assays.assay_id = kept.assay_id
JOIN activities ON activities.assay_id = kept.assay_id
JOIN compound_structures ON compound_structures.molregno = activities.molregno
WHERE (:confidence IS NULL OR confidence_score >= :confidence)
  AND standard_value IS NOT NULL
  AND pchembl_value IS NOT NULL
  AND canonical_smiles IS NOT NULL
  AND standard_relation IN ({relations})
ORDER BY first_activity, activity_id
"""

Record = tuple[int, str, str, float]
"""Assay, SMILES, relation, pChEMBL value."""


def curate(database: Path, measurement: Measurement, level: NoiseLevel = CORE) -> CuratedMolecules:
    """Read a ChEMBL SQLite file and apply DrugOOD's filters for ligand-based affinity prediction.

    1. Assays of which *every* record has the wanted type and units of nM or uM, with a number of records and a
       confidence score as `level` asks.
    2. Of these, records with all fields, an accepted relation and a molecule that DrugOOD's features can describe.
    3. Values of uncertain relations are moved by one unit.
    4. Records of the same SMILES become one molecule: the mean of the values, the assay of the first record. Assays
       come in the order of their first activity.

    Raises:
        DataError: there is no such file, it is not a ChEMBL database, or nothing is left.
    """
    if not database.is_file():
        raise DataError(f"no ChEMBL database {database}; download chembl_NN_sqlite.tar.gz from ChEMBL and unpack it")
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            release = str(connection.execute("SELECT name FROM version").fetchone()[0])
            molecules = merge_records(_records(connection, measurement, level))
    except (sqlite3.Error, TypeError) as error:
        raise DataError(f"{database} is not a ChEMBL SQLite file ({error}); use chembl_NN.db as published") from error
    if not molecules:
        raise DataError(f"{database} ({release}) has no {measurement.upper()} records that pass the filters")
    return CuratedMolecules(
        smiles=list(molecules),
        value=np.array([sum(values) / len(values) for _, values in molecules.values()]),
        assay=np.array([assay for assay, _ in molecules.values()]),
        release=release,
    )


def curate_once(database: Path, measurement: Measurement) -> CuratedMolecules:
    """As `curate` at the core level; of a file that has not changed since, the result is taken from the cache."""
    if not database.is_file():
        return curate(database, measurement)
    state = database.stat()
    facts = [
        _VERSION,
        str(database.resolve()),
        state.st_size,
        state.st_mtime_ns,
        measurement,
        repr(CORE),
        rdBase.rdkitVersion,
    ]

    def build() -> Entry:
        molecules = curate(database, measurement)
        report = {"smiles": molecules.smiles, "release": molecules.release}
        return Entry({"value": molecules.value, "assay": molecules.assay}, report)

    entry = remember("chembl", hashlib.sha256(json.dumps(facts).encode()).hexdigest(), build)
    return CuratedMolecules(
        entry.report["smiles"], entry.arrays["value"], entry.arrays["assay"], entry.report["release"]
    )


def merge_records(records: Iterable[Record]) -> dict[str, tuple[int, list[float]]]:
    """Records to molecules: SMILES to the first assay and all values; molecules without features are left out."""
    molecules: dict[str, tuple[int, list[float]]] = {}
    illegal: set[str] = set()
    for assay, smiles, relation, value in records:
        if smiles not in molecules and smiles not in illegal and not has_features(smiles):
            illegal.add(smiles)
        if smiles not in illegal:
            molecules.setdefault(smiles, (assay, []))[1].append(value + UNCERTAINTY.get(relation, 0.0))
    return molecules


def has_features(smiles: str) -> bool:
    """Whether DrugOOD's features can describe the molecule: at least one bond, and no atom with too many neighbours.

    Example:
        >>> has_features("CCO"), has_features("[Na+]"), has_features("FS(F)(F)(F)(F)F")
        (True, False, False)
    """
    try:
        mol = parse_smiles(smiles)
    except DataError:
        return False
    return mol.GetNumBonds() > 0 and all(map(_describable, mol.GetAtoms()))


def _describable(atom: Chem.Atom) -> bool:
    return atom.GetDegree() <= MOST_NEIGHBOURS and atom.GetNumImplicitHs() <= MOST_IMPLICIT_HYDROGENS


def _records(connection: sqlite3.Connection, measurement: Measurement, level: NoiseLevel) -> Iterable[Record]:
    fewest, most = level.records
    named = {f"unit{i}": unit for i, unit in enumerate(UNITS)}
    named |= {f"relation{i}": relation for i, relation in enumerate(level.relations)}
    query = _RECORDS.format(
        units=", ".join(f":{name}" for name in named if name.startswith("unit")),
        relations=", ".join(f":{name}" for name in named if name.startswith("relation")),
    )
    values = {"fewest": fewest, "most": most, "type": measurement.upper(), "confidence": level.confidence}
    return connection.execute(query, values | named)
