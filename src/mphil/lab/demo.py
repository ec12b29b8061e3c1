"""The demo: ERM and MPHIL on molecules whose scaffolds shift, and a page that shows what happened."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mphil.benchmarks.catalogue import BENCHMARKS, Benchmark, benchmark
from mphil.chem.draw import molecule_svg
from mphil.explain.atoms import relative
from mphil.files import write_text
from mphil.graphs.loader import Loader
from mphil.methods.base import Method
from mphil.model.product.runs import write_run_bundle
from mphil.pages.demo_page import render
from mphil.pages.sphere_map import Cloud, to_sphere3
from mphil.pages.view import (
    Choice,
    DataView,
    DemoView,
    FoundAtoms,
    Making,
    MethodView,
    MoleculeView,
    PartView,
)
from mphil.provenance import versions
from mphil.training.metrics import gather, roc_auc
from mphil.training.run import Run, execute
from mphil.training.settings import resolve

BENCHMARK = "decoy-scaffold"
METHODS = ("erm", "mphil")
SHOWN = 150
"""Points of each part on a sphere: more would hide one another."""
STORY = (
    "In training most molecules of a class share a family of ring scaffolds, nitrogen heteroaromatics for one class "
    "and oxygen rings for the other, and a few labels contradict the functional group, so that going by the scaffold "
    "pays. OOD validation and test have new scaffolds of the same families: in validation they say nothing about the "
    "label, in test they point to the wrong class."
)
PER_CLASS = 3
"""Molecules of each class in the gallery."""


@dataclass(frozen=True)
class Demo:
    """A finished demo: the page and the runs behind it."""

    page: Path
    runs: tuple[Run, ...]
    view: DemoView


def run_demo(out: Path, *, seed: int = 0, epochs: int = 15, graphs: int = 5_000) -> Demo:
    """Train both methods with equal budgets and write `out/index.html`.

    A demo that was interrupted goes on where it stopped.
    """
    data = benchmark(BENCHMARK, graphs=graphs)
    runs = []
    for name in METHODS:
        config, _ = resolve({"method": {"name": name}, "train": {"epochs": epochs}, "seed": seed}, data)
        runs.append(execute(config, data, out / name, resume=True))
        write_run_bundle(runs[-1])
    command = f"mphil demo --out {out.name} --seed {seed} --epochs {epochs} --graphs {graphs}"
    view = describe(data, runs, command)
    page = out / "index.html"
    write_text(page, render(view))
    return Demo(page, tuple(runs), view)


def describe(data: Benchmark, runs: Sequence[Run], command: str) -> DemoView:
    """Everything the page shows, computed from the data and the trained methods."""
    importance = {run.config.method.name: atom_importance(run.method, data) for run in runs}
    return DemoView(
        data=describe_data(data),
        metric=data.task.metric,
        methods=[describe_method(run, data, importance[run.config.method.name]) for run in runs],
        making=Making(
            command=command,
            seeds=[runs[0].config.seed],
            epochs=runs[0].config.train.epochs,
            versions=versions(),
            machine=f"{platform.machine()}, {platform.system()}",
            threads=runs[0].config.train.threads,
            date=datetime.now(UTC).date().isoformat(),
        ),
        molecules=describe_molecules(data, importance),
        next_commands=next_commands(runs),
        chance=0.5,
    )


def describe_data(data: Benchmark) -> DataView:
    extras, y = data.store.extras, data.store.y[:, 0]
    parts = [
        PartView(
            name=part,
            graphs=len(graphs),
            per_class=[int((y[graphs] == c).sum()) for c in range(data.task.n_classes)],
            scaffolds=len(torch.unique(extras["scaffold_id"][graphs])),
            shortcut=float((extras["family"][graphs] == y[graphs]).double().mean()),
        )
        for part, graphs in data.split
    ]
    story = [BENCHMARKS[data.name].summary + ".", STORY]
    return DataView(data.name, data.classes, parts, story, digest=data.split.digest()[:16])


def describe_method(run: Run, data: Benchmark, importance: Sequence[np.ndarray]) -> MethodView:
    history = run.history
    curves = {part: [epoch["scores"][part] for epoch in history] for part in ("id_val", "ood_val", "ood_test")}
    truth = atom_truth(data)
    scores = [roc_auc(found, real) for found, real in zip(importance, truth, strict=True)]
    known = [score for score in scores if score is not None]
    return MethodView(
        name=run.config.method.name,
        choices={rule: Choice(c["epoch"], c["scores"]) for rule, c in run.result["selections"].items()},
        curves=curves,
        seconds=run.result["seconds"],
        cloud=describe_sphere(run.method, data),
        atom_score=float(np.mean(known)),
    )


def describe_sphere(method: Method, data: Benchmark) -> Cloud:
    """Some graphs of the two test parts and the method's prototypes, projected to three dimensions."""
    parts = {part: data.split[part][:SHOWN] for part in ("id_test", "ood_test")}
    points = np.concatenate(
        [gather(method, Loader(data.store, g, SHOWN), method.embed).numpy() for g in parts.values()]
    )
    bank: Tensor | None = getattr(method, "prototypes", None)
    prototypes = np.empty((0, points.shape[1])) if bank is None else bank[0].flatten(0, 1).numpy()
    classes = [] if bank is None else np.repeat(np.arange(bank.shape[1]), bank.shape[2]).tolist()
    placed, marks, explained = to_sphere3(points, prototypes)
    labels = [int(label) for graphs in parts.values() for label in data.store.y[graphs, 0]]
    names = [part for part, graphs in parts.items() for _ in graphs]
    return Cloud(placed, labels, names, marks, classes, explained)


def atom_truth(data: Benchmark) -> list[np.ndarray]:
    """For every molecule of the OOD test part, 1 for the atoms that decide its label."""
    batch = data.store.batch(data.split.ood_test, extras=True)
    return np.split(batch["node_truth"].numpy().astype(float), batch.ptr[1:-1].numpy())


def atom_importance(method: Method, data: Benchmark) -> list[np.ndarray]:
    """For every molecule of the OOD test part, how much each atom matters to the method."""
    graphs = data.split.ood_test
    values = gather(method, Loader(data.store, graphs, 256), method.node_importance).numpy()
    return np.split(values, data.store.n_nodes[graphs].cumsum(0)[:-1].numpy())


def describe_molecules(data: Benchmark, importance: dict[str, list[np.ndarray]]) -> list[MoleculeView]:
    """A few OOD test molecules of each class, as they are and as each method sees them."""
    graphs, truth = data.split.ood_test, atom_truth(data)
    views = []
    for graph in data.examples("ood_test", PER_CLASS):
        row = int((graphs == graph).nonzero()[0])
        smiles = data.store.smiles[graph] if data.store.smiles is not None else ""
        found = {name: _found_atoms(smiles, values[row], truth[row]) for name, values in importance.items()}
        label = data.classes[int(data.store.y[graph, 0])]
        views.append(
            MoleculeView(smiles, f"{label}, OOD test", molecule_svg(smiles, weights=truth[row].tolist()), found)
        )
    return views


def _found_atoms(smiles: str, importance: np.ndarray, truth: np.ndarray) -> FoundAtoms:
    weights = relative(torch.from_numpy(importance), torch.tensor([0, len(importance)]))
    drawing = molecule_svg(smiles, weights=weights.tolist(), outline=np.flatnonzero(truth).tolist())
    return FoundAtoms(drawing, roc_auc(importance, truth))


def next_commands(runs: Sequence[Run]) -> list[tuple[str, str]]:
    folder = runs[-1].folder
    return [
        ("mphil train --benchmark good-motif-basis --method mphil --seed 0", "train on a benchmark of the paper"),
        (f"mphil predict {folder} --part ood_test", "write the predictions of this demo as CSV"),
        ("mphil benchmarks", "list the benchmarks"),
        ("mphil methods show mphil", "read what the method does, and its hyperparameters"),
    ]
