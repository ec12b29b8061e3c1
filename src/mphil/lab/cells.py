"""A cell: one run, known by the hash of everything that decides its outcome."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.config import EncoderConfig, TrainConfig, check_arguments, keyword_arguments
from mphil.errors import UnknownName, UsageError
from mphil.lab.recipes import recipe
from mphil.lab.suite import Effort, Row, Suite, begins
from mphil.methods.base import METHODS
from mphil.methods.published import PRESET, published, published_encoder
from mphil.model.committee.trees import TREES_FORMAT, is_tree_kind
from mphil.model.product.tree_runs import SCORED, check_tree_settings
from mphil.provenance import NUMERICS
from mphil.training.plugged import model_plugins
from mphil.training.run import NO_EFFECT, identify
from mphil.training.settings import (
    SECTIONS,
    Wanted,
    checked,
    hyperparameters,
    merge,
    parse_assignment,
    read_toml,
    split_assignment,
)


def resolved(wanted: Wanted) -> dict[str, dict[str, Any]]:
    """Every key checked and every default filled in, without building the data.

    The encoder keeps what was set: what a benchmark recommends for it is known once it is built.
    """
    for section in wanted:
        if section not in SECTIONS:
            raise UnknownName("section of settings", section, SECTIONS)
    data, method = dict(wanted["benchmark"]), dict(wanted["method"])
    name, preset = str(data.pop("name")), method.pop("preset", None)
    built = {"name": name} | check_arguments(BENCHMARKS[name].build, data, f"benchmark {name}")
    if is_tree_kind(kind := method["name"]):
        check_tree_settings(wanted)
        train = checked(TrainConfig, "train", wanted.get("train", {})).model_dump(include={SCORED})
        return _plain({"benchmark": built, "method": {"name": kind}, "encoder": {}, "train": train})
    cls = METHODS[str(method.pop("name"))]
    authors = published_encoder(cls.name, name) if preset == PRESET else {}
    encoder = authors | dict(wanted.get("encoder", {}))
    settings = {
        "benchmark": built,
        "method": {"name": cls.name} | hyperparameters(cls, preset, method, name),
        "encoder": checked(EncoderConfig, "encoder", encoder).model_dump(include=set(encoder)),
        "train": checked(TrainConfig, "train", wanted.get("train", {})).model_dump(),
    }
    return _plain(settings)


def _plain(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings as JSON gives them back."""
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(settings))
    return plain


def changed(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings that are not the defaults, as `section.key`."""
    method, name = str(settings["method"]["name"]), str(settings["benchmark"]["name"])
    defaults = {
        "benchmark": keyword_arguments(BENCHMARKS[name].build),
        "method": {} if is_tree_kind(method) else keyword_arguments(METHODS[method].__init__),
        "encoder": {},
        "train": TrainConfig().model_dump(),
    }
    plain = _plain(defaults)
    return {
        f"{section}.{key}": value
        for section, values in settings.items()
        for key, value in values.items()
        if not (key == "name" and section in ("method", "benchmark"))
        and not (key in plain[section] and plain[section][key] == value)
    }


def toml(value: Any) -> str:
    """A value so that `--set` reads it back.

    Example:
        >>> toml(True), toml([1, 2]), toml("ema-hard"), toml("3")
        ('true', '[1, 2]', 'ema-hard', '"3"')
    """
    if isinstance(value, str) and value == value.strip() and split_assignment(f"key={value}")[1] == value:
        return value
    return json.dumps(value)


ID_LENGTH = 16
TUNED = Path(__file__).with_name("tuned")
"""Settings that were tuned on validation, METHOD-BENCHMARK.toml."""


@dataclass(frozen=True)
class Cell:
    """One run of a suite.

    Attributes:
        suite: the suite that asked for it.
        row: its row in the suite's table.
        settings: everything the run is given, all defaults filled in but those that come with the data: the sections
            `benchmark`, `method`, `encoder` and `train`.
        seed: of training.
        fraction: share of the training graphs.
        eval_fraction: share of the graphs of every other part.
        probes: what is measured on the trained model besides its scores.
        budget: name of the budget.
        selection: the rule that chooses the reported epoch.
        data_seeds: the data are drawn with the same seed, so that runs of several seeds differ in both.
        command: the command that repeats the run.
    """

    suite: str
    row: str
    settings: Mapping[str, Mapping[str, Any]]
    seed: int
    fraction: float = 1.0
    eval_fraction: float = 1.0
    probes: tuple[str, ...] = ()
    budget: str = ""
    selection: str = "ood_val"
    data_seeds: bool = False
    command: str = ""

    @property
    def benchmark(self) -> str:
        return str(self.settings["benchmark"]["name"])

    @property
    def method(self) -> str:
        return str(self.settings["method"]["name"])

    @property
    def setting(self) -> str:
        """Hash of the settings without the seed: what runs must share to be averaged."""
        settings = {section: dict(values) for section, values in self.settings.items()}
        for key in NO_EFFECT:
            settings["train"].pop(key, None)
        for section in ("method", "train"):
            identify(settings[section], section)
        if is_tree_kind(self.method):
            settings["method"]["format"] = TREES_FORMAT
        if self.data_seeds:
            settings["benchmark"]["seed"] = "that of training"
        return _hash([settings, self.fraction, self.eval_fraction, sorted(self.probes)])

    @property
    def id(self) -> str:
        """Hash of the settings, the seed and the version of the numerics."""
        return _hash([self.setting, self.seed, NUMERICS])

    @property
    def title(self) -> str:
        return f"{self.row} on {self.benchmark}, seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cell:
        return cls(**{**values, "probes": tuple(values["probes"])})


@dataclass(frozen=True)
class Request:
    """What a user asks of a suite beyond its file.

    Attributes:
        budget: name of a budget; the suite's default when absent.
        sets: settings of all runs, as `section.key=value`.
        seeds: seeds in place of the budget's.
        methods: rows (by name or by method) in place of all.
        benchmarks: columns in place of all.
        tuned: folder with files METHOD-BENCHMARK.toml of tuned settings, used where they exist.
    """

    budget: str | None = None
    sets: Sequence[str] = ()
    seeds: Sequence[int] = ()
    methods: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    tuned: Path | None = None


def expand(suite: Suite, request: Request | None = None) -> list[Cell]:
    """The cells of a suite, those of the first seed first.

    Raises:
        UsageError: something that is asked for does not exist, or is no setting of a method that it would go to.
    """
    request = request or Request()
    name = request.budget or suite.budget
    if name not in suite.all_budgets:
        raise UnknownName(f"budget of suite {suite.name}", name, suite.all_budgets)
    budget = suite.all_budgets[name]
    rows, benchmarks = _rows(suite, request.methods), _benchmarks(suite, request.benchmarks)
    cells = []
    for benchmark in benchmarks:
        effort = budget.on(benchmark)
        for row in rows:
            cell = Cell(
                suite=suite.name,
                row=row.name,
                settings=resolved(merge(_layers(suite, row, benchmark, effort, request))),
                seed=0,
                fraction=effort.fraction,
                eval_fraction=effort.eval_fraction,
                probes=suite.probes,
                budget=name,
                selection=suite.selection,
            )
            cells += [_with_seed(cell, seed, suite) for seed in request.seeds or budget.seeds or suite.seeds]
    cells.sort(key=lambda cell: cell.seed)
    return [replace(cell, command=command(cell, request)) for cell in cells]


def _with_seed(cell: Cell, seed: int, suite: Suite) -> Cell:
    """The cell with a seed of training and, where the suite wants it, the same seed of the data."""
    if not any(begins(cell.benchmark, words) for words in suite.data_seeds):
        return replace(cell, seed=seed)
    data = {**cell.settings["benchmark"], "seed": seed}
    return replace(cell, seed=seed, data_seeds=True, settings={**cell.settings, "benchmark": data})


def command(cell: Cell, request: Request | None = None) -> str:
    """What to type to repeat a cell: plain training where that can say it all, else the cell of the suite."""
    if cell.fraction == cell.eval_fraction == 1 and not cell.probes:
        words = ["train", "--benchmark", cell.benchmark, "--method", cell.method, "--seed", str(cell.seed)]
        sets = [f"{key}={toml(value)}" for key, value in changed(cell.settings).items()]
    else:
        words = ["lab", "run", cell.suite, "--budget", cell.budget, "--methods", cell.row]
        words += ["--benchmarks", cell.benchmark, "--seeds", str(cell.seed)]
        sets = list(request.sets) if request else []
        words += ["--tuned", str(request.tuned)] if request and request.tuned else []
    words += [word for text in sets for word in ("--set", text)]
    return shlex.join(["mphil", *words, *plugin_words(cell)])


def plugin_words(cell: Cell) -> list[str]:
    """The options that name the files of the plug-ins of a cell; installed packages need none."""
    encoder = str(cell.settings["encoder"].get("kind", EncoderConfig().kind))
    named = (BENCHMARKS.plugin(cell.benchmark), *model_plugins(cell.method, encoder))
    files = dict.fromkeys(plugin.file for plugin in named if plugin is not None and not plugin.package and plugin.file)
    return [word for file in files for word in ("--plugin", file)]


def _layers(suite: Suite, row: Row, benchmark: str, effort: Effort, request: Request) -> Iterable[Wanted]:
    """Later ones win: recipe, suite, published, tuned, row, budget, --set."""
    trees = is_tree_kind(row.method)
    if suite.recipes and not trees:
        yield recipe(benchmark, row.method)
    yield _of_trees(suite.settings) if trees else suite.settings
    if suite.published and not trees:
        yield {"method": _published(row.method, benchmark), "encoder": published_encoder(row.method, benchmark)}
    if (request.tuned or suite.tuned) and not trees:
        yield _tuned(request.tuned or TUNED, row.method, benchmark, needed=suite.tuned)
    yield dict(row.settings)
    if effort.epochs is not None and not trees:
        yield {"train": {"epochs": effort.epochs}}
    for text in request.sets:
        wanted = parse_assignment(text)
        if "seed" in wanted or "name" in wanted.get("method", {}) or "name" in wanted.get("benchmark", {}):
            raise UsageError(f"--set {text!r}: use --seeds, --methods or --benchmarks to choose cells")
        yield _of_trees(wanted) if trees else wanted
    yield {"method": {"name": row.method}, "benchmark": {"name": benchmark}}


def _of_trees(shared: Wanted) -> Wanted:
    """What settings of all rows say to trees: those of networks do not reach them."""
    train = {key: value for key, value in shared.get("train", {}).items() if key == SCORED}
    return {section: values for section, values in shared.items() if section != "encoder"} | {"train": train}


def _tuned(folder: Path, method: str, benchmark: str, *, needed: bool) -> Wanted:
    file = folder / f"{method}-{benchmark}.toml"
    if file.exists():
        return read_toml(file)
    if needed:
        raise UsageError(f"{file} is not there; tune first: mphil lab tune {method} {benchmark} --out {folder}")
    return {}


def _published(method: str, benchmark: str) -> dict[str, Any]:
    try:
        return published(method, benchmark)
    except UsageError:  # nothing was published for this benchmark: the defaults
        return {}


def _rows(suite: Suite, wanted: Sequence[str]) -> list[Row]:
    """The rows that are called so, or, where none is, those of the method that is called so."""
    rows = suite.rows()
    names, methods = {row.name for row in rows}, {row.method for row in rows}
    for name in wanted:
        if name not in names | methods:
            raise UnknownName(f"row of suite {suite.name}", name, names | methods)
    groups = methods - names
    return [row for row in rows if not wanted or row.name in wanted or row.method in groups.intersection(wanted)]


def _benchmarks(suite: Suite, wanted: Sequence[str]) -> list[str]:
    for name in wanted:
        if name not in suite.benchmarks:
            raise UnknownName(f"benchmark of suite {suite.name}", name, suite.benchmarks)
    return [name for name in suite.benchmarks if not wanted or name in wanted]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:ID_LENGTH]
