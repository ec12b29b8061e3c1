"""One cell, carried out in a folder: `python -m mphil.lab.worker FOLDER`.

The folder has `cell.json`; the run goes to `run/`, and the outcome to `record.json` or `failure.json`. The end of
standard input is the wish to stop: it comes when whoever started the worker asks for it, and also when he is no more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from mphil.benchmarks.catalogue import Benchmark, benchmark
from mphil.errors import IntegrityError, MphilError, UsageError
from mphil.files import write_json
from mphil.lab.cells import Cell
from mphil.lab.probes import PROBES
from mphil.lab.records import Record
from mphil.methods.base import METHODS
from mphil.model.bundle.folder import weights_digest
from mphil.model.bundle.members_file import tree_tensors
from mphil.model.committee.trees import is_tree_kind
from mphil.model.product.tree_runs import TreeRun, execute_trees, tree_config, tree_refusal
from mphil.nn.threads import one_thread
from mphil.provenance import NUMERICS, checkout, versions
from mphil.training.process import lock_run
from mphil.training.run import Run, execute
from mphil.training.settings import Wanted, resolve
from mphil.training.trainable import check_needs


def subset(data: Benchmark, fraction: float, eval_fraction: float) -> Benchmark:
    """The benchmark with a share of its training graphs and of its other graphs: the same ones in every run."""
    if fraction < 1:
        data = data.subset(fraction)
    if eval_fraction < 1:
        data = _evaluation_subset(data, eval_fraction)
    return data


def _evaluation_subset(data: Benchmark, fraction: float) -> Benchmark:
    parts = {}
    for number, (part, graphs) in enumerate(data.split):
        if part != "train" and len(graphs):
            order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(number))
            parts[part] = graphs[order[: max(1, round(fraction * len(graphs)))].sort().values]
    provenance = {**data.split.provenance, "eval_fraction": fraction}
    return replace(data, split=replace(data.split, **parts, provenance=provenance))


DONE, FAILED, BUSY, STOPPED = 0, 1, 75, 130
"""Exit codes: the record is there; the failure is there; another process is at work on the cell; stopped on request."""
PATIENCE = 30.0
"""A worker whose sweep was killed is still saving when the next sweep starts: wait for it so many seconds."""


def carry_out(cell: Cell, home: Path, patience: float = PATIENCE) -> int:
    """Make the record of a cell in its folder, going on with a run that was cut; returns an exit code.

    Args:
        cell: what to do.
        home: folder of the cell.
        patience: seconds to wait for another process at work in the folder.
    """
    with ExitStack() as stack:
        if not _enter(home, stack, patience):
            return BUSY
        if (home / "record.json").exists():
            return DONE
        (home / "failure.json").unlink(missing_ok=True)
        try:
            write_json(home / "record.json", make_record(cell, home / "run"))
        except Exception as error:
            text = str(error) if isinstance(error, MphilError) else f"{type(error).__name__}: {error}"
            write_json(home / "failure.json", failure(cell, text, traceback.format_exc()))
            return FAILED
    return DONE


def _enter(home: Path, stack: ExitStack, patience: float) -> bool:
    """Hold the folder of a cell; False if another process does not let go of it in time."""
    deadline = time.monotonic() + patience
    while True:
        try:
            stack.enter_context(lock_run(home))
        except IntegrityError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)
        else:
            return True


def make_record(cell: Cell, folder: Path) -> Record:
    """Train the cell, or find that its method refuses the benchmark."""
    settings: Wanted = {**cell.settings, "seed": cell.seed}
    args = dict(settings.pop("benchmark"))
    data = subset(benchmark(args.pop("name"), **args), cell.fraction, cell.eval_fraction)
    reason = refusal(cell.method, data)
    if reason is not None:
        digests = {"data_digest": data.store.digest(), "split_digest": data.split.digest()}
        return identity(cell, "refused") | {"reason": reason, "versions": versions()} | digests
    if is_tree_kind(cell.method):
        return identity(cell, "run") | _grown(cell, execute_trees(*tree_config(settings, data)))
    config, data = resolve(settings, data)
    run = execute(config, data, folder, resume=True)
    history = {part: [epoch["scores"][part] for epoch in run.history] for part in run.history[0]["scores"]}
    probes = {name: _probe(name, run) for name in cell.probes}
    found = {"history": history, "probes": probes, "weights": weights_digest(run.method.state_dict())}
    return identity(cell, "run") | run.result | found


def _grown(cell: Cell, run: TreeRun) -> Record:
    """What the record of trees says: no epochs, and nothing that is measured on a network."""
    (trees,) = run.trained.trees.values()
    missing = {"missing": f"{cell.method} is trees, and this is measured on a network"}
    probes = dict.fromkeys(cell.probes, missing)
    return run.result | {"history": {}, "probes": probes, "weights": weights_digest(tree_tensors(trees))}


def identity(cell: Cell, kind: str) -> Record:
    """What the lab knows of a cell before it is run; the beginning of its record."""
    return {
        "kind": kind,
        "cell": cell.id,
        "numerics": NUMERICS,
        "setting": cell.setting,
        "suite": cell.suite,
        "row": cell.row,
        "benchmark": cell.benchmark,
        "method": cell.method,
        "seed": cell.seed,
        "selection": cell.selection,
        "budget": {
            "name": cell.budget,
            "epochs": cell.settings["train"].get("epochs", 0),
            "fraction": cell.fraction,
            "eval_fraction": cell.eval_fraction,
        },
        "command": cell.command,
        **checkout(),
    }


def refusal(method: str, data: Benchmark) -> str | None:
    """Why a method cannot be applied to a benchmark; None when it can."""
    if is_tree_kind(method):
        return tree_refusal(method, data)
    cls = METHODS[method]
    try:
        check_needs(cls, data)
    except UsageError as error:
        return str(error)
    return cls.refuses.get(data.task.kind)


def failure(cell: Cell, error: str, trace: str = "") -> Record:
    """A record of something that went wrong."""
    return identity(cell, "failed") | {"error": error, "trace": trace, "versions": versions()}


def _probe(name: str, run: Run) -> dict[str, Any]:
    try:
        with one_thread():
            return PROBES[name](run)
    except UsageError as error:
        return {"missing": str(error)}


def _end_with_parent() -> None:
    """Ask for an interrupt, which training holds back until it has saved, when standard input ends."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    home = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, _interrupt)
    _end_with_parent()
    try:
        code = carry_out(Cell.from_json(json.loads((home / "cell.json").read_text())), home)
    except KeyboardInterrupt:
        code = STOPPED
    sys.exit(code)


if __name__ == "__main__":
    main()
