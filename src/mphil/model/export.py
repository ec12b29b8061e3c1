"""The model part of a bundle for other programs: a torch.export or ONNX file, proven to agree with the original."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.errors import DataError, UnknownName, UsageError
from mphil.files import write_bytes, write_json
from mphil.graphs.features import Features
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore, pointer
from mphil.model.predictor import Predictor
from mphil.model.tracing import FORMATS, SUFFIXES, Ask, Format, TensorModel, as_onnx, as_torch, check_packages, trace
from mphil.progress import row_bar
from mphil.provenance import versions

MOLECULES = 64
"""Training molecules that original and export are both asked about."""

LONE = ("C", "O", "[Na+].[Cl-]")
"""Molecules without a bond, which go into a batch of their own."""

BATCHES = (1, 2, 7, MOLECULES)
"""Graphs at a time."""


@dataclass(frozen=True)
class Sample:
    """Graphs to compare on.

    Attributes:
        stores: the graphs; those of the second have no edges.
        what: they are, in words.
    """

    stores: tuple[GraphStore, GraphStore]
    what: str


def sample(predictor: Predictor) -> Sample:
    """Molecules the model was trained on, evenly spread; random graphs for a model that takes graphs."""
    references = predictor.bundle.references
    if predictor.takes_molecules and references.smiles is not None:
        places = np.unique(np.linspace(0, len(references) - 1, MOLECULES).astype(np.int64)).tolist()
        stores = [predictor.read(smiles).store for smiles in ([references.smiles[i] for i in places], LONE)]
        return Sample((stores[0], stores[1]), f"{len(places)} training molecules, and {len(LONE)} without bonds")
    encoder = predictor.bundle.config.encoder
    nodes = np.random.default_rng(0).integers(1, 20, MOLECULES)
    stores = [random_graphs(encoder.node, encoder.edge, *sizes) for sizes in ((nodes, 2), (nodes[:3], 0))]
    return Sample((stores[0], stores[1]), f"{MOLECULES} random graphs, and 3 without edges")


def random_graphs(node: Features, edge: Features, nodes: NDArray[np.int64], density: int) -> GraphStore:
    """Graphs with these numbers of nodes, so many edges a node, and random features of the given kinds."""
    draw = torch.Generator().manual_seed(0)
    counts = torch.from_numpy(nodes) * density
    ends = [torch.randint(int(n), (2, int(n) * density), generator=draw) for n in nodes]
    total = int(counts.sum())
    return GraphStore(
        x=_features(node, int(nodes.sum()), draw),
        edge_index=torch.cat(ends, dim=1).int(),
        edge_attr=None if edge.kind == "none" else _features(edge, total, draw),
        node_ptr=pointer(torch.from_numpy(nodes)),
        edge_ptr=pointer(counts),
        y=torch.full((len(nodes), 1), float("nan")),
        env=torch.full((len(nodes),), -1),
        index=torch.arange(len(nodes)),
        node_features=node,
        edge_features=edge,
    )


def largest_differences(
    predictor: Predictor, model: TensorModel, ask: Ask, stores: Sequence[GraphStore]
) -> dict[str, float]:
    """Output to its largest difference from the original, relative where values exceed 1, over all batch sizes."""
    worst = dict.fromkeys(model.outputs, 0.0)
    for store in stores:
        original = predictor.network(store)
        for size in BATCHES:
            said = [ask(model.arguments(batch)) for batch in Loader(store, torch.arange(len(store)), size)]
            for name, *pieces in zip(model.outputs, *said, strict=True):
                wanted, found = getattr(original, name), np.concatenate(pieces)
                difference = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
                # NaN must not hide behind a comparison.
                worst[name] = max(worst[name], float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0)))
    return worst


def _features(features: Features, rows: int, draw: torch.Generator) -> torch.Tensor:
    if features.kind == "constant":
        return torch.ones(rows, 1)
    if features.kind == "float":
        return torch.randn(rows, features.width, generator=draw)
    return torch.stack([torch.randint(size, (rows,), generator=draw) for size in features.sizes], dim=1)


FORMAT = 1
"""Version of the JSON file."""

TOLERANCE = 1e-4
"""Largest difference from the original that is let pass."""

STEPS = 3
"""Trace, translate, compare."""

SHAPES: dict[str, list[int | str]] = {
    "x": ["nodes", "node columns"],
    "edge_index": [2, "edges"],
    "ptr": ["graphs + 1"],
    "edge_attr": ["edges", "edge columns"],
}


@dataclass(frozen=True)
class Export:
    """An exported model.

    Attributes:
        path: the file.
        about: the JSON beside it.
        facts: what that says: inputs, outputs, what the model is, how it was checked.
    """

    path: Path
    about: Path
    facts: dict[str, Any]

    @property
    def difference(self) -> float:
        """The largest difference from the original that was seen."""
        return float(max(self.facts["check"]["largest_difference"].values()))


def export_model(predictor: Predictor, out: Path, format: Format | None = None, *, progress: bool = True) -> Export:
    """Write the model part of a bundle as a file, and beside it a JSON that describes it.

    Before anything is put in place, the exported model is asked about graphs in batches of several sizes, some without
    any edge, and compared with the original.

    Args:
        predictor: the bundle.
        out: the file to write; the JSON is called the same with `.json` behind.
        format: `torch` (torch.export) or `onnx`; when None, by the name of the file.
        progress: show a bar when there is a terminal.

    Raises:
        UsageError: the format is unknown, a package is missing, or the model cannot be expressed in it.
        DataError: the exported model does not agree with the original; nothing is written.
    """
    chosen = format or format_of(out)
    if chosen not in FORMATS:
        raise UnknownName("export format", chosen, FORMATS)
    check_packages(chosen)
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name the file to write")
    model = TensorModel(predictor.method, predictor.bundle.config.encoder)
    chosen_graphs = sample(predictor)
    example = chosen_graphs.stores[0].batch(torch.arange(min(3, len(chosen_graphs.stores[0]))))
    with row_bar(f"exporting {model.method.name}", STEPS, progress) as advance:
        program = trace(model, example)
        advance(1)
        data, ask = as_torch(program) if chosen == "torch" else as_onnx(program, model.inputs, model.outputs)
        advance(1)
        worst = largest_differences(predictor, model, ask, chosen_graphs.stores)
        advance(1)
    if max(worst.values()) > TOLERANCE:
        raise DataError(
            f"the {chosen} model differs from the original by {max(worst.values()):.2g}, "
            f"at most {TOLERANCE:g} is let pass; nothing was written"
        )
    facts = {
        "format": FORMAT,
        "kind": chosen,
        "sha256": hashlib.sha256(data).hexdigest(),
        **_model_facts(predictor, model),
        "check": _check_facts(worst, chosen_graphs),
    }
    about = out.with_name(f"{out.name}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(out, data)
    write_json(about, facts)
    return Export(out, about, facts)


def format_of(out: Path) -> Format:
    """The format that the name of a file stands for.

    Example:
        >>> format_of(Path("model.onnx"))
        'onnx'
    """
    for format, suffix in SUFFIXES.items():
        if out.suffix.lower() == suffix:
            return format
    raise UsageError(f"{out}: name it .pt2 for torch.export or .onnx for ONNX, or say --format")


def committee_note(predictor: Predictor) -> str | None:
    """What whoever has the file of a committee must know; None for one model alone."""
    committee = predictor.bundle.config.committee
    if committee is None:
        return None
    return (
        f"the bundle answers with {len(committee.members)} models together; the file holds one of them, the network "
        f"{committee.members[0].name}, without the others and without a calibration: its answers differ from those of "
        "`mphil predict`. A bundle of one network is made by `mphil train FILE --fast`"
    )


def _model_facts(predictor: Predictor, model: TensorModel) -> dict[str, Any]:
    """What a user needs who has the file only."""
    config, trust = predictor.bundle.config, predictor.bundle.trust
    columns = {"x": config.encoder.node, "edge_attr": config.encoder.edge}
    codes = {name: list(features.sizes) for name, features in columns.items() if features.kind == "categorical"}
    integers = {"edge_index", "ptr", *codes}
    return {
        "inputs": [
            {
                "name": name,
                "type": "int64" if name in integers else "float32",
                "shape": [columns[name].width if str(size).endswith("columns") else size for size in SHAPES[name]],
                **({"codes": codes[name]} if name in codes else {}),
            }
            for name in model.inputs
        ],
        "outputs": list(model.outputs),
        "method": config.method.name,
        "task": config.task.kind,
        "targets": list(config.targets),
        "classes": list(config.classes),
        **({"means": config.task.means, "scales": config.task.scales} if config.task.kind == "regression" else {}),
        "features": None if config.molecules is None else config.molecules.featuriser,
        "calibration": None if config.committee else trust.calibration.to_dict(),
        "note": committee_note(predictor),
        "bundle": predictor.bundle.digest,
        "versions": versions(),
    }


def _check_facts(worst: dict[str, float], graphs: Sample) -> dict[str, Any]:
    return {
        "largest_difference": worst,
        "allowed": TOLERANCE,
        "graphs": graphs.what,
        "batches_of": list(BATCHES),
    }
