"""A suite: one table or figure as data, in a TOML file. What it asks for is checked before anything runs."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.config import Settings
from mphil.errors import UnknownName, UsageError
from mphil.lab.probes import PROBES
from mphil.methods.base import METHODS
from mphil.model.committee.trees import TREE_KINDS
from mphil.training.metrics import Selection
from mphil.training.settings import parse_assignment

TABLES = ("ablation", "drugood", "good", "spmotif-binary")
ROWS = {"CIGA": "ciga-v2", "G-mixup": "gmixup"}
"""Rows that are called otherwise here; a method's name here is else the paper's in small letters."""


@dataclass(frozen=True)
class Printed:
    """A printed figure; the standard deviation is None where none was given."""

    mean: float
    sd: float | None = None


@cache
def printed(table: str) -> dict[tuple[str, str], Printed]:
    """(row, benchmark) to the figures of a table, with rows called as they are here.

    Example:
        >>> printed("good")["erm", "good-motif-basis"]
        Printed(mean=60.93, sd=2.11)
    """
    return {
        (row_name(line["method"]), line["benchmark"]): Printed(float(line["mean"]), float(line["std"]))
        for line in _lines("paper_results.csv")
        if line["table"] == table and line["mean"]
    }


@cache
def reported() -> dict[tuple[str, str], dict[str, Printed]]:
    """(method, benchmark) to figures that others than the paper report, by who does.

    Example:
        >>> reported()["erm", "good-motif-size"]
        {'GOOD leaderboard': Printed(mean=53.46, sd=4.08)}
    """
    found: dict[tuple[str, str], dict[str, Printed]] = {}
    for line in _lines("reported.csv"):
        figure = Printed(float(line["mean"]), float(line["std"]) if line["std"] else None)
        found.setdefault((line["method"], line["benchmark"]), {})[line["source"]] = figure
    return found


def _lines(name: str) -> list[dict[str, str]]:
    text = files("mphil.lab").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def row_name(printed_name: str) -> str:
    """What a row of the paper is called here; the variants of the ablation keep their names."""
    if printed_name.startswith("w/o"):
        return printed_name
    return ROWS.get(printed_name, printed_name.lower())


FULL = "full"
"""The budget that every suite has: its own settings and seeds, all graphs."""
WORDS = r"^[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$"
"""Names of suites, which become names of files: no folders, no control characters."""
Figure = Literal["", "curve", "bars", "time", "separability", "prototypes", "health"]


def begins(benchmark: str, words: str) -> bool:
    """Whether these are the first words of a benchmark's name.

    Example:
        >>> begins("good-motif-size", "good-motif"), begins("good-motif-size", "good-mo")
        (True, False)
    """
    return f"{benchmark}-".startswith(f"{words}-")


class Effort(Settings):
    """How much is spent on a benchmark.

    Attributes:
        epochs: passes over the training part; the suite's when absent.
        fraction: share of the training graphs.
        eval_fraction: share of the graphs of every other part.
    """

    epochs: int | None = Field(None, ge=1)
    fraction: float = Field(1.0, gt=0, le=1)
    eval_fraction: float = Field(1.0, gt=0, le=1)


class Budget(Effort):
    """How much is spent on a suite; it is part of every record and of every caption.

    Attributes:
        seeds: seeds of training; the suite's when absent.
        per: other efforts for some benchmarks, by the first words of their names; the longest match wins.
    """

    seeds: tuple[int, ...] = ()
    per: dict[str, Effort] = Field(default_factory=dict)

    def on(self, benchmark: str) -> Effort:
        """The effort for a benchmark; what its own entry leaves open is the budget's."""
        matching = [name for name in self.per if begins(benchmark, name)]
        own = self.per[max(matching, key=len)].model_dump(exclude_unset=True) if matching else {}
        return Effort(**(self.model_dump(include=set(Effort.model_fields)) | own))


class Variant(Settings):
    """A row that is a method with settings of its own."""

    name: str
    method: str
    settings: dict[str, Any] = Field(default_factory=dict)


class Vary(Settings):
    """Rows that differ in one setting, such as `method.prototypes`."""

    method: str
    key: str
    values: tuple[float, ...]


class Suite(Settings):
    """Rows (methods, variants) by columns (benchmarks), with seeds and settings.

    Attributes:
        name: name of the file.
        title: heading of its part of the report.
        paper: the table or figure of the paper it repeats.
        reference: its table among the paper's figures.
        notes: what a reader of the numbers has to know.
        benchmarks: the columns.
        methods: rows with default settings, or `all` networks.
        variants: rows with settings of their own.
        vary: rows that differ in one setting.
        seeds: seeds of training.
        data_seeds: benchmarks, by the first words of their names, whose data are drawn with the seed of training.
        selection: the rule that chooses the epoch of every number.
        recipes: take the recipe of the family of data that a benchmark belongs to.
        published: take the hyperparameters published for a method on a benchmark, where there are any.
        tuned: take the settings that were tuned for each method on each benchmark and come with the package.
        against: the row that all others are tested against.
        probes: what is measured on every trained model besides its scores.
        figure: how the records are drawn.
        hide_test: leave test scores out of the report, since choices are made on validation.
        classes: benchmark to its number of classes, where time is drawn against it.
        settings: settings of all runs, by section.
        budgets: what can be spent, by name.
        budget: the one that is taken unless another is asked for.
    """

    name: str = Field(pattern=WORDS)
    title: str
    paper: str = ""
    reference: str = ""
    notes: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = Field(min_length=1)
    methods: tuple[str, ...] | Literal["all"] = ()
    variants: tuple[Variant, ...] = ()
    vary: Vary | None = None
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1)
    data_seeds: tuple[str, ...] = ()
    selection: Selection = "ood_val"
    recipes: bool = False
    published: bool = False
    tuned: bool = False
    against: str = ""
    probes: tuple[str, ...] = ()
    figure: Figure = ""
    hide_test: bool = False
    classes: dict[str, int] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    budgets: dict[str, Budget] = Field(default_factory=dict)
    budget: str = FULL

    @property
    def all_budgets(self) -> dict[str, Budget]:
        return {FULL: Budget()} | self.budgets

    @property
    def size(self) -> int:
        """How many cells it has under its usual budget."""
        seeds = self.all_budgets[self.budget].seeds or self.seeds
        return len(self.rows()) * len(self.benchmarks) * len(seeds)

    def rows(self) -> list[Row]:
        """The rows of the table, in its order."""
        names = tuple(METHODS) if self.methods == "all" else self.methods
        rows = [Row(name, name) for name in names]
        rows += [Row(variant.name, variant.method, variant.settings) for variant in self.variants]
        if self.vary is not None:
            short = self.vary.key.rpartition(".")[2]
            rows += [
                Row(f"{short} {value:g}", self.vary.method, parse_assignment(f"{self.vary.key}={value:g}"), value)
                for value in self.vary.values
            ]
        return rows


@dataclass(frozen=True)
class Row:
    """A row of a table: what it is called, the method, its own settings, and its place on an x axis if it has one."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    x: float | None = None


def known_methods() -> list[str]:
    """What a row can be: a network, or trees."""
    return [*METHODS, *TREE_KINDS]


def suite_names() -> list[str]:
    """The suites that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_suite(name: str) -> Suite:
    """A suite by name, or from a TOML file of one's own.

    Raises:
        UsageError: there is no such suite, or it asks for something that does not exist.
    """
    if name.endswith(".toml"):
        path = Path(name)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not a TOML file: {error}") from None
        return parse_suite(path.stem, text)
    if name not in suite_names():
        raise UnknownName("suite", name, suite_names())
    return parse_suite(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def parse_suite(name: str, text: str) -> Suite:
    """A suite from the text of its file, checked."""
    try:
        suite = Suite(**({"name": name} | tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"suite {name}: not a TOML file: {error}") from None
    except ValidationError as error:
        raise _explained(name, error) from None
    _check(suite)
    return suite


def _folder() -> Any:
    return files("mphil.lab").joinpath("suites")


def _check(suite: Suite) -> None:
    rows = suite.rows()
    names = [row.name for row in rows]
    if not rows:
        raise UsageError(f"suite {suite.name}: no rows; give methods, variants or vary")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise UsageError(f"suite {suite.name}: the row {min(repeated)!r} is there twice; rename one of them")
    for name in names:
        if "," in name:
            raise UsageError(f"suite {suite.name}: the row {name!r} has a comma, which separates rows in --methods")
    for kind, wanted, known in _names(suite, rows):
        if wanted not in known:
            raise UnknownName(f"{kind} in suite {suite.name}:", wanted, known)


def _names(suite: Suite, rows: Iterable[Row]) -> Iterable[tuple[str, str, Iterable[str]]]:
    """Everything a suite calls by name: what it is, the name, the names there are."""
    yield from (("method", row.method, known_methods()) for row in rows)
    yield from (("benchmark", name, list(BENCHMARKS)) for name in suite.benchmarks)
    yield from (("probe", name, list(PROBES)) for name in suite.probes)
    yield from (("benchmark", name, suite.benchmarks) for name in suite.classes)
    yield "budget", suite.budget, list(suite.all_budgets)
    if suite.against:
        yield "row", suite.against, [row.name for row in rows]
    if suite.reference:
        yield "table of the paper", suite.reference, TABLES


def _explained(name: str, error: ValidationError) -> UsageError:
    """The first problem of a suite, with a suggestion where a key is unknown."""
    problem = error.errors()[0]
    where = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        *above, key = problem["loc"]
        parts: dict[str, type[Settings]] = {"variants": Variant, "vary": Vary, "budgets": Budget}
        model = Effort if "per" in above else parts[str(above[0])] if above else Suite
        return UnknownName(f"key in suite {name}:", str(key), model.model_fields)
    return UsageError(f"suite {name}: {where}: {problem['msg']}")
