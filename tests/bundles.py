"""Small bundles made by hand, for tests of whatever is built on one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from mphil.benchmarks.catalogue import Benchmark, benchmark
from mphil.chem.describe import FINGERPRINT, morgan_fingerprints
from mphil.chem.parse import parse_smiles
from mphil.chem.schema import GOOD
from mphil.config import EncoderConfig, NamedArgs
from mphil.graphs.loader import Loader
from mphil.methods.base import build_method
from mphil.model.bundle import Bundle, BundleConfig, MoleculeReading, References, Trust, write_bundle
from mphil.provenance import versions
from mphil.training.metrics import gather, predict_logits, probabilities
from mphil.training.run import Run, train
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.ood import Bands, tanimoto


def trained(method: str = "mphil", *, graphs: int = 120, epochs: int = 2, seed: int = 0, encoder=None, **args) -> Run:
    """A run on decoy molecules that takes a second."""
    data = benchmark("decoy-scaffold", graphs=graphs)
    settings = {"epochs": epochs, "batch_size": 24}
    small = {"width": 16, "layers": 2, **(encoder or {})}
    return train(data, {"name": method, **args}, seed=seed, train=settings, encoder=small)


def bundle_of(run: Run, *, training: int = 40) -> Bundle:
    """The bundle of a run, with some of its training molecules as references."""
    data, config, method = run.benchmark, run.config, run.method.eval()
    graphs = data.split.train[:training]
    smiles = [data.store.smiles[i] for i in graphs.tolist()]
    known = fingerprints(data, graphs)
    calibration, conformal, bands = _trust(run, data, known)
    return Bundle(
        config=BundleConfig(
            task=data.task,
            method=NamedArgs(name=config.method.name, args=config.method.args),
            encoder=config.encoder,
            targets=("label",),
            classes=data.classes,
            molecules=MoleculeReading(column="smiles", features="good", featuriser=GOOD.name, fingerprint=FINGERPRINT),
            selection="ood_val",
            epoch=1,
            seed=config.seed,
            data={"file": "made.csv"},
            versions=versions(),
        ),
        state={name: value.clone() for name, value in method.state_dict().items()},
        trust=Trust("tanimoto", "id_val", calibration, conformal, bands),
        references=References(
            embeddings=gather(method, Loader(data.store, graphs, 64), method.embed).numpy(),
            labels=data.store.y[graphs].numpy(),
            rows=np.arange(len(graphs)),
            fingerprints=known,
            smiles=smiles,
        ),
        metrics={},
        card="<!DOCTYPE html><title>card</title>",
    )


def _trust(run: Run, data: Benchmark, known: np.ndarray) -> tuple[Calibration, Conformal, Bands]:
    held_out = data.split.id_val
    logits = predict_logits(run.method, Loader(data.store, held_out, 64))
    y = data.store.y[held_out]
    calibration = Calibration.fit(logits, y, data.task)
    far = tanimoto(fingerprints(data, held_out), known)
    return calibration, Conformal.fit(probabilities(logits, data.task.kind), y, data.task), Bands.fit(far)


def fingerprints(data: Benchmark, graphs: torch.Tensor) -> np.ndarray:
    """Of some molecules of a benchmark."""
    return morgan_fingerprints([parse_smiles(data.store.smiles[i]) for i in graphs.tolist()])


def written(folder: Path, *, seed: int = 0) -> Path:
    """A folder with a bundle of a network that was not trained, for tests of the files alone."""
    data = benchmark("decoy-scaffold", graphs=40)
    encoder = EncoderConfig(width=8, layers=2, node=data.store.node_features, edge=data.store.edge_features)
    torch.manual_seed(seed)
    method = build_method("erm", data.task, encoder, {}).eval()
    graphs = torch.arange(10)
    bundle = Bundle(
        config=BundleConfig(
            task=data.task,
            method=NamedArgs(name="erm", args={}),
            encoder=encoder,
            targets=("label",),
            classes=data.classes,
            molecules=MoleculeReading(column="smiles", features="good", featuriser=GOOD.name, fingerprint=FINGERPRINT),
            selection="ood_val",
            epoch=1,
            seed=seed,
            data={"file": "made.csv"},
            versions=versions(),
        ),
        state=method.state_dict(),
        trust=Trust("tanimoto", f"seed {seed}", Calibration("none", data.task.kind, data.task.n_outputs)),
        references=References(
            embeddings=np.random.default_rng(seed).normal(size=(10, 8)).astype(np.float32),
            labels=data.store.y[graphs].numpy(),
            rows=np.arange(10),
            fingerprints=fingerprints(data, graphs),
            smiles=[data.store.smiles[i] for i in graphs.tolist()],
        ),
        metrics={"seed": seed},
        card=f"<!DOCTYPE html><title>card {seed}</title>",
    )
    write_bundle(folder, bundle)
    return folder
