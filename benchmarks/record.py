"""Turn finished run folders into lines of a results file: what was run, how, on what, and what came out.

    python benchmarks/record.py runs/erm-s0 runs/mphil-s0 --out benchmarks/results/motif-basis.jsonl

A run that is already in the file (same fingerprint) is skipped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mphil.methods import METHODS
from mphil.methods.base import resolve_hyperparameters


def command(config: dict[str, Any]) -> str:
    """The command that repeats a run."""
    parts = ["mphil train", f"--benchmark {config['benchmark']['name']}", f"--method {config['method']['name']}"]
    parts.append(f"--seed {config['seed']}")
    defaults = resolve_hyperparameters(METHODS[config["method"]["name"]], None, {})
    changed = {k: v for k, v in config["method"]["args"].items() if v != defaults[k]}
    parts += [f"--set method.{k}={v}" for k, v in changed.items()]
    if config["encoder"]["readout"] != "mean":
        parts.append(f"--set encoder.readout={config['encoder']['readout']}")
    return " ".join([*parts, f"--set train.epochs={config['train']['epochs']}"])


def record(folder: Path) -> dict[str, Any]:
    result = json.loads((folder / "result.json").read_text())
    history = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    scores = {part: [epoch["scores"][part] for epoch in history] for part in history[0]["scores"]}
    return {"command": command(result["config"]), **result, "history": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    known = set()
    if options.out.exists():
        known = {json.loads(line)["fingerprint"] for line in options.out.read_text().splitlines()}
    for folder in options.folders:
        entry = record(folder)
        if entry["fingerprint"] in known:
            continue
        with options.out.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{folder.name}: {entry['command']}")


if __name__ == "__main__":
    main()
