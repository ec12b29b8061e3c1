"""Search for hyperparameters: the same number of settings for every method, judged on validation scores alone."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mphil.errors import DataError, UnknownName, UsageError
from mphil.files import write_text
from mphil.graphs.loader import derive_seed
from mphil.lab.cells import Cell, command, plugin_words, resolved
from mphil.lab.engine import Engine, Outcome
from mphil.lab.recipes import recipe
from mphil.lab.records import FAILED, Record, RecordFile
from mphil.methods.base import METHODS
from mphil.model.committee.trees import is_tree_kind
from mphil.task import LOWER_IS_BETTER
from mphil.training.settings import merge, parse_assignment
from mphil.training.trainer import RULES

ASKS = 20
"""How often the sampler may come back with settings that were tried before, for each one that is wanted."""
FIGURES = 4

Space = dict[str, list[Any]]
Point = dict[str, Any]


@dataclass(frozen=True)
class Search:
    """What to search.

    Attributes:
        method: whose hyperparameters.
        benchmark: on which data.
        trials: settings to try; all there are, if there are fewer.
        selection: the validation part that judges, and that chooses the epoch.
        seed: of the search and of the runs.
        also: further settings to search, as `section.key=[values]`.
        sets: settings of all runs, as `section.key=value`.
        fraction: share of the training graphs.
        eval_fraction: share of the graphs of every other part.
        recipe: all runs have the recipe of the family of data, under `sets`.
    """

    method: str
    benchmark: str
    trials: int
    selection: str = "ood_val"
    seed: int = 0
    also: Sequence[str] = ()
    sets: Sequence[str] = ()
    fraction: float = 1.0
    eval_fraction: float = 1.0
    recipe: bool = False

    @property
    def name(self) -> str:
        return f"{self.method}-{self.benchmark}"

    def space(self) -> Space:
        """Setting to the values to try: the method's own, then the further ones."""
        if is_tree_kind(self.method):
            raise UsageError(f"method {self.method} has no settings to search")
        space = {f"method.{key}": list(values) for key, values in METHODS[self.method].search_space.items()}
        for text in self.also:
            for section, values in parse_assignment(text).items():
                for key, choices in values.items() if isinstance(values, dict) else [("", values)]:
                    if not isinstance(choices, list) or not choices:
                        raise UsageError(f"--also {text!r}: write section.key=[values], such as train.lr=[0.001,0.01]")
                    space[f"{section}.{key}"] = choices
        return space

    def cell(self, point: Point) -> Cell:
        """The run that judges a point of the space."""
        named = {"benchmark": {"name": self.benchmark}, "method": {"name": self.method}}
        chosen = [parse_assignment(f"{key}={json.dumps(value)}") for key, value in point.items()]
        shared = recipe(self.benchmark, self.method) if self.recipe else {}
        settings = resolved(merge([shared, *map(parse_assignment, self.sets), *chosen, named]))
        cell = Cell(self.name, self.method, settings, self.seed, self.fraction, self.eval_fraction, budget="tune")
        plain = self.fraction == self.eval_fraction == 1
        words = command(cell) if plain else f"{self.command} {shlex.join(plugin_words(cell))}".strip()
        return replace(cell, selection=self.selection, command=words)

    def untuned(self) -> Point:
        """What would be taken without a search, as far as it is among the values to try."""
        settings, point = self.cell({}).settings, {}
        for name, values in self.space().items():
            section, _, key = name.partition(".")
            if (value := settings[section].get(key)) in values:
                point[name] = value
        return point

    @property
    def command(self) -> str:
        """What to type to repeat the search."""
        words = ["mphil", "lab", "tune", self.method, self.benchmark, "--trials", self.trials]
        words += ["--selection", self.selection, "--seed", self.seed]
        words += ["--fraction", self.fraction, "--eval-fraction", self.eval_fraction]
        words += ["--recipe"] if self.recipe else []
        words += [word for text in self.also for word in ("--also", text)]
        words += [word for text in self.sets for word in ("--set", text)]
        return shlex.join(map(str, words))


@dataclass(frozen=True)
class Best:
    """The winner of a search: its validation score, settings, number, how many were tried, and the file."""

    score: float
    point: Point
    trial: int
    trials: int
    file: Path


@dataclass
class _Progress:
    """What a search knows while it runs: trials that wait for each cell, records, cells that failed, points tried."""

    waiting: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    records: dict[str, Record] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)


def search(wanted: Search, engine: Engine, out: Path, tell: Callable[[str], None] = lambda text: None) -> Best:
    """Try settings and write the best to `out`; a search that was cut goes on with the same call.

    Args:
        wanted: what to search.
        engine: where the runs are done.
        out: folder for the study, its records and the best settings, METHOD-BENCHMARK.toml.
        tell: is given a line after every trial.

    Raises:
        UsageError: the method refuses the benchmark, or a setting does not exist.
        DataError: no setting could be scored.
    """
    if wanted.selection not in RULES:
        raise UnknownName("selection rule", wanted.selection, RULES)
    for fraction in (wanted.fraction, wanted.eval_fraction):
        if not 0 < fraction <= 1:
            raise UsageError(f"a fraction of the graphs is above 0 and at most 1, not {fraction:g}")
    space = wanted.space()
    wanted.cell({key: values[0] for key, values in space.items()})
    out.mkdir(parents=True, exist_ok=True)
    study = _study(wanted, space, out)
    file = RecordFile(out / f"{wanted.name}.jsonl")
    records, left_out = file.read()
    for sentence in left_out:
        tell(f"note: {sentence}")
    progress = _Progress(records={record["cell"]: record for record in records})
    with closing(engine.run(_ask(study, wanted, space, progress))) as outcomes:
        for outcome in outcomes:
            _note(outcome, file, progress)
            for number in progress.waiting.pop(outcome.cell.id):
                _tell(study, number, outcome.record, wanted.selection)
                tell(f"trial {number}: {_describe(study, number)}")
            if outcome.state == "run":
                engine.clear(outcome.cell)
    return _finish(study, wanted, out)


def _study(wanted: Search, space: Space, out: Path) -> Any:
    """The study of this very search, kept in a journal; another one if anything that matters is different."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise UsageError("tuning needs optuna; install it with `pip install 'mphil[tune]'`") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    fixed = wanted.cell({key: values[0] for key, values in space.items()})
    identity = [fixed.id, space, wanted.selection]
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    storage = JournalStorage(JournalFileBackend(str(out / f"{wanted.name}.journal")))
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if not study.trials:
        study.enqueue_trial(wanted.untuned())
    # A new stream after a pause: the same seed would propose the same settings once more.
    study.sampler = optuna.samplers.TPESampler(seed=derive_seed(wanted.seed, "tune", len(study.trials)) % 2**32)
    return study


def _ask(study: Any, wanted: Search, space: Space, progress: _Progress) -> Iterator[Cell]:
    """Cells to run: those that were cut, then new ones until enough different settings have been tried."""
    from optuna.trial import TrialState

    begun = [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]
    progress.tried |= {_key(trial.params) for trial in begun if trial.params.keys() == space.keys()}
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        if trial.params.keys() == space.keys():  # else it was cut before its settings were complete
            yield from _due(study, trial.number, trial.params, wanted, progress)
        else:
            study.tell(trial.number, state=TrialState.FAIL)
    goal = min(wanted.trials, math.prod(map(len, space.values())))
    for _ in range(ASKS * goal):
        if len(progress.tried) >= goal:
            return
        trial = study.ask()
        point = {key: trial.suggest_categorical(key, values) for key, values in space.items()}
        progress.tried.add(_key(point))
        yield from _due(study, trial.number, point, wanted, progress)


def _due(study: Any, number: int, point: Point, wanted: Search, progress: _Progress) -> Iterator[Cell]:
    """The cell of a trial, unless its outcome is known or another trial already waits for it."""
    cell = wanted.cell(point)
    if cell.id in progress.records or cell.id in progress.failed:
        _tell(study, number, progress.records.get(cell.id, {}), wanted.selection)
        return
    progress.waiting[cell.id].append(number)
    if len(progress.waiting[cell.id]) == 1:
        yield cell


def _note(outcome: Outcome, file: RecordFile, progress: _Progress) -> None:
    """Put an outcome on disk."""
    if outcome.state == "busy":
        raise UsageError(f"another search is at work on {outcome.cell.title}; wait for it")
    if outcome.state == "refused":
        raise UsageError(outcome.record["reason"])
    if outcome.state == "failed":
        RecordFile(file.path.with_name(file.path.stem + FAILED)).append(outcome.record, once=False)
        progress.failed.add(outcome.cell.id)
    else:
        file.append(outcome.record)
        progress.records[outcome.cell.id] = outcome.record


def _tell(study: Any, number: int, record: Record, rule: str) -> None:
    """Tell the search what came out: higher is better, so errors count with a minus sign."""
    from optuna.trial import TrialState

    score = record.get("selections", {}).get(rule, {"scores": {}})["scores"].get(rule)
    if score is None:
        study.tell(number, state=TrialState.FAIL)
    else:
        study.tell(number, -score if record.get("metric") in LOWER_IS_BETTER else score)


def _describe(study: Any, number: int) -> str:
    trial = study.trials[number]
    score = "failed" if trial.value is None else f"{trial.value:.{FIGURES}f}"
    return f"{score}  " + ", ".join(f"{key}={value}" for key, value in trial.params.items())


def _finish(study: Any, wanted: Search, out: Path) -> Best:
    """Write the best settings as a file for `--config`."""
    scored = [trial for trial in study.trials if trial.value is not None]
    if not scored:
        raise DataError(
            f"{wanted.name}: no settings could be scored on {wanted.selection}; see {out}/{wanted.name}{FAILED}"
        )
    best = max(scored, key=lambda trial: trial.value)  # the earliest of equals
    tried = len({_key(trial.params) for trial in scored})
    sections: dict[str, Point] = {"method": {"name": wanted.method}}
    for name, value in best.params.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    fixed = " ".join([*["the recipe of the family"] * wanted.recipe, *wanted.sets]) or "the defaults"
    lines = [
        f"# Best of {tried} settings of {wanted.method} on {wanted.benchmark}, written by `mphil lab tune`.",
        f"# {wanted.selection} {best.value:.{FIGURES}f}, seed {wanted.seed}; all runs with {fixed}.",
    ]
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    file = out / f"{wanted.name}.toml"
    write_text(file, "\n".join(lines) + "\n")
    return Best(best.value, dict(best.params), best.number, tried, file)


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)
