"""What is done with a bundle: `mphil evaluate`, `explain`, `report`, `serve`, `export`, `sign` and `verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from mphil.cli import show
from mphil.cli.options import Id, Plugins, Sheet, Smiles, check_molecules
from mphil.errors import Stopped, UsageError

Folder = Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")]


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of the bundle that it wrote.", metavar="RUN|BUNDLE")],
    table: Annotated[
        Path | None,
        typer.Argument(
            help="With a bundle: table with labels, read as in training; for a model of graphs, a folder of them."
        ),
    ] = None,
    selection: Annotated[
        str | None, typer.Option(help="With a run: rule that chose the epoch, ood_val or id_val. (default: ood_val)")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="With TABLE: column of labels, one or more. (default: as in training)")
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(help="With TABLE: column of the molecules. (default: as in training, or detected)")
    ] = None,
    sheet: Sheet = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model on the parts of its benchmark, the held-out parts of its file, or the labelled rows of a table.

    On a file or a table, scores are also given for the rows in domain, borderline and out of domain.
    """
    from mphil.model.bundle.manifest import is_bundle
    from mphil.training.place import MARKER

    if table is None:
        for option, value in (("--target", target), ("--smiles", smiles), ("--sheet", sheet)):
            if value:
                raise UsageError(f"{option} is about a table: mphil evaluate {run} TABLE {option} ...")
    if selection is not None and (table is not None or (run / MARKER).exists()):
        raise UsageError(f"--selection {selection}: a bundle holds one epoch; the runs in a training have the others")
    if table is not None:
        _evaluate_table(run, table, {"targets": target or (), "smiles": smiles, "sheet": sheet or ""}, json=json)
        return
    if (run / MARKER).exists():
        _evaluate_training(run, json=json)
        return
    if not is_bundle(run) and _is_trees(run):
        run, selection = run / "bundle", None
    if is_bundle(run):
        from mphil.model.product.runs import evaluate_bundle

        if selection is not None:
            raise UsageError(f"--selection {selection}: a bundle holds one epoch; give the folder of the run instead")
        scores, metric, selection = evaluate_bundle(run)
    else:
        from mphil.training.run import evaluate_run

        selection = selection or "ood_val"
        scores, metric = evaluate_run(run, selection)
    if json:
        show.as_json({"run": str(run), "selection": selection, "metric": metric, "scores": scores})
        return
    show.table(
        ["part", metric], [[part, show.number(value)] for part, value in scores.items()], f"chosen on {selection}"
    )


def _evaluate_table(bundle: Path, table: Path, told: dict[str, Any], *, json: bool) -> None:
    from mphil.model.scoring import evaluate as score

    found = score(bundle, table, **told)
    if json:
        show.as_json({"bundle": str(bundle), **found.as_dict()})
        return
    for note in found.notes:
        typer.echo(f"note: {show.one_line(note)}", err=True)
    typer.echo(
        f"{found.source}: {found.rows:,} rows, {found.scored:,} scored, {found.unlabelled:,} without a label, "
        f"{found.unanswered:,} without an answer"
    )
    if found.statuses:
        typer.echo("without an answer: " + ", ".join(f"{status} {n:,}" for status, n in found.statuses.items()))
    _print_groups(list(found.groups.items()))
    if found.targets:
        _print_groups(list(found.targets.items()))


def _evaluate_training(run: Path, *, json: bool) -> None:
    from mphil.model.product.held_out import evaluate_training

    parts = evaluate_training(run)
    metric = next(iter(parts.values())).metric
    scores = {part: found.score for part, found in parts.items()}
    if json:
        found = {part: one.as_dict() for part, one in parts.items()}
        show.as_json({"run": str(run), "metric": metric, "scores": scores, "parts": found})
        return
    lines = []
    for part, one in parts.items():
        shown = part.replace("_", "-")
        lines += [(shown if name == "all" else f"  {name}", figures) for name, figures in one.groups.items()]
    _print_groups(lines)


def _print_groups(groups: list[tuple[str, Any]]) -> None:
    """Groups of rows: how many, and the figures of each."""
    header = list(groups[0][1])
    rows = [
        [name, *(f"{value:,}" if isinstance(value, int) else show.number(value) for value in figures.values())]
        for name, figures in groups
    ]
    show.table(["", *(name.replace("_", " ") for name in header)], rows)


def _is_trees(run: Path) -> bool:
    """Whether the run of a folder grew trees, which are kept in its bundle and have no epoch to choose."""
    from mphil.model.committee.trees import is_tree_kind
    from mphil.training.run import read_run_config

    return is_tree_kind(read_run_config(run)[0].method.name)


FORMATS = (".md", ".html")


def report(
    bundle: Folder,
    out: Annotated[Path, typer.Option(help="File to write: .md or .html.")] = Path("report.md"),
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write a report for regulators: the OECD principles for (Q)SAR models, with fields like those of a QMRF.

    Fields are filled from the bundle; those that the bundle does not contain are marked for the author.
    """
    from mphil.files import write_text
    from mphil.model.product.runs import bundle_chapters
    from mphil.pages.regulatory import open_fields, regulatory_markdown, regulatory_page

    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"{out}: a report ends in {' or '.join(FORMATS)}")
    found = bundle_chapters(bundle)
    render = regulatory_page if out.suffix.lower() == ".html" else regulatory_markdown
    write_text(out, render(found))
    left = open_fields(found)
    if json:
        show.as_json({"out": str(out), "to_be_filled_in": left})
        return
    typer.echo(f"report: {out}")
    typer.echo(f"to be filled in by the author: {', '.join(left)}")


LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    bundle: Folder,
    host: Annotated[str, typer.Option(help="Address to listen on. (default: this machine alone)")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8765,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further host name that browsers may use; may be repeated.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    plugin: Plugins = None,
) -> None:
    """Serve a page on this machine: paste molecules or send a file, see answers, reasons, warnings and the map.

    Programs use the same address: /docs lists the operations. Nothing leaves this machine. Ctrl-C stops it.
    """
    try:
        from mphil.serve import serve as listen
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise UsageError("mphil serve needs FastAPI and uvicorn; install them: pip install 'mphil[serve]'") from None
    from mphil.model.predictor import load

    predictor = load(bundle)
    for note in predictor.notes:
        typer.echo(f"note: {note}", err=True)
    if host not in LOCAL:
        typer.echo(f"note: anyone who can reach {host} can use this page; there is no password", err=True)

    def ready(address: str) -> None:
        typer.echo(f"open this page: {address}   (Ctrl-C stops the server)")
        if open_page:
            typer.launch(address)

    try:
        listen(predictor, host=host, port=port, allow=allow_host or (), ready=ready)
    except KeyboardInterrupt:
        raise Stopped("stopped") from None


def export(
    bundle: Folder,
    out: Annotated[Path, typer.Option(help="File to write; a description in JSON is written beside it.")],
    format: Annotated[str | None, typer.Option(help="torch or onnx. (default: by OUT: .pt2 or .onnx)")] = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the description as JSON.")] = False,
) -> None:
    """Write the model part of a bundle for other programs: torch.export, or ONNX.

    The file takes the tensors of a batch of graphs and gives logits and embeddings. It is compared with the original on
    training molecules first, and not written if the outputs differ.
    """
    from mphil.model.export import export_model
    from mphil.model.predictor import load

    made = export_model(load(bundle), out, cast(Any, format))
    if json:
        show.as_json({"file": str(made.path), "about": str(made.about), **made.facts})
        return
    if note := made.facts["note"]:
        typer.echo(f"note: {note}", err=True)
    check = made.facts["check"]
    typer.echo(f"largest difference from the original: {made.difference:.2g}, {check['allowed']:g} is allowed")
    typer.echo(f"compared on {check['graphs']}, in batches of {', '.join(map(str, check['batches_of']))}")
    typer.echo(f"model: {made.path}")
    typer.echo(f"description: {made.about}")


def sign(
    bundle: Folder,
    key: Annotated[Path, typer.Option(help="Your OpenSSH private key, or the public key of one in the agent.")],
) -> None:
    """Sign a bundle with an SSH key, so that others can check that it comes from you."""
    from mphil.model.bundle.manifest import sign_bundle

    typer.echo(f"signature: {sign_bundle(bundle, key.expanduser())}")


def verify(
    bundle: Folder,
    key: Annotated[
        Path | None, typer.Option(help="OpenSSH public key of the expected signer. (default: check the files only)")
    ] = None,
) -> None:
    """Check every file of a bundle, and who signed it."""
    from mphil.model.bundle.manifest import is_signed, verify_bundle

    digest = verify_bundle(bundle, None if key is None else key.expanduser())
    typer.echo(f"bundle: complete and unchanged, sha256 {digest}")
    if key is not None:
        typer.echo(f"signature: valid, by the key in {key}")
    elif is_signed(bundle):
        typer.echo("signature: present, not checked; --key PUBLIC_KEY checks whose it is")
    else:
        typer.echo("signature: none")


SHOWN = 3
"""Molecules on the terminal, and parts of each."""


def explain(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")],
    molecules: Annotated[
        list[str] | None,
        typer.Argument(help="A table of molecules, or SMILES; without, only the prototypes are explained."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write: drawings, tables, index.html.")] = Path("explained"),
    smiles: Smiles = None,
    id_: Id = None,
    sheet: Sheet = None,
    target: Annotated[str | None, typer.Option(help="Target that the page is about. (default: the first)")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="How atoms are scored: own, contribution, gradient or random. (default: own)"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of rows to explain.")] = 200,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Explain predictions: decisive atoms, ranked substructures, and what the prototypes stand for.

    Writes a drawing of every molecule, molecules.csv, substructures.csv, and index.html with the sphere as a map.
    """
    from mphil.explain.report import write_report
    from mphil.model.predictor import load

    predictor = load(bundle)
    rows = _rows(predictor, molecules or [], {"smiles": smiles, "id": id_, "sheet": sheet}, limit)
    command = " ".join(["mphil", *sys.argv[1:]])
    try:
        report = write_report(predictor, rows, out, target=target or "", by=cast(Any, by), command=command)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {out} is unchanged. The same command starts again.") from None
    if json:
        show.as_json({"out": str(out), **report.summary})
        return
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    _print(report)
    typer.echo(f"drawings, tables and page: {out}")
    typer.echo(f"open this page: {(out / 'index.html').resolve()}")


def _rows(predictor: Any, given: list[str], told: dict[str, str | None], limit: int) -> Any:
    """What the arguments stand for: a table, of which something may be told, or molecules."""
    from mphil.explain.report import RowsToExplain, read_rows

    files = [text for text in given if Path(text).exists()]
    if len(given) == 1 and files:
        column, name, sheet = (told[option] or "" for option in ("smiles", "id", "sheet"))
        return read_rows(Path(given[0]), predictor, column=column, limit=limit, sheet=sheet, name=name)
    if files:
        raise UsageError(f"{files[0]} is a file; give one file, or SMILES")
    for option, value in told.items():
        if value:
            what = "a sheet of a workbook" if option == "sheet" else "a column of a table"
            raise UsageError(f"--{option} names {what}; these are molecules")
    check_molecules(given, "there is no such file")
    return RowsToExplain(given, "")


def _print(report: Any) -> None:
    """The first substructures of the first molecules, and where colours and removal disagree."""
    from mphil.explain.atoms import NAMES

    shown = list(zip(report.explained.rows, report.explained.explanations, strict=True))[:SHOWN]
    places = report.rows.places
    first = list(places)[-1]
    table = [
        [
            _shorten(str(places[first][row])),
            _shorten(one.smiles),
            _shorten(part.title),
            f"{part.importance:.2f}",
            part.told_change,
        ]
        for row, one in shown
        for part in one.substructures[:SHOWN]
    ]
    if table:
        header = [first, "molecule", "part", "importance", report.change]
        show.table(header, table, title=f"atoms are scored by {NAMES[report.by]}")
    for row, one in shown:
        if one.disagreement:
            typer.echo(show.one_line(f"{report.rows.called[row]}: {one.disagreement}"))


def _shorten(text: str) -> str:
    shown = show.one_line(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
