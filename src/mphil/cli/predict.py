"""`mphil predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mphil.cli import show
from mphil.cli.options import Plugins, Sheet, check_molecules
from mphil.errors import DataError, Stopped, UsageError


def predict(
    model: Annotated[
        Path, typer.Argument(help="Folder of a bundle, or of the run that wrote it.", metavar="BUNDLE|RUN")
    ],
    given: Annotated[
        list[str] | None,
        typer.Argument(
            help="With a bundle: CSV, TSV, XLSX, parquet, SDF or .smi, also gzip; a folder of such tables; or SMILES.",
            metavar="[FILE|SMILES...]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV, TSV (also .gz), XLSX or parquet, by extension; a folder for a folder. (default: by FILE)"
        ),
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(help="With a bundle: column of the molecules. (default: as in training, or detected)")
    ] = None,
    sheet: Sheet = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="With a bundle: share of conformal sets that contain the true class. (default: 0.9)"),
    ] = None,
    weighted: Annotated[
        bool,
        typer.Option("--weighted", help="Add conformal sets weighted for how FILE differs from held-out rows."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=0, help="With a bundle: processes that read molecules. (default: by size)")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="For a folder of tables: local, or ray for the processors of a cluster. (default: local)"),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster. (default: RAY_ADDRESS, or one on this machine)")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="With a bundle of a benchmark and no FILE: the part to predict. (default: ood_test)"),
    ] = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Answer every row of a table: prediction, probability, plausible classes, how far from training, nearest molecule.

    Rows and columns stay as they are, and the answers are added as further columns. A row that cannot be read gets a
    status and a message. Without a table, a bundle that was trained on a benchmark answers about a part of it.
    """
    if model.is_file():
        raise UsageError(f"{model} is a file; the folder of a bundle comes first: mphil predict BUNDLE {model}")
    molecules = _molecules(given or [])
    file = Path(given[0]) if given and not molecules else None
    bundle = _bundle(model)
    if bundle is None:
        raise UsageError(
            f"{model} is not a bundle and contains none: make one with `mphil train`, or finish a run with "
            "`mphil resume`"
        )
    kind = _kind(bundle, file, molecules)
    said = {
        "--part": part,
        "--out": out,
        "--smiles": smiles,
        "--sheet": sheet,
        "--coverage": coverage,
        "--weighted": weighted or None,
        "--workers": workers,
        "--engine": engine,
        "--address": address,
    }
    for option, value in said.items():
        if value is not None and option not in _TAKEN[kind]:
            found = f"you gave {kind}" if given else "none was given"
            raise UsageError(f"{option} goes with {_takers(option)}; {found}")
    if file is None:
        if molecules:
            _predict_molecules(bundle, molecules, coverage, json=json)
        else:
            _predict_part(bundle, part or "ood_test", out, json=json)
    elif kind == "a folder of tables":
        _predict_folder(bundle, file, out, smiles, workers, engine or "local", address, json=json)
    else:
        reading = {"column": smiles, "workers": workers, "sheet": sheet or "", "weighted": weighted}
        _predict_file(bundle, file, out or _beside(file), coverage, reading, json=json)


_TAKEN = {
    "the benchmark of a bundle, without FILE": ("--part", "--out"),
    "molecules": ("--coverage",),
    "a file": ("--out", "--smiles", "--sheet", "--coverage", "--weighted", "--workers"),
    "a folder of tables": ("--out", "--smiles", "--workers", "--engine", "--address"),
    "a folder of graphs": ("--out", "--coverage"),
}
"""What can be answered about, and the options that go with each."""


def _kind(bundle: Path, file: Path | None, molecules: list[str]) -> str:
    if file is None:
        return "molecules" if molecules else "the benchmark of a bundle, without FILE"
    if not file.is_dir():
        return "a file"
    return "a folder of tables" if _takes_molecules(bundle) else "a folder of graphs"


def _takers(option: str) -> str:
    return " or ".join(kind for kind, options in _TAKEN.items() if option in options)


def _molecules(given: list[str]) -> list[str]:
    """The arguments, if they are SMILES and not a file; one at least can be read: a mistyped file is no molecule."""
    files = [text for text in given if Path(text).exists()]
    if files and len(given) > 1:
        raise UsageError(f"{files[0]} is a file; give one file or folder, or SMILES")
    if files:
        return []
    check_molecules(given, "no such file or folder")
    return given


def _predict_molecules(bundle: Path, molecules: list[str], coverage: float | None, *, json: bool) -> None:
    """Answers about molecules of the command line: a block of lines for each, or JSON."""
    from mphil.model.predictor import load

    predictor = load(bundle, coverage=coverage)
    columns = predictor.predict(molecules).columns()
    if json:
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        show.as_json([{"smiles": smiles, **row} for smiles, row in zip(molecules, rows, strict=True)])
        return
    for note in predictor.notes:
        typer.echo(f"note: {note}", err=True)
    positive = _positive(predictor)
    for row, smiles in enumerate(molecules):
        typer.echo(smiles)
        for name, cells in columns.items():
            if cells[row] not in (None, ""):
                shown = show.one_line(cells[row]) if isinstance(cells[row], str) else show.number(cells[row], 3)
                own = f" of {positive}" if positive and name.startswith("probability") else ""
                typer.echo(f"  {name}{own}: {shown}")


def _positive(predictor: Any) -> str:
    """The class whose probability is told; empty where every class has its own, or there is none."""
    config = predictor.bundle.config
    return show.one_line(config.classes[1]) if config.task.kind in ("binary", "multitask") else ""


def _bundle(model: Path) -> Path | None:
    """The bundle that is meant: the folder itself, or the one that a training left in it."""
    from mphil.model.bundle.manifest import is_bundle

    return next((folder for folder in (model, model / "bundle") if is_bundle(folder)), None)


def _takes_molecules(bundle: Path) -> bool:
    from mphil.model.bundle import read_bundle

    return read_bundle(bundle).config.molecules is not None


def _beside(file: Path) -> Path:
    """Where answers go by default: beside the file, in its format as far as we write it."""
    stem, *rest = file.name.split(".")
    kind = rest[0].lower() if rest else ""
    suffix = f".{kind}" if kind in ("parquet", "xlsx") else ".csv"
    return file.with_name(f"{stem or file.name}-predictions{suffix}")


def _predict_part(bundle: Path, part: str, out: Path | None, *, json: bool) -> None:
    from mphil.model.product.runs import predict_part

    path = out or bundle.parent / f"predictions-{part}.csv"
    rows = predict_part(bundle, part, path)
    if json:
        show.as_json({"rows": rows, "out": str(path)})
        return
    typer.echo(f"{rows} predictions: {path}")


def _predict_file(
    bundle: Path, file: Path, out: Path, coverage: float | None, reading: dict[str, Any], *, json: bool
) -> None:
    from mphil.model.predictor import load
    from mphil.model.screening import screen_file, screen_graphs

    predictor = load(bundle, coverage=coverage)
    try:
        graphs = file.is_dir()
        summary = screen_graphs(predictor, file, out) if graphs else screen_file(predictor, file, out, **reading)
    except KeyboardInterrupt:
        raise Stopped(
            f"stopped; nothing was written to {out}. Give the same command again, or cut a long table into a folder of "
            "files: a folder is continued file by file."
        ) from None
    if json:
        show.as_json(summary.as_dict())
        return
    _print(summary)
    if positive := _positive(predictor):
        typer.echo(f"probability: that of {positive}")


def _print(summary: Any) -> None:
    for note in summary.notes:
        typer.echo(f"note: {note}", err=True)
    speed = summary.rows / summary.seconds if summary.seconds else 0.0
    typer.echo(f"{summary.source}: {summary.rows:,} rows, {summary.answered:,} answered; {speed:,.0f} rows/s")
    refused = {status: count for status, count in summary.statuses.items() if status != "ok"}
    if refused:
        typer.echo("without an answer: " + ", ".join(f"{status} {count:,}" for status, count in refused.items()))
    if summary.domains:
        typer.echo(" · ".join(f"{verdict} {count:,}" for verdict, count in summary.domains.items()))
    if summary.escaped:
        typer.echo(f"{summary.escaped:,} cells that a spreadsheet would run as formulas got a leading apostrophe")
    typer.echo(f"answers: {summary.out}")


def _predict_folder(
    bundle: Path,
    folder: Path,
    out: Path | None,
    smiles: str | None,
    workers: int | None,
    engine: str,
    address: str | None,
    *,
    json: bool,
) -> None:
    from mphil.model.screening_folder import screen_folder

    target = out or folder.with_name(f"{folder.resolve().name}-predictions")
    state: Any = None
    told = 0
    try:
        for state in screen_folder(
            bundle, folder, target, engine=engine, address=address, column=smiles, workers=workers
        ):
            for one in state.done[told:] if not json else ():
                typer.echo(f"{Path(one['source']).name}: {one['rows']:,} rows, {one['answered']:,} answered")
            told = len(state.done)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; finished files are in {target}. The same command continues with the others.") from None
    if json:
        show.as_json(state.as_dict())
    else:
        typer.echo(f"{len(state.done)} files predicted, {len(state.before)} finished before: {target}")
    if state.failed:
        first = next(iter(state.failed.items()))
        more = f" (and {len(state.failed) - 1} more files)" if len(state.failed) > 1 else ""
        raise DataError(f"{first[0]}: {first[1]}{more}; the same command retries them")
