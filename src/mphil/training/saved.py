"""What can be done with the folder of a run: go on, and score."""

from __future__ import annotations

from pathlib import Path

from mphil.benchmarks.base import Benchmark, benchmark
from mphil.config import RunConfig
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.methods.base import Method, build_method
from mphil.training.checkpoint import Checkpoints
from mphil.training.metrics import score_parts
from mphil.training.plugged import check_plugins
from mphil.training.run import fingerprint, read_run_config, read_run_plugins
from mphil.training.trainer import RULES


def stored_run(folder: Path) -> tuple[RunConfig, Benchmark]:
    """Settings and data of the run in a folder, the data built anew and checked to be the same."""
    check_plugins(str(folder), read_run_plugins(folder))
    config, identity = read_run_config(folder)
    try:
        data = benchmark(config.benchmark.name, **config.benchmark.args)
    except UsageError as error:
        raise IntegrityError(f"{folder}: the data of the run cannot be built again ({error})") from None
    try:
        now = fingerprint(config, data)
    except UsageError as error:
        raise IntegrityError(
            f"{folder}: the weights that the run started from cannot be read ({error.__cause__}); put the file back"
        ) from None
    if now != identity:
        inputs = "the data, the weights in train.start" if config.train.start else "the data"
        raise IntegrityError(f"{folder}: {inputs} or the numerics of mphil are not those of the run; train it anew")
    return config, data


def load_run(folder: Path, rule: str = "ood_val") -> tuple[RunConfig, Benchmark, Method]:
    """Settings, data and trained method of a run, with the weights that the selection rule chose."""
    if rule not in RULES:
        raise UnknownName("selection rule", rule, RULES)
    config, data = stored_run(folder)
    if not len(data.split[rule]):
        raise UsageError(f"{folder}: {data.name} has no {rule} part to choose an epoch on; use another --selection")
    checkpoints = Checkpoints(folder / "checkpoint")
    if not checkpoints.exists() or f"best-{rule}" not in checkpoints.groups():
        raise UsageError(f"{folder}: no epoch was chosen on {rule} yet; go on with `mphil resume {folder}`")
    method = build_method(config.method.name, data.task, config.encoder, config.method.args)
    method.load_state_dict(checkpoints.load(f"best-{rule}"))
    return config, data, method.eval()


def evaluate_run(folder: Path, rule: str = "ood_val") -> tuple[dict[str, float | None], str]:
    """Score of the saved model on every part, and the name of the metric."""
    config, data, method = load_run(folder, rule)
    return score_parts(method, data, config.train.eval_batch_size), data.task.metric
