"""The whole way from a file to a bundle; what was interrupted is taken up by doing the same again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks.catalogue import Benchmark
from mphil.benchmarks.own_data import OwnData, own_data, read_own_data, table_arguments
from mphil.config import NamedArgs, RunConfig, SelectionRule, check_arguments
from mphil.errors import DataError, UnknownName, UsageError
from mphil.files import write_text
from mphil.graphs.split import Part
from mphil.methods.base import METHODS, build_method, resolve_hyperparameters
from mphil.model.bundle import Bundle, read_bundle, write_bundle
from mphil.model.committee.trees import TREE_KINDS
from mphil.model.product.assembly import Prepared, assemble, with_facts
from mphil.model.product.defaults import ARGUMENTS, ENCODER, METHOD, default_start, train_defaults
from mphil.model.product.members import (
    BASELINE,
    check_members,
    folder_name,
    network_configs,
    train_members,
    train_trees,
    trained_beside,
)
from mphil.model.product.tree_runs import check_tree_settings, forest_scores, tree_config
from mphil.progress import row_bar
from mphil.tables.assign import is_file
from mphil.tables.write import csv_text, issue_table
from mphil.training.metrics import score
from mphil.training.place import check_sources, digest_of, held, read_record
from mphil.training.plugged import check_plugins
from mphil.training.recipe import check_start
from mphil.training.run import Run, execute, read_run_plugins
from mphil.training.settings import Wanted, merge, resolve
from mphil.training.trainable import check_needs, check_trainable
from mphil.training.trainer import RULES

ISSUES = "issues.csv"
PARTS = "parts.csv"


def parts_table(own: OwnData) -> str:
    """Every row with its part, as CSV; `--split parts.csv` reads it back.

    Rows count from 1 below the header, as in the table of issues; a row in no part has an empty one.
    """
    survey, data = own.survey, own.benchmark
    part = {row: name for name, graphs in data.split for row in data.store.index[graphs].tolist()}
    molecule = dict(zip(survey.row.tolist(), survey.keys.values(), strict=True))
    kept = zip(survey.row.tolist(), survey.line.tolist(), survey.names, strict=True)
    rows = [(row, line, name, molecule[row], part.get(row, "")) for row, line, name in kept]
    rows += [(one.row, one.line, one.id, molecule[into], part.get(into, "")) for one, into in survey.merged.items()]
    rows += [(bad.row, bad.line, bad.id, "", "") for bad in survey.bad if bad.row not in molecule]
    header: list[list[object]] = [["row", "line", "id", "smiles", "part"]]
    cells: list[list[object]] = [*header, *([row + 1, *rest] for row, *rest in sorted(rows))]
    return csv_text(cells if survey.ids is not None else [[*row[:2], *row[3:]] for row in cells])


FOREST = "random forest"
BUNDLE = "bundle"


@dataclass(frozen=True, eq=False)
class Product:
    """A finished training.

    Attributes:
        folder: where everything is: the bundle, the runs, the rows that were excluded.
        bundle: the bundle as it was written.
        run: the run of the method; None when trees answer alone, or when it was finished before.
    """

    folder: Path
    bundle: Bundle
    run: Run | None

    @property
    def path(self) -> Path:
        """The folder of the bundle."""
        return self.folder / BUNDLE

    def summary(self) -> dict[str, Any]:
        """What came out, for machines."""
        config, metrics = self.bundle.config, self.bundle.metrics
        result = self.folder / config.method.name / "result.json"
        return {
            "folder": str(self.folder),
            "bundle": str(self.path),
            "issues": str(self.folder / ISSUES),
            "parts": str(self.folder / PARTS),
            "data": config.data,
            **{name: metrics[name] for name in ("metric", "scores", "selection", "epoch", "left_out")},
            "committee": metrics.get("committee"),
            "result": json.loads(result.read_bytes()) if config.has_network else None,
        }


def prepare(wanted: Wanted, *, selection: str = "", members: int = 0) -> Prepared:
    """Read and split a file, choose settings by its size, and refuse what cannot be trained.

    Args:
        wanted: what the user set, as merged from all layers; the section `benchmark` holds the arguments of `own_data`.
        selection: the part that chooses the epoch, `ood_val` or `id_val`; when empty, the first that can.
        members: networks of the committee that will be trained, so that what its trees need is read with the file.
    """
    kind = dict(wanted.get("method", {})).get("name", METHOD)
    if kind in TREE_KINDS:
        check_tree_settings(wanted)
    args = file_arguments(wanted)
    described = bool(members) or kind in TREE_KINDS or bool(wanted.get("method", {}).get("descriptors"))
    own = read_own_data(**table_arguments(args), features=described)
    sources = [args["path"], args["test"], args["split"] if is_file(args["split"]) else ""]
    files = {name: digest_of(Path(name)) for name in sources if name}
    # What only names rows does not make another training, and what nobody asked for is not recorded.
    recorded = {name: value for name, value in args.items() if name != "id" and (name != "sheet" or value)}
    data = with_facts(replace(own.benchmark, name="own-data", args=recorded), own)
    rule = choosing_part(data, selection)
    rest = {section: values for section, values in wanted.items() if section != "benchmark"}
    method = {"name": kind, **ARGUMENTS.get(kind, {})}
    layers: list[Wanted] = [{"encoder": ENCODER, "method": method}, rest]
    if kind in TREE_KINDS:
        config, _ = tree_config(merge(layers), data)
        return Prepared(own, data, config, rule, wanted, files)
    config = by_recipe(layers, data, rule)
    check_trainable(data, config.train)
    check_needs(METHODS[config.method.name], data)
    if config.train.start:
        with torch.device("meta"):
            network = build_method(config.method.name, data.task, config.encoder, config.method.args)
        check_start(network, config.encoder, config.train.start)
    return Prepared(own, data, config, rule, wanted, files)


def finished_product(out: Path) -> Product | None:
    """What a training left in its folder; None if it was interrupted.

    Raises:
        IntegrityError: the record of the training, or the bundle, is damaged.
    """
    if not read_record(out).get("finished"):
        return None
    return Product(out, read_bundle(out / BUNDLE), None)


def prepare_again(out: Path) -> tuple[Prepared, dict[str, Any]]:
    """The file and the settings of an interrupted training, and the keyword arguments that `train_product` had.

    Args:
        out: the folder of the training.

    Raises:
        UsageError: an older version recorded too little, or a plug-in is not loaded.
        DataError: a file that was read is gone.
        IntegrityError: one has changed, or the record is damaged.
    """
    record = read_record(out)
    if "wanted" not in record:
        raise UsageError(f"{out} does not say how it was made; give its `mphil train FILE` command again")
    check_sources(out, record["files"], "train into another --out")
    check_plugins(str(out), read_run_plugins(out / record["method"]))
    prepared = prepare(record["wanted"], selection=record["selection"], members=record["members"])
    return prepared, {name: record[name] for name in ("members", "baselines")}


def file_arguments(wanted: Wanted) -> dict[str, Any]:
    """All arguments of `own_data` for what the user set."""
    given = {name: value for name, value in wanted.get("benchmark", {}).items() if name != "name"}
    return check_arguments(own_data, given, "benchmark own-data")


def by_recipe(layers: Sequence[Wanted], data: Benchmark, rule: SelectionRule) -> RunConfig:
    """The settings of a network: those of the layers, and for training the recipe where they say nothing.

    Raises:
        UsageError: a setting is wrong, or the method cannot be built with them.
    """
    wanted = merge(layers)
    given = wanted.pop("train", {})
    start = default_start(resolve(wanted, data)[0], data.task)
    train = {"patience_on": rule} | train_defaults(len(data.split.train), given, start)
    return resolve({**wanted, "train": train}, data)[0]


def choosing_part(data: Benchmark, selection: str = "") -> SelectionRule:
    """The validation part that chooses the epoch: the one asked for, or the first with labels that can be scored."""
    if selection and selection not in RULES:
        raise UnknownName("selection rule", selection, RULES)
    able = [part for part in RULES if _can_choose(data, part)]
    if not able:
        raise DataError(
            "no epoch can be chosen: in both validation parts the labels are missing or all alike; "
            "use another --split, or more rows"
        )
    for part in able:
        if selection in ("", part):
            return part
    raise DataError(
        f"no epoch can be chosen on {selection}: its labels are missing or all alike; use --selection {able[0]}"
    )


def _can_choose(data: Benchmark, part: Part) -> bool:
    """Whether the metric is defined on a part, whatever a model says about it."""
    y = data.store.y[data.split[part]]
    return bool(len(y)) and score(torch.zeros(len(y), data.task.n_outputs), y, data.task) is not None


def train_product(
    prepared: Prepared, out: Path, *, members: int = 0, baselines: bool = True, processes: int = 1
) -> Product:
    """Train the method alone or in a committee, learn what to trust, and write `out/bundle`.

    The runs are in `out/METHOD` and go on where they stopped, and trees that are there are kept; everything else is
    computed again.

    Args:
        prepared: the file and the settings.
        out: folder for everything.
        members: networks of a committee, to which forests and a boosted model are added for molecules; 0 trains one
            network alone.
        baselines: beside one network alone, also train a random forest and ERM on the same split.
        processes: processes that train the networks of a committee at the same time; no number changes a result.

    Raises:
        UsageError: the folder holds something else.
        IntegrityError: it holds the same method trained in another way.
    """
    data, config = prepared.data, prepared.config
    if members:
        check_members(members)
    with held(out, config.method.name, _record(prepared, members, baselines)):
        issues = prepared.own.survey.bad
        write_text(out / ISSUES, issue_table(issues, named=any(one.id for one in issues)))
        write_text(out / PARTS, parts_table(prepared.own))
        fingerprints = prepared.fingerprints
        scores: dict[str, Mapping[str, float | None]] = {}
        left_out: dict[str, str] = {}
        if config.method.name in TREE_KINDS:
            trees = train_trees(config.method.name, config, data, prepared.features, out)
            bundle = assemble(prepared, None, fingerprints, scores, left_out, trees)
            write_bundle(out / BUNDLE, bundle)
            return Product(out, bundle, None)
        if members and fingerprints is None:
            left_out[FOREST] = "it takes molecules, and these are graphs"
        elif baselines and not members:
            if fingerprints is None:
                left_out[FOREST] = "it takes molecules, and these are graphs"
            else:
                scores[FOREST] = _forest(fingerprints, data, config.seed)
            if config.method.name != BASELINE:
                scores[BASELINE] = _scores(execute(_baseline(config), data, out / BASELINE, resume=True), prepared.rule)
        others = network_configs(config, members, molecules=fingerprints is not None)[1:]
        work = [(one, out / folder_name(one, config.seed)) for one in others]
        with trained_beside(work, data, processes) as beside:
            run = execute(config, data, out / config.method.name, resume=True)
            scores[config.method.name] = _scores(run, prepared.rule)
            trained = None
            if members:
                told: Any = {"members": members, "rule": prepared.rule, "beside": beside}
                trained = train_members(config, data, prepared.features, run, out, **told)
        bundle = assemble(prepared, run, fingerprints, scores, left_out, trained)
        write_bundle(out / BUNDLE, bundle)
    return Product(out, bundle, run)


def _record(prepared: Prepared, members: int, baselines: bool) -> dict[str, Any]:
    """All that is needed to continue a training in another process, as plain values."""
    return {
        "wanted": json.loads(json.dumps(prepared.wanted, default=str)),
        "selection": prepared.rule,
        "members": members,
        "baselines": baselines,
        "files": prepared.files,
    }


def _baseline(config: RunConfig) -> RunConfig:
    plain = NamedArgs(name=BASELINE, args=resolve_hyperparameters(METHODS[BASELINE], None, {}))
    return config.model_copy(update={"method": plain})


def _scores(run: Run, rule: str) -> Mapping[str, float | None]:
    return run.scores.get(rule, {})


def _forest(fingerprints: NDArray[np.uint8], data: Benchmark, seed: int) -> dict[str, float | None]:
    with row_bar(FOREST, data.task.n_tasks, shown=True) as advance:
        return forest_scores(fingerprints, data.store.y, data.split, data.task, seed=seed, advance=advance)
