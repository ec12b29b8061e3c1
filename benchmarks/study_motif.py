"""Which decisions inside MPHIL matter on GOOD-Motif? A study on validation data only.

OOD validation of good-motif-basis (stars) saturates within three epochs and hardly tells settings apart, and the test
part (paths) must not be looked at. So each of the three training bases is held out in turn: a setting is trained on the
other two and scored on the third.

    python benchmarks/study_motif.py --out benchmarks/results/study-motif.jsonl

Runs that are already in the file are skipped, so the study can be stopped and taken up again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path

import torch

from mphil.benchmarks import Benchmark, benchmark
from mphil.config import EncoderConfig, TrainConfig
from mphil.data.loader import derive_seed
from mphil.methods import METHODS, build_method
from mphil.methods.base import resolve_hyperparameters
from mphil.training.trainer import Trainer

BASES = ("wheel", "tree", "ladder")
SETTINGS: dict[str, tuple[str, dict, dict]] = {
    "erm": ("erm", {}, {}),
    "mphil": ("mphil", {}, {}),
    "no scoring GNN": ("mphil", {"invariant_encoder": False}, {}),
    "temperature 0.5": ("mphil", {"temperature": 0.5}, {}),
    "temperature 1": ("mphil", {"temperature": 1.0}, {}),
    "keep all": ("mphil", {"keep": 0}, {}),
    "sum readout": ("mphil", {}, {"readout": "sum"}),
    "max readout": ("mphil", {}, {"readout": "max"}),
    "no dropout": ("mphil", {}, {"dropout": 0.0}),
    "no separation": ("mphil", {"separation": 0.0}, {}),
    "separation 0.1": ("mphil", {"separation": 0.1}, {}),
    "no matching": ("mphil", {"matching": 0.0}, {}),
    "update without gradient": ("mphil", {"differentiable_update": False}, {}),
    "momentum 0.9": ("mphil", {"momentum": 0.9}, {}),
    "one prototype": ("mphil", {"prototypes": 1}, {}),
    "six prototypes": ("mphil", {"prototypes": 6}, {}),
    "not normalised": ("mphil", {"normalise": False}, {}),
    "score head": ("mphil", {"score_head": True, "score_weight": 0.5}, {}),
    "max readout, no scoring GNN": ("mphil", {"invariant_encoder": False}, {"readout": "max"}),
    "erm, max readout": ("erm", {}, {"readout": "max"}),
    "erm, sum readout": ("erm", {}, {"readout": "sum"}),
    "erm, no dropout": ("erm", {}, {"dropout": 0.0}),
    "release": ("mphil", {"preset": "release"}, {}),
}


def hold_out(source: Benchmark, base: int) -> Benchmark:
    """Train on two bases; the third is the OOD validation part. Stars and paths are left out altogether."""
    kind = source.store.extras["basis_id"]
    split = source.split
    nothing = torch.empty(0, dtype=torch.long)
    unseen = torch.cat([split.train, split.id_val, split.id_test])
    parts = replace(
        split,
        train=split.train[kind[split.train] != base],
        id_val=split.id_val[kind[split.id_val] != base],
        id_test=nothing,
        ood_val=unseen[kind[unseen] == base],
        ood_test=nothing,
        provenance={**split.provenance, "held_out": BASES[base]},
    )
    return replace(source, split=parts)


def run(setting: str, base: int, seed: int, epochs: int, graphs: int) -> dict:
    name, args, encoder = SETTINGS[setting]
    args = dict(args)
    args = resolve_hyperparameters(METHODS[name], args.pop("preset", None), args)
    data = hold_out(benchmark("good-motif-basis", graphs=graphs), base)
    settings = EncoderConfig(node=data.store.node_features, edge=data.store.edge_features, **data.encoder | encoder)
    torch.manual_seed(derive_seed(seed, "weights"))
    trainer = Trainer(build_method(name, data.task, settings, args), data, TrainConfig(epochs=epochs), seed)
    started = time.monotonic()
    history = trainer.fit()
    return {
        "setting": setting,
        "held_out": BASES[base],
        "seed": seed,
        "epochs": epochs,
        "graphs": graphs,
        "method": name,
        "args": args,
        "encoder": settings.model_dump(mode="json"),
        "id_val": [epoch["scores"]["id_val"] for epoch in history],
        "ood_val": [epoch["scores"]["ood_val"] for epoch in history],
        "losses": history[-1]["losses"],
        "seconds": time.monotonic() - started,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--graphs", type=int, default=15_000)
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        records = map(json.loads, options.out.read_text().splitlines())
        done = {(r["setting"], r["held_out"], r["seed"], r["epochs"], r["graphs"]) for r in records}
    jobs = [(s, b, seed) for seed in options.seeds for s in options.settings for b in range(len(BASES))]
    for number, (setting, base, seed) in enumerate(jobs, start=1):
        if (setting, BASES[base], seed, options.epochs, options.graphs) in done:
            continue
        record = run(setting, base, seed, options.epochs, options.graphs)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        last = sum(record["ood_val"][-3:]) / 3
        print(
            f"{number}/{len(jobs)} {setting}, {BASES[base]} held out: {last:.3f} ({record['seconds']:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
