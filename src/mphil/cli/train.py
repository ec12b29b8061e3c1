"""`mphil train` and `mphil resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mphil.cli import show
from mphil.cli.options import (
    ActiveBelow,
    DateFormat,
    Duplicates,
    Id,
    Plugins,
    Sheet,
    Smiles,
    Standardise,
    Targets,
    TaskKind,
    TestFile,
    Threshold,
)
from mphil.errors import Stopped, UsageError


def train(
    file: Annotated[
        Path | None, typer.Argument(help="Your own table of molecules or folder of graphs, in place of a benchmark.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Name of a benchmark; see `mphil benchmarks`.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Name of a method; see `mphil methods`. (default: mphil+ for FILE, else mphil)")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of initialisation, order and dropout. (default: 0)")] = None,
    smiles: Smiles = None,
    target: Targets = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="How FILE is split: scaffold, cluster, size, time, random, predefined, a column, or a table of parts "
            "such as parts.csv. (default: scaffold)"
        ),
    ] = None,
    test: TestFile = None,
    date_format: DateFormat = None,
    threshold: Threshold = None,
    active_below: ActiveBelow = False,
    standardise: Standardise = True,
    duplicates: Duplicates = None,
    id_: Id = None,
    sheet: Sheet = None,
    task: TaskKind = None,
    preset: Annotated[str | None, typer.Option(help="Named hyperparameters of the method.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as train.epochs=20.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results. (default: runs/NAME-METHOD-sSEED)")] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="Validation part that selects the epoch for FILE: ood_val or id_val. (default: ood_val where possible)"
        ),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(help="Networks of the committee for FILE; trees are added for molecules. (default: 3)"),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="For FILE, train a single network, no committee.")] = False,
    baselines: Annotated[
        bool,
        typer.Option("--baselines/--no-baselines", help="With --fast, also train a random forest and ERM to compare."),
    ] = True,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the benchmark run in this folder; with FILE this is always done.")
    ] = False,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train on your own file and write a bundle to predict with, or train on a benchmark.

    A file is split; then a committee of networks, a random forest, extra trees and gradient boosting is trained and
    written to OUT/bundle. An interrupted training is continued by `mphil resume OUT`. A benchmark is scored on
    all parts under both selection rules. Settings come from the method's defaults, then the preset, then the TOML file,
    then --set.
    """
    told = {
        "smiles": smiles,
        "target": target,
        "split": split,
        "test": str(test.resolve()) if test else None,
        "date-format": date_format,
        "threshold": threshold,
        "active-below": active_below or None,
        "no-standardise": None if standardise else True,
        "duplicates": duplicates,
        "id": id_,
        "sheet": sheet,
        "task": task,
    }
    flags: dict[str, Any] = {"benchmark": _data(file, benchmark, told), "method": {}}
    if file:
        _look_first(file, told, out, method or "")
    from mphil.training.settings import merge, parse_assignment, read_toml, resolve

    if method:
        flags["method"]["name"] = method
    if preset:
        flags["method"]["preset"] = preset
    if seed is not None:
        flags["seed"] = seed
    layers = [read_toml(config)] if config else []
    wanted = merge([*layers, flags, *map(parse_assignment, set_ or [])])
    if file:
        count = _members(wanted["method"].get("name"), members, fast=fast, baselines=baselines)
        _train_file(file, wanted, out, selection or "", members=count, baselines=baselines, json=json)
        return
    told_of_file = {"--selection": selection, "--no-baselines": not baselines, "--fast": fast, "--members": members}
    for option, given in told_of_file.items():
        if given is not None and given is not False:
            raise UsageError(f"{option} goes with a file of your own: mphil train FILE {option} ...")
    from mphil.model.committee.trees import is_tree_kind
    from mphil.model.product.tree_runs import check_tree_settings, tree_config

    if is_tree_kind(wanted["method"].get("name")):
        check_tree_settings(wanted)
        settings, data = tree_config(wanted)
    else:
        settings, data = resolve(wanted)
    folder = out or Path("runs") / f"{settings.benchmark.name}-{settings.method.name}-s{settings.seed}"
    _execute(settings, data, folder, resume=resume, json=json)


def _look_first(file: Path, told: dict[str, Any], out: Path | None, method: str) -> None:
    """Refuse what can be seen without torch, whose import takes longer than all of this."""
    from mphil.tables.roles import first_look
    from mphil.training.place import check_free

    if out:
        check_free(out, method)
    if not file.is_dir():
        first_look(
            file,
            smiles=told["smiles"],
            targets=told["target"] or (),
            id=told["id"],
            sheet=told["sheet"],
            measured=told["threshold"] is not None,
            whole=told["test"] is None,
        )


def _members(method: str | None, members: int | None, *, fast: bool, baselines: bool) -> int:
    """Networks of the committee; 0 for one network, or trees, alone."""
    from mphil.model.committee.trees import TREE_KINDS
    from mphil.model.product.defaults import MEMBERS
    from mphil.model.product.members import check_members

    if method in TREE_KINDS:
        for option, given in (("--members", members is not None), ("--fast", fast), ("--no-baselines", not baselines)):
            if given:
                raise UsageError(f"{option} is about networks, but {method} trains trees only; leave one of them out")
        return 0
    if not fast:
        if not baselines:
            raise UsageError("--no-baselines goes with --fast: a committee is compared with its own members")
        count = MEMBERS if members is None else members
        check_members(count)
        return count
    if members is not None:
        raise UsageError("--fast trains one network, --members a committee of several; give one of them")
    return 0


def _train_file(
    file: Path, wanted: dict[str, Any], out: Path | None, selection: str, *, members: int, baselines: bool, json: bool
) -> None:
    from mphil.model.product import prepare
    from mphil.model.product.defaults import METHOD
    from mphil.training.place import check_free

    _check_alone()
    if out:
        check_free(out, wanted.get("method", {}).get("name", METHOD))
    prepared = prepare(wanted, selection=selection, members=members)
    config = prepared.config
    folder = out or Path("runs") / f"{file.name.partition('.')[0]}-{config.method.name}-s{config.seed}"
    _carry_out(file.name, prepared, folder, {"members": members, "baselines": baselines}, json=json)


def _check_alone() -> None:
    from mphil.training.distributed import launched

    if launched():
        raise UsageError("several processes can share a benchmark; train on a file of your own with one process")


def _carry_out(file: str, prepared: Any, folder: Path, told: dict[str, Any], *, json: bool) -> None:
    from mphil.model.product import train_product
    from mphil.nn.threads import usable_cores

    if not json:
        _print_data(file, prepared, folder)
    try:
        product = train_product(prepared, folder, **told, processes=usable_cores())
    except KeyboardInterrupt:
        raise Stopped(f"stopped; everything so far is saved. Continue with: mphil resume {folder}") from None
    _tell(product, json=json)


def _tell(product: Any, *, json: bool) -> None:
    if json:
        show.as_json(product.summary())
    else:
        _print_product(product)


def _resume_file(folder: Path, *, json: bool) -> None:
    """Continue a training on a file as it was begun; one that is finished shows what came out."""
    from mphil.model.product import finished_product, prepare_again

    _check_alone()
    if product := finished_product(folder):
        if not json:
            typer.echo(f"{folder} is finished; there is nothing to continue")
        _tell(product, json=json)
        return
    prepared, told = prepare_again(folder)
    _carry_out(prepared.data.split.provenance["file"], prepared, folder, told, json=json)


def _print_data(file: str, prepared: Any, folder: Path) -> None:
    survey, issues, data = prepared.own.survey, prepared.own.survey.bad, prepared.data
    noun = "molecules" if prepared.own.column else "graphs"
    rows = "row" if len(issues) == 1 else "rows"
    aside = f"{len(issues):,} {rows} excluded ({folder / 'issues.csv'})" if issues else "no row excluded"
    typer.echo(f"{file}: {survey.rows:,} rows, {len(data.store):,} {noun}; {aside}")
    for what in (*prepared.own.notes, *survey.assumed):
        typer.echo(f"note: {what}")
    sizes = " · ".join(f"{part.replace('_', '-')} {size:,}" for part, size in data.split.sizes.items())
    split = data.split.provenance["split"]
    noun = {"scaffold": "scaffolds", "size": "sizes", "cluster": "clusters", "time": "dates"}.get(split, "values")
    domains = f"; {prepared.domains:,} {noun}, none both in training and in a shifted part" if prepared.domains else ""
    typer.echo(f"split by {split}: {sizes}{domains}")
    for what in data.split.provenance.get("merged", ()):
        typer.echo(f"note: {what}")
    if shared := data.split.provenance.get("rows_shared_with_test"):
        typer.echo(f"note: {shared:,} rows hold a molecule of the external test set and are in no part")


def _print_product(product: Any) -> None:
    metrics = product.bundle.metrics
    committee = product.bundle.config.committee
    if committee is None:
        chosen = f"chosen on {metrics['selection'].replace('_', '-')}, epoch {metrics['epoch']}"
        notes = {list(metrics["scores"])[-1]: chosen}
    else:
        notes = {member.name: f"weight {member.weight:.2f}" for member in committee.members}
    rows = [
        [name, *(show.number(found[part], 3) for part in ("id_test", "ood_test")), notes.get(name, "")]
        for name, found in metrics["scores"].items()
    ]
    show.table([metrics["metric"], "id-test", "ood-test", ""], rows)
    if standing := metrics.get("standing"):
        typer.echo(standing["sentence"])
    for what, why in metrics["left_out"].items():
        typer.echo(f"without {what}: {why}")
    typer.echo(f"bundle: {product.path}   card: {product.path / 'card.html'}")
    ways = ["predict {} " + ("GRAPHS" if product.bundle.config.molecules is None else "new.csv")]
    if (
        product.bundle.config.molecules is not None and product.bundle.config.has_network
    ):  # trees alone are not explained
        ways += ["explain {} new.csv", "serve {}"]
    typer.echo("next: " + " · ".join(f"mphil {way.format(product.path)}" for way in ways))


def _data(file: Path | None, benchmark: str | None, told: dict[str, Any]) -> dict[str, Any]:
    """The settings of the section `benchmark` that the options stand for.

    Args:
        file: the user's own data.
        benchmark: name of a benchmark in its place.
        told: name of an option that goes with a file to its value; None when it was not given.
    """
    given = {option: value for option, value in told.items() if value is not None}
    if file is None:
        for option in given:
            raise UsageError(f"--{option} goes with a file of your own: mphil train FILE --{option} ...")
        return {"name": benchmark} if benchmark else {}
    if benchmark:
        raise UsageError(f"train on {file} or on the benchmark {benchmark}; give one of them")
    if not file.exists():
        raise UsageError(f"{file}: no such file or folder")
    if given.pop("no-standardise", False):
        given["standardise"] = False
    names = {"target": "targets"}
    settings = {names.get(option, option.replace("-", "_")): value for option, value in given.items()}
    if Path(settings.get("split", "")).suffix and Path(settings["split"]).is_file():
        settings["split"] = str(Path(settings["split"]).resolve())
    return {"name": "own-data", "path": str(file.resolve()), **settings}


def resume(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of a training on a file.")],
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Continue an interrupted run from its last checkpoint; the result is the same as without the interruption.

    A training on a file goes on with the settings that are recorded in its folder; the file must not have changed.
    """
    from mphil.training.place import MARKER
    from mphil.training.run import stored_run

    if (run / MARKER).exists():
        _resume_file(run, json=json)
        return
    settings, data = stored_run(run)
    _execute(settings, data, run, resume=True, json=json)


def _execute(settings: Any, data: Any, folder: Path, *, resume: bool, json: bool) -> None:
    from mphil.model.committee.trees import is_tree_kind
    from mphil.model.product.runs import write_run_bundle
    from mphil.model.product.tree_runs import execute_trees
    from mphil.training.distributed import is_first
    from mphil.training.run import execute

    carry_out = execute_trees if is_tree_kind(settings.method.name) else execute
    try:
        finished = carry_out(settings, data, folder, resume=resume)
        bundle = write_run_bundle(finished) if is_first() else None
    except KeyboardInterrupt:
        if not is_first():
            raise Stopped("") from None
        if (folder / "config.json").exists():
            raise Stopped(f"stopped; everything so far is saved. Continue with: mphil resume {folder}") from None
        raise
    if not is_first():
        return
    if json:
        show.as_json(finished.result)
        return
    show.score_table(finished.result)
    typer.echo(f"{finished.result['seconds']:.0f} s of training; result: {folder / 'result.json'}")
    if bundle is None:
        typer.echo(f"next: mphil evaluate {folder} · mphil predict {folder} --part ood_test")
        return
    typer.echo(f"bundle: {bundle}   card: {bundle / 'card.html'}")
    typer.echo(f"next: mphil evaluate {bundle} · mphil predict {folder} --part ood_test")
