"""Weights that encoders of molecules start from (`train.start=molecules`), learned without any label.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/pretrain.py FOLDER   # prepares, trains, writes FOLDER/weights
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/pretrain.py FOLDER --epochs 2 --width 64

The encoder learns to predict the descriptors and the Morgan fingerprint that the tool's forest reads, for molecules of
MUV, HIV, ToxCast and DrugOOD-IC50, whose files are in `MPHIL_DATA` or downloaded. Molecules of the tables of
benchmarks/product.py are left out. FOLDER keeps what was prepared. Adds a line to results/pretraining.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn

import product
from mphil.benchmarks.development import build
from mphil.benchmarks.sources import locate
from mphil.config import EncoderConfig
from mphil.files import write_bytes
from mphil.graphs.store import GraphStore
from mphil.model.committee.trees import read_features
from mphil.nn.encoders import build_encoder
from mphil.nn.readout import Fixed, readout
from mphil.progress import row_bar
from mphil.provenance import machine, versions
from mphil.tables.from_smiles import molecule_store
from mphil.tables.survey import Described, describe
from mphil.training.recipe import SHAPE

RESULTS = Path(__file__).parent / "results" / "pretraining.jsonl"
MUV, BITS, HELD_OUT = 45_000, 2_048, 4_000
"""Molecules of MUV; bits of the fingerprint; molecules that only measure."""
SIZES = ("width", "layers", "epochs")
RATE, BATCH, FINGERPRINT = 2e-3, 128, 5.0
"""Largest learning rate; molecules of a batch; weight of the fingerprint beside the descriptors."""


def order(smiles: str) -> int:
    """A place that depends on the molecule alone."""
    return int(hashlib.sha256(smiles.encode()).hexdigest()[:12], 16)


def published(source: str) -> list[str]:
    """The SMILES of a publisher's file."""
    path = locate(source).path
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def molecules() -> list[str]:
    """Canonical SMILES to learn from, in an order of their own, without those of the tables we measure on."""
    texts = sorted(published("muv"), key=order)[:MUV]
    texts += [text for source in ("hiv", "toxcast", "ic50-partial") for text in published(source)]
    measured = {text for spec in [*product.ALL.values(), *product.CHOSEN_ON.values()] for text in smiles_of(spec)}
    found = {fact.canonical for fact in describe(texts, workers=0) if isinstance(fact, Described)}
    return sorted(found - measured, key=order)


def smiles_of(spec: Any) -> list[str]:
    """The molecules of a table that we measure on."""
    return list(build(spec).store.smiles or [])


def prepare(folder: Path) -> tuple[GraphStore, NDArray[np.float32]]:
    """Graphs, and the fingerprint and descriptors of each; from the folder if they are there."""
    graphs, features = folder / "store", folder / "features.npy"
    if not features.exists():
        store, _ = molecule_store(molecules(), None, workers=0, progress=True)
        store.save(graphs)
        np.save(features, read_features(list(store.smiles or [])).matrix())
    return GraphStore.load(graphs), np.load(features)


def targets(features: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Standardised descriptors without outliers, and the bits that are set."""
    values = features[:, BITS:].astype(np.float64)
    values = values.clip(*np.quantile(values, [0.005, 0.995], axis=0))
    spread = values.std(axis=0)
    values = ((values - values.mean(axis=0)) / np.where(spread > 1e-6, spread, 1))[:, spread > 1e-6]
    return torch.from_numpy(values).float(), torch.from_numpy(features[:, :BITS] > 0)


class Guess(nn.Module):
    """An encoder and a head that predicts the targets from all readouts."""

    def __init__(self, encoder: EncoderConfig, descriptors: int) -> None:
        super().__init__()
        self.encoder = build_encoder(encoder)
        self.head = nn.Sequential(nn.Linear(3 * encoder.width, 512), nn.ReLU(), nn.Linear(512, descriptors + BITS))
        self.descriptors = descriptors

    def losses(self, store: GraphStore, rows: Tensor, values: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared error of the descriptors, cross-entropy of the bits."""
        batch = store.batch(rows)
        nodes = self.encoder(batch)
        kinds: tuple[tuple[Fixed, float], ...] = (("mean", 1.0), ("sum", 0.05), ("max", 1.0))
        said = self.head(torch.cat([scale * readout(nodes, batch.ptr, kind) for kind, scale in kinds], dim=1))
        return (
            nn.functional.mse_loss(said[:, : self.descriptors], values[rows]),
            nn.functional.binary_cross_entropy_with_logits(said[:, self.descriptors :], bits[rows].float()),
        )


def batches(graphs: int, epochs: int) -> Iterator[Tensor]:
    """Rows of every batch of a training."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        yield from torch.randperm(graphs, generator=generator)[: graphs // BATCH * BATCH].split(BATCH)  # type: ignore[no-untyped-call]


def train(guess: Guess, store: GraphStore, values: Tensor, bits: Tensor, epochs: int) -> list[float]:
    """Adam with a cosine schedule; the two losses on held-out molecules."""
    optimizer = torch.optim.Adam(guess.parameters(), lr=RATE)
    graphs = len(values) - HELD_OUT
    steps = epochs * (graphs // BATCH)
    with row_bar("pretrain", steps, shown=True) as bar:
        for step, rows in enumerate(batches(graphs, epochs)):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1, step / (0.05 * steps)) * 0.5 * (1 + math.cos(math.pi * step / steps))
            first, second = guess.losses(store, rows, values, bits)
            optimizer.zero_grad()
            (first + FINGERPRINT * second).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(guess.encoder.parameters(), 5.0)
            optimizer.step()
            bar(1)
    guess.eval()
    with torch.no_grad():
        held_out = torch.arange(graphs, len(values)).split(500)  # type: ignore[no-untyped-call]
        losses = [[loss.item() for loss in guess.losses(store, rows, values, bits)] for rows in held_out]
    return [float(loss) for loss in np.mean(losses, axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    store, features = prepare(given.folder)
    values, bits = targets(features)
    config = EncoderConfig(
        kind="gin",
        layers=given.layers,
        width=given.width,
        dropout=0.0,
        node=store.node_features,
        edge=store.edge_features,
    )
    torch.manual_seed(0)
    guess = Guess(config, values.shape[1])
    began = time.process_time()
    found = train(guess, store, values, bits, given.epochs)
    sizes = [f"--{name} {vars(given)[name]}" for name in SIZES]
    shape = config.model_dump(mode="json", include=set(SHAPE))
    weights = {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in guess.encoder.state_dict().items()
    }
    content = save(weights, {"encoder": json.dumps(shape)})
    write_bytes(given.folder / "weights", content)
    record = {
        "command": " ".join(["python benchmarks/pretrain.py FOLDER", *sizes]),
        "molecules": len(values),
        "held_out": {"molecules": HELD_OUT, "descriptors_mse": found[0], "fingerprint_bce": found[1]},
        "store": store.digest(),
        "weights": hashlib.sha256(content).hexdigest(),
        "cpu_seconds": round(time.process_time() - began, 1),
        "machine": machine(),
        "versions": versions(),
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
