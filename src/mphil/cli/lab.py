"""`mphil lab`: list, run, tune, report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mphil.cli import show
from mphil.cli.options import Plugins
from mphil.errors import DataError, Stopped, UnknownName, UsageError

if TYPE_CHECKING:
    from mphil.lab.cells import Cell
    from mphil.lab.engine import Engine
    from mphil.lab.sweep import Tally

RECORDS = Path("benchmarks/results")
RUNS = Path("runs/lab")

verb = typer.Typer(no_args_is_help=True)

Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting of all runs, such as train.lr=0.01.")
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Processes at a time, one thread each. (default: 1; with Ray: as many as processors)"),
]
EngineName = Annotated[str, typer.Option("--engine", help="Where to run: local, or ray for a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster. (default: RAY_ADDRESS; else one is started here)")
]
Runs = Annotated[Path, typer.Option(help="Folder for unfinished runs.")]
Dirty = Annotated[
    bool, typer.Option("--dirty", help="Run even from a checkout with uncommitted changes; the records say so.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the files of finished runs, with the weights.")]


@verb.command("list", epilog="Example: mphil lab list")
def list_all(
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the suites; each is a table or a figure."""
    from mphil.lab.suite import load_suite, suite_names

    suites = [load_suite(name) for name in suite_names()]
    if json:
        show.as_json([suite.model_dump(mode="json") for suite in suites])
        return
    rows = [[s.name, str(s.size), ", ".join(s.all_budgets), s.title, s.paper or "-"] for s in suites]
    show.table(["suite", "cells", "budgets", "what it is", "in the paper"], rows)


@verb.command(epilog="Example: mphil lab run good --methods erm,mphil --benchmarks good-motif-basis --jobs 2")
def run(
    suite: Annotated[str, typer.Argument(help="Name of a suite (see `mphil lab list`), or a TOML file of your own.")],
    budget: Annotated[str | None, typer.Option(help="Name of a budget. (default: the suite's)")] = None,
    set_: Sets = None,
    seeds: Annotated[
        list[str] | None, typer.Option(help="Seeds, such as 0,1,2; may be repeated. (default: the budget's)")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Rows or methods, such as erm,mphil; may be repeated. (default: all)")
    ] = None,
    benchmarks: Annotated[
        list[str] | None, typer.Option(help="Benchmarks of the suite; may be repeated. (default: all)")
    ] = None,
    tuned: Annotated[Path | None, typer.Option(help="Folder with tuned settings, METHOD-BENCHMARK.toml.")] = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = RECORDS,
    runs: Runs = RUNS,
    keep: Keep = False,
    dirty: Dirty = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the commands of the cells.")] = False,
    plugin: Plugins = None,
) -> None:
    """Run the cells of a suite that have no record yet.

    The same command continues after an interruption and retries failed cells.
    """
    from mphil.lab.cells import Request, expand
    from mphil.lab.suite import load_suite
    from mphil.lab.sweep import SweepProgress, sweep

    request = Request(budget, set_ or [], _numbers(seeds), _words(methods), _words(benchmarks), tuned)
    cells = expand(load_suite(suite), request)
    if dry_run:
        _print_plan(cells, out)
        return
    _check_checkout(dirty)
    try:
        with SweepProgress(suite) as progress:
            tally = sweep(cells, _engine(engine, address, runs, jobs), out, progress, keep=keep)
    except KeyboardInterrupt:
        raise Stopped("stopped; everything so far is saved. The same command continues from here.") from None
    _print_tally(tally, out / f"{cells[0].suite}.jsonl")


@verb.command(epilog="Example: mphil lab tune mphil good-motif-basis --trials 20 --set train.epochs=10")
def tune(
    method: Annotated[str, typer.Argument(help="Name of a method; see `mphil methods`.")],
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark; see `mphil benchmarks`.")],
    trials: Annotated[int, typer.Option(min=1, help="Number of settings to try; use the same for every method.")] = 20,
    selection: Annotated[str, typer.Option(help="Validation part that selects: ood_val or id_val.")] = "ood_val",
    seed: Annotated[int, typer.Option(help="Seed of the search and of the runs.")] = 0,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=[VALUES]", help="Search this setting too, such as train.lr=[0.001,0.01]."),
    ] = None,
    set_: Sets = None,
    fraction: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the training graphs.")] = 1.0,
    eval_fraction: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the other graphs.")] = 1.0,
    recipe: Annotated[
        bool, typer.Option("--recipe", help="Give all runs the recipe of the family of data, as suites do.")
    ] = False,
    jobs: Jobs = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Folder for the best settings, the study and its records.")] = Path(
        "benchmarks/hparams"
    ),
    runs: Runs = RUNS,
    dirty: Dirty = False,
    plugin: Plugins = None,
) -> None:
    """Search the hyperparameters of a method on validation scores; the best go to OUT/METHOD-BENCHMARK.toml."""
    from mphil.lab.tune import Search, search

    wanted = Search(method, benchmark, trials, selection, seed, also or (), set_ or (), fraction, eval_fraction, recipe)
    _check_checkout(dirty)
    try:
        where = _engine(engine, address, runs, jobs)
        best = search(wanted, where, out, tell=lambda text: typer.echo(text, err=True))
    except KeyboardInterrupt:
        raise Stopped("stopped; everything so far is saved. The same command continues from here.") from None
    typer.echo(f"best {selection} {best.score:.4f}, trial {best.trial}; different settings tried: {best.trials}")
    typer.echo(f"settings: {best.file}")
    typer.echo(f"next: mphil train --benchmark {benchmark} --config {best.file}")


@verb.command(epilog="Example: mphil lab report good ablation --against mphil+ --out report")
def report(
    suites: Annotated[list[str] | None, typer.Argument(help="Suites. (default: all that have records)")] = None,
    records: Annotated[Path, typer.Option(help="Folder of the records.")] = RECORDS,
    out: Annotated[Path, typer.Option(help="Folder for the HTML pages, report.md, report.tex and the figures.")] = Path(
        "report"
    ),
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods to place among the others, such as mphil+,mphil; rows are tested against the first. "
            "(default: the row that each suite names)"
        ),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Only this budget. (default: all that have records)")] = None,
    set_: Sets = None,
    tuned: Annotated[Path | None, typer.Option(help="Folder with tuned settings, as in `mphil lab run`.")] = None,
    plugin: Plugins = None,
) -> None:
    """Figures and tables from records, beside the figures of the paper: a page for each suite and each method."""
    from mphil.lab.cells import Request
    from mphil.lab.report import write_report

    request = Request(budget=budget, sets=set_ or [], tuned=tuned)
    written = write_report(suites or [], records, out, request, _words(against))
    _print_notes(written.problems)
    typer.echo(f"{written.records:,} records on {written.pages} pages")
    typer.echo("report: " + " · ".join(str(out / name) for name in ("index.html", "report.md", "report.tex")))


def _check_checkout(dirty: bool) -> None:
    from mphil.provenance import check_committed

    if not dirty:
        check_committed()


def _engine(name: str, address: str | None, runs: Path, jobs: int | None) -> Engine:
    from mphil.lab.engine import LocalEngine, RayEngine

    if name not in ("local", "ray"):
        raise UnknownName("engine", name, ("local", "ray"))
    if name == "ray":
        return RayEngine(runs, jobs, address)
    if address:
        raise UsageError(f"--address {address} goes with --engine ray")
    return LocalEngine(runs, jobs or 1)


def _words(texts: list[str] | None) -> list[str]:
    """Words between commas, of an option that may be repeated."""
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]


def _numbers(texts: list[str] | None) -> list[int]:
    text = ",".join(texts or ())
    try:
        numbers = [int(word) for word in _words(texts)]
    except ValueError:
        raise UsageError(f"--seeds {text!r}: write whole numbers, such as 0,1,2") from None
    if any(number < 0 for number in numbers):
        raise UsageError(f"--seeds {text!r}: a seed is 0 or more")
    return numbers


def _print_plan(cells: list[Cell], out: Path) -> None:
    from mphil.lab.records import read_folder
    from mphil.lab.sweep import unique

    records, left_out = read_folder(out)
    _print_notes(left_out)
    recorded = {record["cell"] for record in records}
    for cell in unique(cells):
        typer.echo(f"{'recorded' if cell.id in recorded else 'to run':<8}  {cell.id}  {cell.command}")


def _print_notes(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        typer.echo(f"note: {sentence}", err=True)


def _print_tally(tally: Tally, path: Path) -> None:
    _print_notes(tally.left_out)
    typer.echo(
        f"{tally.total} cells: {tally.run} run, {tally.refused} refused by their method, {tally.before} recorded "
        f"before, {len(tally.failed)} failed"
    )
    for record in tally.failed:
        typer.echo(f"failed: {record['command']}\n        {record['error']}")
    for cell in tally.busy:
        typer.echo(f"another sweep is running: {cell.title}")
    typer.echo(f"records: {path}")
    if tally.failed:
        typer.echo("the same command retries failed cells")
        raise typer.Exit(DataError.exit_code)
