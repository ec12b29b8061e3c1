"""Which calibration makes the probabilities of `mphil train FILE` true, in domain and out of it.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/calibration.py          # after product.py, whose bundles it asks
    python benchmarks/calibration.py --report                                  # a table of the records

Validation parts alone: each is cut into folds, all but one fold of a part (id_val) or of both parts teach a
calibration, and it is scored on the remaining fold of each. Folds of ood_val have no scaffold, assay or size in common,
as ood_val and ood_test have none. Epochs of the networks and weights of the committee were chosen on the same parts,
which praises every candidate alike.

The test parts choose nothing. They are asked about the former calibration and about that of the tool alone, to tell
what became of the error.

Adds a line to benchmarks/results/calibration.jsonl for each table and seed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as pairs
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rdkit.Chem import MolFromSmiles

import per_table
import product
from mphil.benchmarks.development import candidates as candidates_of
from mphil.benchmarks.development import draw
from mphil.benchmarks.sources import locate
from mphil.chem.describe import murcko_smiles, n_heavy_atoms
from mphil.graphs.split import Part
from mphil.lab.records import RecordFile
from mphil.model.predictor import load
from mphil.model.product import prepare
from mphil.provenance import NUMERICS, checkout, machine, versions
from mphil.task import Task
from mphil.trust.calibration import Calibration, How
from mphil.trust.reliability import expected_calibration_error, log_loss, reliability, root, squared_calibration_error
from per_table import missing

Floats = NDArray[np.float64]
PARTS: tuple[Part, Part] = ("id_val", "ood_val")
TESTS: tuple[Part, Part] = ("id_test", "ood_test")
FOLDS = (2, 5)
REPEATS = 3
FORMER = "temperature, smoothed labels, id_val"
"""That of bundles before this comparison: see `mphil.trust.calibration`."""
PRIORS = (0.1, 0.2, 0.4, 0.8, None)
DIGITS = 6
SHOWN = (
    "none",
    *(
        f"{how}, {parts}"
        for how in (
            "temperature, smoothed labels",
            "temperature, prior 0.2",
            "platt, no prior",
            "platt, prior 0.1",
            "platt, prior 0.2",
            "platt, prior 0.4",
            "beta, prior 0.2",
        )
        for parts in ("id_val", "id_val + ood_val")
    ),
)
"""Candidates that the documents show."""
MEASURES = {
    "log_loss": log_loss,
    "squared_error": squared_calibration_error,
    "error": expected_calibration_error,
}


@dataclass(frozen=True, eq=False)
class Rows:
    """What a committee says about a part.

    Attributes:
        logits: (n, tasks) of the positive label, of all members together.
        y: (n, tasks) labels, NaN = missing.
        domain: (n,) number of the scaffold, assay or size of each row; -1 for all when there is none.
    """

    logits: Floats
    y: Floats
    domain: NDArray[np.int64]


def columns(logits: Floats, shape: str) -> tuple[Floats, Floats]:
    r"""(k, n) what a calibration weighs and adds, and the (k,) weights that change nothing.

    `temperature`: :math:`a z`; `platt`: :math:`a z + b`; `beta`: :math:`a \log p - b \log(1 - p) + c`.
    """
    one = np.ones_like(logits)
    if shape == "temperature":
        return np.stack([logits]), np.array([1.0])
    if shape == "platt":
        return np.stack([logits, one]), np.array([1.0, 0.0])
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), one]), np.array([1.0, 1.0, 0.0])


def fitted(logits: Floats, y: Floats, shape: str, prior: float | None) -> Callable[[Floats], Floats]:
    """The calibration of least log-loss, its weights shrunk to those that change nothing.

    Args:
        logits: (n,) held-out.
        y: (n,) 0 or 1.
        shape: see `columns`; `smoothed` is the temperature of `Calibration`.
        prior: standard deviation of each weight around the one that changes nothing; None leaves them free.
    """
    if shape == "smoothed":
        known = Calibration.fit(logits[:, None], y[:, None], Task("binary", 1, "roc_auc"))
        return lambda asked: known.apply(asked[:, None])[:, 0]
    values, start = columns(logits, shape)
    weights, pull = start, 1e-9 if prior is None else prior**-2
    for _ in range(50):
        chance = _sigmoid(weights @ values)
        slope = values @ (chance - y) + pull * (weights - start)
        curvature = (values * chance * (1 - chance)) @ values.T + pull * np.eye(len(start))
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(start)), slope)
        step /= max(1.0, np.abs(step).max())
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    weights = np.where(start > 0, np.maximum(weights, 0.01), weights)  # the ranking stays
    return lambda asked: _sigmoid(weights @ columns(asked, shape)[0])


def candidates() -> dict[str, tuple[str, float | None, tuple[Part, ...]]]:
    """Name to shape, prior and the parts that it is fitted on."""
    found: dict[str, tuple[str, float | None, tuple[Part, ...]]] = {"none": ("none", None, ())}
    for parts in (PARTS[:1], PARTS):
        found[f"temperature, smoothed labels, {' + '.join(parts)}"] = ("smoothed", None, parts)
    for shape, prior, parts in pairs(("temperature", "platt", "beta"), PRIORS, (PARTS[:1], PARTS)):
        told = "no prior" if prior is None else f"prior {prior}"
        found[f"{shape}, {told}, {' + '.join(parts)}"] = (shape, prior, parts)
    return found


def folds(domain: NDArray[np.int64], count: int, ordered: bool, draw: np.random.Generator) -> NDArray[np.int64]:
    """(n,) the fold of each row; rows of a domain are in one, sizes (`ordered`) are cut where one follows another."""
    if (domain < 0).all():
        domain = np.arange(len(domain))
    values, place = np.unique(domain, return_inverse=True)
    rank = np.arange(len(values)) if ordered else draw.permutation(len(values))
    sizes = np.bincount(rank[place], minlength=len(values))
    middle = sizes.cumsum() - sizes / 2
    found: NDArray[np.int64] = np.minimum(middle * count / len(domain), count - 1).astype(np.int64)[rank[place]]
    return found


def compare(rows: Mapping[Part, Rows], task: Task, *, ordered: bool, seed: int = 0) -> dict[str, Any]:
    """Folds, candidate and part to the measures there, mean over repeats."""
    found: dict[str, Any] = {}
    for count in FOLDS:
        told: dict[str, dict[str, list[dict[str, float | None]]]] = {}
        for repeat in range(REPEATS):
            draw = np.random.default_rng([seed, count, repeat])
            fold: dict[Part, NDArray[np.int64]] = {
                "id_val": folds(np.full(len(rows["id_val"].y), -1), count, False, draw),
                "ood_val": folds(rows["ood_val"].domain, count, ordered, draw),
            }
            for name, (shape, prior, parts) in candidates().items():
                for part, chances in _held_out(rows, fold, count, shape, prior, parts).items():
                    scores = {key: of(chances, rows[part].y, task) for key, of in MEASURES.items()}
                    told.setdefault(name, {}).setdefault(part, []).append(scores)
        found[str(count)] = {
            name: {part: _means(scores) for part, scores in by_part.items()} for name, by_part in told.items()
        }
    return found


def _held_out(
    rows: Mapping[Part, Rows],
    fold: Mapping[Part, NDArray[np.int64]],
    count: int,
    shape: str,
    prior: float | None,
    parts: Sequence[Part],
) -> dict[Part, Floats]:
    """Part to (n, tasks) probabilities, each fold's from a calibration that did not see it."""
    chances = {part: _sigmoid(rows[part].logits) for part in PARTS}
    for number, task in pairs(range(count), range(rows["id_val"].y.shape[1])):
        taught = [(rows[part], fold[part] != number) for part in parts]
        logits = np.concatenate([np.empty(0), *(one.logits[seen, task] for one, seen in taught)])
        y = np.concatenate([np.empty(0), *(one.y[seen, task] for one, seen in taught)])
        known = ~np.isnan(y)
        if len(set(y[known].tolist())) < 2:
            continue
        bend = fitted(logits[known], y[known], shape, prior)
        for part in PARTS:
            asked = fold[part] == number
            chances[part][asked, task] = bend(rows[part].logits[asked, task])
    return chances


def _means(scores: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Of each measure, over repeats."""
    known = {key: [value for one in scores if (value := one[key]) is not None] for key in scores[0]}
    return {key: round(float(np.mean(values)), DIGITS) if values else None for key, values in known.items()}


def _sigmoid(values: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0, -values))
    return found


def ask(table: str, seed: int, runs: Path) -> tuple[dict[Part, Rows], Task]:
    """What the committee of a bundle says about its validation and test parts."""
    predictor = load(runs / product.recipe() / f"{table}-s{seed}" / "bundle")
    data = prepare({"benchmark": product.given_table(table, runs), "seed": seed}).data
    rows: dict[Part, Rows] = {}
    for part in (*PARTS, *TESTS):
        store = data.store.select(data.split[part])
        logits, y = predictor.outputs(store).logits, store.y.double().numpy()
        apart = np.full(len(y), -1) if part in TESTS else domains(table, store.smiles or (), store.index.tolist())
        rows[part] = Rows(logits, y, apart)
    held = predictor.bundle.held_out
    said = predictor.bundle.trust.calibration.apply(rows["id_val"].logits)
    if held is None or not np.array_equal(said, held.probability):
        raise SystemExit(f"{table}, seed {seed}: these are not the rows that the bundle was calibrated on")
    return rows, predictor.bundle.config.task


def tested(rows: Mapping[Part, Rows], task: Task) -> dict[str, Any]:
    """Name of the former calibration and of that of the tool to the bins and measures of the test parts."""
    found: dict[str, Any] = {}
    cases: tuple[tuple[How, tuple[Part, ...]], ...] = (("temperature", PARTS[:1]), ("platt", PARTS))
    for how, parts in cases:
        logits, y = (np.concatenate([getattr(rows[part], key) for part in parts]) for key in ("logits", "y"))
        calibration = Calibration.fit(logits, y, task, how)
        found[how] = {}
        for part in TESTS:
            chances, labels = calibration.apply(rows[part].logits), rows[part].y
            points = reliability(chances, labels, task)
            bins = {key: getattr(points, key).round(DIGITS).tolist() for key in ("count", "predicted", "observed")}
            found[how][part] = {
                "reliability": {key: [None if v != v else v for v in values] for key, values in bins.items()},
                **{key: of(chances, labels, task) for key, of in MEASURES.items()},
            }
    return found


def tested_report(records: Sequence[dict[str, Any]]) -> str:
    """The errors of both calibrations on the test parts of the same runs."""
    return str(
        product.calibration(
            [
                {"table": record["table"], "calibration": how, "trust": trust}
                for record in records
                for how, trust in record["tested"].items()
            ]
        )
    )


def domains(table: str, smiles: Sequence[str], number: Sequence[int]) -> NDArray[np.int64]:
    """(n,) what the split goes by, for molecules in these rows of the table, the largest first; -1 without any."""
    spec = product.ALL[table]
    if spec.split == "random":
        return np.full(len(smiles), -1)
    if spec.split == "assay":
        drawn = draw(candidates_of(spec, locate(spec.source)), spec)
        assert len(drawn.domain) == spec.rows, "every row can be read, so that rows of the table are those drawn"
        values: list[Any] = [drawn.domain[n] for n in number]
    else:
        molecules = [MolFromSmiles(one) for one in smiles]
        of = murcko_smiles if spec.split == "scaffold" else _smallness
        values = [of(molecule) for molecule in molecules]
    found: NDArray[np.int64] = np.unique(values, return_inverse=True)[1]
    return found


def _smallness(molecule: Any) -> int:
    return -n_heavy_atoms(molecule)


def report(records: Sequence[dict[str, Any]], names: Sequence[str] | None = None, count: int = FOLDS[-1]) -> str:
    """Mean over tables, each the mean of its seeds; in how many of them the log-loss is below the former one.

    The debiased error is the root of the mean square over tables, 0 where that is below 0.
    """
    tables = sorted({record["table"] for record in records})

    def by_table(name: str, part: str, key: str) -> list[float]:
        each = [[r["scores"][str(count)][name][part][key] for r in records if r["table"] == one] for one in tables]
        return [mean(values) for values in each if None not in values]

    head = ("log-loss", "tables below", "calibration error", "debiased")
    lines = [
        "| calibration, fitted on | " + " | ".join(f"{part}: {one}" for part in PARTS for one in head) + " |",
        "|---|" + "---|" * (len(head) * len(PARTS)),
    ]
    for name in names or candidates():
        cells = [name]
        for part in PARTS:
            loss, former = (by_table(one, part, "log_loss") for one in (name, FORMER))
            below = sum(mine < theirs - 1e-6 for mine, theirs in zip(loss, former, strict=True))
            debiased = root(mean(by_table(name, part, "squared_error")))
            cells += [f"{mean(loss):.4f}", f"{below} of {len(loss)}", f"{mean(by_table(name, part, 'error')):.3f}"]
            cells.append(f"{debiased:.3f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    options = per_table.parser(__doc__, "calibration", list(product.ALL), "product").parse_args(arguments)
    if options.report:
        records = product.present(options.out)
        print(report(records), tested_report(records), sep="\n\n")
        return
    torch.set_num_threads(1)
    code = checkout()
    for key in missing(options, recipe=product.recipe()):
        table, seed = key["table"], key["seed"]
        rows, task = ask(table, seed, options.runs)
        record = {
            **key,
            "command": shlex.join(["python", "benchmarks/calibration.py", "--tables", table, "--seeds", str(seed)]),
            "numerics": NUMERICS,
            "scores": compare(rows, task, ordered=product.ALL[table].split == "size", seed=seed),
            "tested": tested(rows, task),
            "versions": versions(),
            "machine": machine(),
            **code,
        }
        RecordFile(options.out).append(record, once=False)
        print(f"{table}, seed {seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
