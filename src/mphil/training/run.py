"""A run: settings in, result out, everything in between safe in one folder."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mphil.benchmarks.catalogue import Benchmark, benchmark
from mphil.config import RunConfig
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.files import write_json
from mphil.graphs.loader import derive_seed
from mphil.methods.base import METHODS, Method, build_method
from mphil.nn import world
from mphil.nn.fast.library import path_taken
from mphil.nn.threads import one_thread
from mphil.provenance import NUMERICS, code_digest, machine, versions
from mphil.registry import Plugin
from mphil.tables.from_smiles import with_descriptors
from mphil.training.callbacks import Callback, FileLog, check_loggers, open_logger, training_bar
from mphil.training.checkpoint import Checkpoints
from mphil.training.distributed import SharedCheckpoints, check_parallel, joined
from mphil.training.metrics import last_scores, score_parts
from mphil.training.plugged import check_plugins, needed_plugins
from mphil.training.process import lock_run
from mphil.training.recipe import start_digest, start_from
from mphil.training.settings import Wanted, merge, resolve
from mphil.training.trainable import check_accumulation, check_needs, check_trainable, notes
from mphil.training.trainer import RULES, Trainer

_LOG = logging.getLogger(__name__)

NO_EFFECT = ("checkpoint_minutes", "loggers", "threads")
"""Training settings that cannot change a result."""

ADDED_OPTIONS = {
    "benchmark.task": "",
    "method.descriptors": False,
    "train.distract": 0.0,
    "train.mix_features": 0.0,
    "train.start": "",
}
"""Settings that came later: at their default they leave the identity of earlier runs as it was."""


@dataclass(frozen=True)
class Run:
    """A finished run: settings, result, trained method, the record of every epoch, and the folder if it has one."""

    config: RunConfig
    result: dict[str, Any]
    method: Method
    benchmark: Benchmark
    history: list[dict[str, Any]]
    folder: Path | None = None

    @property
    def scores(self) -> dict[str, dict[str, float | None]]:
        """Score of each part under each selection rule."""
        return {rule: chosen["scores"] for rule, chosen in self.result["selections"].items()}


def train(
    data: Benchmark | str,
    method: str | Mapping[str, Any] = "mphil",
    *,
    seed: int = 0,
    preset: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    **sections: Any,
) -> Run:
    """Train a method on a benchmark.

    Args:
        data: a benchmark, or the name of one.
        method: name of a method, or `{"name": "mphil", "temperature": 0.2}` to set hyperparameters.
        seed: of initialisation, order and dropout.
        preset: named hyperparameters of the method.
        out: folder for checkpoints, logs and the result, and `mphil.train` also writes a bundle there; without it
            nothing is written.
        resume: go on with the run in `out` if there is one.
        callbacks: who is told of every step and epoch; of several processes, those of the first.
        sections: settings by section, as in a settings file: `train={"epochs": 20}, encoder={"width": 64}`, and
            `benchmark={"graphs": 600}` when `data` is a name.

    Example:
        >>> import mphil
        >>> data = mphil.benchmark("good-motif-basis", graphs=300)
        >>> run = mphil.train(data, "erm", train={"epochs": 1, "batch_size": 60}, encoder={"width": 8})
        >>> sorted(run.scores)
        ['id_val', 'ood_val']
    """
    layers: list[Wanted] = [sections, {"method": method, "seed": seed}]
    if preset is not None:
        layers.append({"method": {"preset": preset}})
    if isinstance(data, str):
        layers.append({"benchmark": data})
    config, benchmark = resolve(merge(layers), None if isinstance(data, str) else data)
    return execute(config, benchmark, None if out is None else Path(out), resume=resume, callbacks=callbacks)


def execute(
    config: RunConfig,
    benchmark: Benchmark,
    folder: Path | None,
    *,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Carry out a run; in a folder, it can be cut at any point and taken up again."""
    check_trainable(benchmark, config.train)
    check_needs(METHODS[config.method.name], benchmark)
    check_accumulation(METHODS[config.method.name], config.train)
    check_loggers(config.train.loggers, folder)
    check_callbacks(callbacks)
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        stack.enter_context(joined(config.train.device))
        check_parallel(METHODS[config.method.name])
        torch.manual_seed(derive_seed(config.seed, "weights"))
        method = build_method(config.method.name, benchmark.task, config.encoder, config.method.args)
        if config.train.start:
            start_from(method, config.encoder, config.train.start)
        benchmark = with_inputs(benchmark, method)
        identity = fingerprint(config, benchmark)
        mine = folder if world.rank() == 0 else None
        if mine is not None:
            stack.enter_context(open_folder(mine, config, identity, resume))
        if world.rank() == 0:
            for note in notes(config, benchmark):
                _LOG.warning("%s", note)
        checkpoints = None if folder is None else SharedCheckpoints(folder / "checkpoint")
        trainer = Trainer(method, benchmark, config.train, config.seed, checkpoints)
        if mine is not None:
            trainer.callbacks.append(FileLog(mine))
            settings = leaves(config.model_dump(mode="json"))
            for name in dict.fromkeys(config.train.loggers):
                logger = open_logger(name, mine, trainer.at.step, settings)
                trainer.callbacks.append(stack.enter_context(closing(logger)))
        if world.rank() == 0:
            trainer.callbacks.extend(callbacks)
        with training_bar(config.method.name, trainer.progress) as bar:
            trainer.callbacks.append(bar)
            trainer.fit()
        result = summarise(trainer, config, identity)
        if mine is not None:
            write_json(mine / "result.json", result)
    return Run(config, result, method, benchmark, trainer.at.history, folder)


def with_inputs(benchmark: Benchmark, method: Method) -> Benchmark:
    """The data with all that the method reads: for one that takes descriptors, those of the molecules."""
    if not method.takes_descriptors:
        return benchmark
    return replace(benchmark, store=with_descriptors(benchmark.store))


@contextmanager
def open_folder(folder: Path, config: RunConfig, identity: str, resume: bool) -> Iterator[None]:
    """Hold a folder for this run: one that is new or empty, or, to resume, one that holds this very run.

    Args:
        folder: of the run.
        config: its settings.
        identity: its `fingerprint`.
        resume: go on with a run that is there.

    Raises:
        UsageError: the folder holds something else, or a run that was not to be resumed.
        IntegrityError: another process is at work in it, or the run in it is not this one.
    """
    path = folder / "config.json"
    if folder.exists() and not path.exists():
        # Before the lock, which would already leave a trace in a folder that is not ours.
        others = [p.name for p in folder.iterdir() if not p.name.startswith((".lock", ".config.json.draft-"))]
        if others:
            raise UsageError(f"{folder} is not empty ({', '.join(sorted(others)[:3])}); choose another --out")
    with lock_run(folder):
        if not path.exists():
            plugins = [plugin.model_dump() for plugin in needed_plugins(config)]
            write_json(path, {"config": config.model_dump(mode="json"), "fingerprint": identity, "plugins": plugins})
        elif not resume:
            raise UsageError(
                f"{folder} already holds a run; go on with `mphil resume {folder}` or choose another --out"
            )
        else:
            stored, before = read_run_config(folder)
            if before != identity:
                other = "other data or other numerics of mphil"
                if config.train.start:
                    other += f", or other weights in train.start={config.train.start}"
                what = ", ".join(differences(stored, config)[:3]) or other
                raise IntegrityError(f"{folder} holds a different run ({what}); choose another --out")
        yield


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    for number, callback in enumerate(callbacks):
        if not isinstance(callback, Callback):
            raise UsageError(
                f"callbacks[{number}] is {callback!r}; give objects of a class derived from mphil.Callback"
            )


def differences(stored: RunConfig, given: RunConfig) -> list[str]:
    """The settings in which two runs differ, as `train.lr is 0.1 there, 0.2 here`."""
    there, here = leaves(stored.model_dump(mode="json")), leaves(given.model_dump(mode="json"))
    keys = [key for key in (there | here) if there.get(key) != here.get(key)]
    return [f"{key} is {there.get(key)} there, {here.get(key)} here" for key in keys]


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    """Nested settings as one level: {"train": {"lr": 1}} -> {"train.lr": 1}."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {k: v for key, below in tree.items() for k, v in leaves(below, f"{path}.{key}".lstrip(".")).items()}


def read_run_config(folder: Path) -> tuple[RunConfig, str]:
    """The stored settings of a run, and its fingerprint."""
    try:
        stored = json.loads((folder / "config.json").read_text())
        return RunConfig(**stored["config"]), str(stored["fingerprint"])
    except FileNotFoundError:
        raise UsageError(f"{folder}: no run here (config.json is missing)") from None
    except (ValueError, KeyError, TypeError) as error:
        what = str(error).splitlines()[0]
        raise IntegrityError(f"{folder}/config.json cannot be read ({what}); restore it or start a new run") from None


def read_run_plugins(folder: Path) -> list[Plugin]:
    """The plug-ins that were recorded with a run."""
    try:
        stored = json.loads((folder / "config.json").read_text())
        return [Plugin(**plugin) for plugin in stored.get("plugins", [])]
    except FileNotFoundError:
        return []
    except (ValueError, AttributeError, TypeError) as error:
        what = str(error).splitlines()[0]
        raise IntegrityError(f"{folder}/config.json cannot be read ({what}); restore it or start a new run") from None


def summarise(trainer: Trainer, config: RunConfig, identity: str) -> dict[str, Any]:
    """All five parts under every selection rule, with all that is needed to trust and repeat the numbers.

    A rule whose part is empty could not choose and is left out. The method is left with the weights chosen on the first
    rule that could.
    """
    history = trainer.at.history
    scores = {len(history): trainer.evaluate()}
    chosen: dict[str, Any] = {}
    for rule in reversed(RULES):
        epoch = trainer.best_epoch(rule)
        if rule in trainer.best and epoch is not None:
            trainer.load_best(rule)
            if epoch not in scores:
                scores[epoch] = trainer.evaluate()
            chosen[rule] = {"epoch": epoch, "scores": scores[epoch]}
    return {
        **origin(config, trainer.benchmark, identity),
        "selections": {rule: chosen[rule] for rule in RULES if rule in chosen},
        "last": {"epoch": len(history), "scores": scores[len(history)]},
        "last5": last_scores(history, 5),
        "earlier_stages": trainer.at.earlier,
        "notes": notes(config, trainer.benchmark),
        "parameters": sum(p.numel() for p in trainer.method.parameters()),
        "seconds": trainer.at.seconds,
        "cpu_seconds": trainer.at.cpu_seconds,
        "path": path_taken(trainer.device),
    }


def origin(config: RunConfig, benchmark: Benchmark, identity: str) -> dict[str, Any]:
    """What a result says of where it comes from: settings, data, code and machine.

    Args:
        config: of the run.
        benchmark: its data.
        identity: its `fingerprint`.
    """
    return {
        "benchmark": config.benchmark.name,
        "method": config.method.name,
        "metric": benchmark.task.metric,
        "seeds": {"training": config.seed, "data": config.benchmark.args.get("seed")},
        "config": config.model_dump(mode="json"),
        "numerics": NUMERICS,
        "fingerprint": identity,
        "data_digest": benchmark.store.digest(),
        "split_digest": benchmark.split.digest(),
        "versions": versions(),
        "code": code_digest(),
        "machine": machine(),
        "plugins": [plugin.model_dump() for plugin in needed_plugins(config)],
    }


def fingerprint(config: RunConfig, benchmark: Benchmark) -> str:
    """Hash of everything that decides a result: settings, data, version of the numerics."""
    settings = config.model_dump(mode="json")
    for key in NO_EFFECT:
        settings["train"].pop(key)
    for section in ("benchmark", "method"):
        identify(settings[section]["args"], section)
    identify(settings["train"], "train")
    identity = [settings, benchmark.store.digest(), benchmark.split.digest(), NUMERICS]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def identify(values: dict[str, Any], section: str) -> None:
    """Make the settings of a section those of an identity: no `ADDED_OPTIONS` at their defaults, weights by content."""
    for option, default in ADDED_OPTIONS.items():
        place, key = option.split(".")
        if place == section and values.get(key) == default:
            del values[key]
    if section == "train" and "start" in values:
        values["start"] = start_digest(values["start"])


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
    return config, with_inputs(data, method), method.eval()


def evaluate_run(folder: Path, rule: str = "ood_val") -> tuple[dict[str, float | None], str]:
    """Score of the saved model on every part, and the name of the metric."""
    config, data, method = load_run(folder, rule)
    return score_parts(method, data, config.train.eval_batch_size), data.task.metric
