"""DrugOOD (Ji et al., 2022, arXiv:2201.09637): is a molecule active at 10 uM, when assay, scaffold or size change?

The environments are the training domains themselves, which are many: 47 assays or 3,667 scaffolds in EC50. Extras:
`domain_id`, the number of the domain in the order of first appearance, and `reg_label`, the mean pChEMBL value.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.drugood_curation import (
    FloatArray,
    Measurement,
    activity_classes,
    curate_once,
    divide_training_domains,
    number_domains,
    split_by_domain,
    training_environments,
)
from mphil.benchmarks.label_table import molecule_benchmark
from mphil.benchmarks.sources import locate
from mphil.chem.parse import parse_lenient
from mphil.chem.row_issue import RowIssue
from mphil.errors import DataError
from mphil.graphs.store import GraphStore
from mphil.tables.from_smiles import molecule_scaffolds, molecule_store
from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, Assignment, IntArray
from mphil.task import Task

Domain = Literal["assay", "scaffold", "size"]
DOMAINS: tuple[Domain, ...] = ("assay", "scaffold", "size")
MEASUREMENTS: tuple[Measurement, ...] = ("ic50", "ec50")
ENCODER = {"layers": 4, "width": 128}
TASK = Task("binary", 1, "roc_auc")

PART_CODES = {"train": TRAIN, "iid_val": ID_VAL, "iid_test": ID_TEST, "ood_val": OOD_VAL, "ood_test": OOD_TEST}
"""DrugOOD's names of the parts, in the order in which they are laid out here."""


@dataclass(frozen=True, eq=False)
class LabelledMolecules:
    """Labelled molecules, before featurisation.

    Attributes:
        smiles: (n,) strings.
        active: (n,) 0 or 1.
        value: (n,) mean pChEMBL values.
    """

    smiles: list[str]
    active: IntArray
    value: FloatArray


def read_published(path: Path) -> tuple[LabelledMolecules, IntArray, Assignment]:
    """Read one of DrugOOD's JSON files.

    Returns:
        the molecules, part after part; (n,) their domains; and the published split.

    Raises:
        DataError: it is not such a file.
    """
    try:
        parts = json.loads(path.read_bytes())["split"]
        records = [(PART_CODES[part], record) for part in PART_CODES for record in parts[part]]
        smiles = [str(record["smiles"]) for _, record in records]
        columns = [[float(record[name]) for _, record in records] for name in ("cls_label", "reg_label", "domain_id")]
    except (ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is not a DrugOOD file ({reason[:80]}); use lbap_core_*.json as published") from error
    active, value, domain = (np.array(column) for column in columns)
    part, number = np.array([part for part, _ in records], np.int64), domain.astype(np.int64)
    assignment = Assignment(part, training_environments(part, number), {"rule": "DrugOOD, the published parts"})
    return LabelledMolecules(smiles, active.astype(np.int64), value), number, assignment


def read_partial(path: Path, domain: Domain, seed: int) -> tuple[LabelledMolecules, IntArray, Assignment]:
    """Read the IC50 core molecules whose labels were recovered, each in the part it has in the full set.

    Args:
        path: the table.
        domain: which of the three splits.
        seed: of `id_val` and `id_test`, which are drawn here for scaffold and size.

    Returns:
        as `read_published`.
    """
    column = "part_assay_by_order" if domain == "assay" else f"part_{domain}"
    codes = PART_CODES | {"train_pool": TRAIN}
    try:
        rows = list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))
        if not rows:
            raise ValueError("no rows")
        smiles = [row["smiles"] for row in rows]
        value = np.array([float(row["reg_label"]) for row in rows])
        active = np.array([int(row["cls_label"]) for row in rows])
        part = np.array([codes[row[column]] for row in rows], np.int64)
        known = {"assay": [row["assay_id"] for row in rows], "size": [row["n_atoms"] for row in rows]}
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not the table of partial IC50 labels ({error}); use the one named so") from error
    number = number_domains(scaffolds(smiles) if domain == "scaffold" else known[domain])
    if domain == "assay":
        assignment = Assignment(part, training_environments(part, number), {"rule": "DrugOOD, parts of the full set"})
    else:
        assignment = divide_training_domains(part, number, seed)
    return LabelledMolecules(smiles, active, value), number, assignment


def find_domains(
    domain: Domain, *, smiles: Sequence[str], atoms: Sequence[int], assay: Sequence[int]
) -> tuple[IntArray, IntArray]:
    """Domains of molecules in the order of their first record.

    Args:
        domain: what to split by.
        smiles: (n,) molecules.
        atoms: (n,) their sizes.
        assay: (n,) their assays.

    Returns:
        (n,) domain numbers and (n_domains,) what domains are sorted by: the molecules of an assay, the atoms of a
        scaffold, the atoms of a molecule.
    """
    if domain == "assay":
        number = number_domains(assay)
        return number, np.bincount(number)
    if domain == "size":
        return number_domains(atoms), np.array(list(dict.fromkeys(atoms)))
    names = scaffolds(smiles)
    return number_domains(names), np.array([_scaffold_size(name) for name in dict.fromkeys(names)])


def scaffolds(smiles: Sequence[str]) -> list[str]:
    """Bemis-Murcko scaffolds; a molecule that has none for RDKit counts as methane, as in DrugOOD."""
    return ["C" if scaffold is None else scaffold for scaffold in molecule_scaffolds(smiles, lenient=True)]


def _scaffold_size(scaffold: str) -> int:
    """Atoms; the scaffold of a molecule without rings, an empty string, has none."""
    return int(parse_lenient(scaffold)[0].GetNumAtoms()) if scaffold else 0


def _featurise(molecules: LabelledMolecules) -> tuple[GraphStore, list[RowIssue]]:
    """DrugOOD's 39 atom and 10 bond features."""
    extras = {"reg_label": molecules.value.astype(np.float32)}
    return molecule_store(molecules.smiles, molecules.active, schema="drugood", lenient=True, extras=extras)


def _from_parts(
    molecules: LabelledMolecules, number: IntArray, whole: Assignment, provenance: Mapping[str, Any]
) -> Benchmark:
    """A benchmark whose split is known for every row."""
    store, rows = _featurise(molecules)
    kept = store.index.numpy()
    assignment = Assignment(whole.part[kept], whole.env[kept], whole.provenance)
    return molecule_benchmark(store, rows, assignment, number[kept], task=TASK, encoder=ENCODER, provenance=provenance)


def _from_database(database: Path, measurement: Measurement, domain: Domain, seed: int) -> Benchmark:
    """A benchmark curated and split here."""
    curated = curate_once(database, measurement)
    store, rows = _featurise(LabelledMolecules(curated.smiles, activity_classes(curated.value), curated.value))
    number, weight = find_domains(
        domain,
        smiles=store.smiles or (),
        atoms=store.n_nodes.tolist(),
        assay=curated.assay[store.index.numpy()].tolist(),
    )
    return molecule_benchmark(
        store,
        rows,
        split_by_domain(number, weight, seed),
        number,
        task=TASK,
        encoder=ENCODER,
        provenance={"domain": domain, "source": {"database": database.name, "release": curated.release}},
    )


def _builder(measurement: Measurement, domain: Domain) -> Callable[..., Benchmark]:
    """The function that builds one setting.

    Its options: `release`, the ChEMBL release of the published file; `database`, a ChEMBL SQLite file to curate from
    instead; `seed`, of `id_val` and `id_test` when curating (the published files bring theirs).
    """

    def build(*, release: Literal[29, 30] = 29, database: str = "", seed: int = 0) -> Benchmark:
        if database:
            return _from_database(Path(database).expanduser(), measurement, domain, seed)
        name = f"drugood-{measurement}-{domain}"
        located = locate(name if release == 29 else f"{name}-chembl{release}")
        return _from_parts(*read_published(located.path), {"domain": domain, "source": located.provenance()})

    return build


def _partial_builder(domain: Domain) -> Callable[..., Benchmark]:
    """The function that builds one setting of the partial labels; `seed` draws `id_val` and `id_test`."""

    def build(*, seed: int = 0) -> Benchmark:
        located = locate("ic50-partial")
        parts = read_partial(located.path, domain, seed)
        return _from_parts(*parts, {"domain": domain, "source": located.provenance()})

    return build


_SUMMARIES: Mapping[Domain, str] = {
    "assay": "trained on the largest assays, tested on small ones",
    "scaffold": "trained on molecules with large scaffolds, tested on small scaffolds",
    "size": "trained on large molecules, tested on small ones",
}
_LICENCE = "ChEMBL data, CC BY-SA 3.0"
_COUNTS = {
    "ec50": "12,661 molecules from ChEMBL 29; the paper's are from ChEMBL 30, about 8 % more (release=30)",
    "ic50": "95,236 molecules from ChEMBL 29; the paper's are from ChEMBL 30, about 2 % more (release=30)",
}

for _domain in DOMAINS:
    for _measurement in MEASUREMENTS:
        register(
            f"drugood-{_measurement}-{_domain}",
            _builder(_measurement, _domain),
            summary=f"Is a molecule active ({_measurement.upper()})? {_SUMMARIES[_domain].capitalize()}.",
            source=(
                f"DrugOOD lbap_core_{_measurement}_{_domain}.json (Ji et al., 2022, arXiv:2201.09637; {_LICENCE}), or "
                "database=chembl_NN.db: curated here from ChEMBL by the same rules"
            ),
            differs=f"{_COUNTS[_measurement]}; iid_val and iid_test are called id_val and id_test",
            needs=(f"drugood-{_measurement}-{_domain}",),
        )
    register(
        f"ic50-partial-{_domain}",
        _partial_builder(_domain),
        summary=f"IC50 core, partial labels: {_SUMMARIES[_domain]}; 27,285 of 95,236 molecules.",
        source=f"labels recovered from the ChEMBL extracts of FS-Mol and of the Riniker lab; {_LICENCE}",
        differs=(
            "NOT the paper's set: the 27,285 of DrugOOD's 95,236 IC50 core molecules (ChEMBL 29) whose labels could be "
            "recovered, each in the OOD part it has there; "
            + (
                "assays are those of the recovered labels, 51 of 374 of which have molecules in more than one part"
                if _domain == "assay"
                else "id_val and id_test are a seeded draw from each training domain"
            )
        ),
        needs=("ic50-partial",),
    )
