"""From a bundle to an exported file, checked before it is put in place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mphil.errors import DataError, UnknownName, UsageError
from mphil.files import write_bytes, write_json
from mphil.model.export.check import BATCHES, Sample, largest_differences, sample
from mphil.model.export.formats import FORMATS, SUFFIXES, Format, as_onnx, as_torch, check_packages
from mphil.model.export.model import TensorModel, trace
from mphil.model.predictor import Predictor
from mphil.progress import row_bar
from mphil.provenance import versions

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
    """What somebody needs who has the file only."""
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
