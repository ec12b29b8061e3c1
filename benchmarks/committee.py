"""What the networks of a committee should weigh together before a label is seen.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/committee.py            # after product.py, whose bundles it asks
    python benchmarks/committee.py --report                                    # a table of the records

Validation parts alone: the weights are fitted on one of them and the committee is scored on the other, in turn. Epochs
of the networks are chosen on ood_val, which praises them there; id_val is free of that. No test part is asked.

Adds a line to benchmarks/results/committee.jsonl for each table and seed.
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import per_table
import product
from mphil.graphs.split import Part
from mphil.lab.records import RecordFile
from mphil.model.committee.weights import as_logits, combine, first_weights, fit_weights
from mphil.model.predictor import load
from mphil.model.product import prepare
from mphil.provenance import NUMERICS, checkout, machine, versions
from mphil.training.metrics import score
from per_table import missing

PARTS: tuple[Part, Part] = ("id_val", "ood_val")
SHARES = (0.0, 0.15, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0)


def measure(table: str, seed: int, runs: Path) -> dict[str, dict[str, float | None]]:
    """Part to the score of the committee there for each share, its weights fitted on the other part."""
    predictor = load(runs / product.recipe() / f"{table}-s{seed}" / "bundle")
    data = prepare({"benchmark": product.given_table(table, runs), "seed": seed}).data
    committee = predictor.bundle.config.committee
    assert committee is not None
    are_networks = [member.kind == "network" for member in committee.members]
    stores = {part: data.store.select(data.split[part]) for part in PARTS}
    said = {part: predictor.said(predictor.network(store), store) for part, store in stores.items()}
    labels = {part: store.y for part, store in stores.items()}
    found: dict[str, dict[str, float | None]] = {part: {} for part in PARTS}
    for share, (fitted, scored) in itertools.product(SHARES, (PARTS, PARTS[::-1])):
        start = first_weights(are_networks, share)
        weights = fit_weights([(said[fitted], labels[fitted].double().numpy())], data.task, start)
        together = as_logits(combine(said[scored], weights), data.task.kind)
        found[scored][str(share)] = score(torch.from_numpy(together), labels[scored], data.task)
    return found


def report(records: Sequence[dict[str, Any]]) -> str:
    """Mean over tables and seeds, in per cent; a part whose labels are all alike is left out."""
    lines = ["| networks weigh | id_val | ood_val | mean |", "|---|---|---|---|"]
    for share in map(str, SHARES):
        each = [[one["scores"][part][share] for one in records] for part in PARTS]
        means = [100 * mean(value for value in values if value is not None) for values in each]
        lines.append(f"| {share} | {means[0]:.2f} | {means[1]:.2f} | {mean(means):.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    options = per_table.parser(__doc__, "committee", list(product.ALL), "product").parse_args(arguments)
    if options.report:
        print(report(product.present(options.out)))
        return
    torch.set_num_threads(1)
    code = checkout()
    for key in missing(options, recipe=product.recipe()):
        table, seed = key["table"], key["seed"]
        record = {
            **key,
            "command": shlex.join(["python", "benchmarks/committee.py", "--tables", table, "--seeds", str(seed)]),
            "numerics": NUMERICS,
            "scores": measure(table, seed, options.runs),
            "versions": versions(),
            "machine": machine(),
            **code,
        }
        RecordFile(options.out).append(record, once=False)
        print(f"{table}, seed {seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
