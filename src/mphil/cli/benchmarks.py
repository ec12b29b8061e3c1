"""`mphil benchmarks`: list, show, fetch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.cli.options import Plugins

MOST_ENVIRONMENTS = 12
"""Environments that are shown one by one."""

verb = typer.Typer(no_args_is_help=False, invoke_without_command=True)


@verb.callback(epilog="Example: mphil benchmarks show good-motif-basis --draw motif.html")
def benchmarks(
    context: typer.Context,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List all benchmarks; `show NAME` describes one, `fetch NAME` downloads its files."""
    if context.invoked_subcommand is None:
        list_all(json=json)


@verb.command("list", epilog="Example: mphil benchmarks list --json")
def list_all(
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """All benchmarks with one sentence each, and which of them are ready or what they need."""
    from mphil.benchmarks import BENCHMARKS
    from mphil.benchmarks.sources import SOURCES, find

    entries = [BENCHMARKS[name] for name in BENCHMARKS]
    missing = {e.name: [SOURCES[need] for need in e.needs if find(need) is None] for e in entries}
    if json:
        facts = ("name", "summary", "source", "differs", "options")
        show.as_json(
            [
                {fact: getattr(e, fact) for fact in facts} | {"missing": [source.file for source in missing[e.name]]}
                for e in entries
            ]
        )
        return
    rows = []
    for entry in entries:
        files = [s.file + (" (downloaded on first use)" if s.urls else "") for s in missing[entry.name]]
        rows.append(
            [entry.name, "needs file" if files else "ready", "\n".join([entry.summary, *(f"needs {f}" for f in files)])]
        )
    show.table(["benchmark", "state", "what it is"], rows)


@verb.command("show", epilog="Example: mphil benchmarks show good-motif-basis --set graphs=3000 --draw motif.html")
def show_one(
    name: Annotated[str, typer.Argument(help="Name of a benchmark.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the benchmark, such as seed=1.")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Write a page with drawings of sample graphs.")] = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Counts, labels, environments and sizes of every part of a benchmark."""
    from mphil.benchmarks import BENCHMARKS, benchmark
    from mphil.training.settings import split_assignment

    options = dict(map(split_assignment, set_ or []))
    entry, data = BENCHMARKS[name], benchmark(name, **options)
    facts = data.statistics() | {"source": entry.source, "differs": entry.differs, "summary": entry.summary}
    if draw:
        from mphil.files import write_text
        from mphil.pages.samples import sample_page

        write_text(draw, sample_page(data, facts))
    if json:
        show.as_json(facts)
        return
    typer.echo(f"{name}: {entry.summary}\nsource: {entry.source}")
    if entry.differs:
        typer.echo(f"differs from the original: {entry.differs}")
    rows = []
    for part, count in facts["parts"].items():
        if not count["graphs"]:
            rows.append([part, "0", "-", "-", "-", "-"])
            continue
        labels = count["labels"][0] if len(count["labels"]) == 1 else {"tasks": len(count["labels"])}
        rows.append(
            [
                part,
                f"{count['graphs']:,}",
                " ".join(f"{k}:{v}" for k, v in labels.items()),
                _environments(count["environments"]),
                f"{count['mean_nodes']:.1f} [{count['nodes_range'][0]}, {count['nodes_range'][1]}]",
                f"{count['mean_edges']:.1f} [{count['edges_range'][0]}, {count['edges_range'][1]}]",
            ]
        )
    header = ["part", "graphs", "labels", "environments", "nodes", "directed edges"]
    show.table(header, rows, title=f"{facts['task']}, {facts['metric']}")
    if draw:
        typer.echo(f"drawings: {draw}")


@verb.command("fetch", epilog="Example: mphil benchmarks fetch good-hiv-scaffold good-pcba-size")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of benchmarks.")],
    plugin: Plugins = None,
) -> None:
    """Download the files of benchmarks into the data folder, or say how to get them by hand.

    The addresses of a file are tried in turn. An interrupted download is resumed, and a file is accepted only if its
    checksum is right. Files that are already there are verified.
    """
    from mphil.benchmarks import BENCHMARKS
    from mphil.errors import DataError, IntegrityError

    needs = {name: BENCHMARKS[name].needs for name in names}
    for name in (name for name, files in needs.items() if not files):
        typer.echo(f"{name} is generated; there is nothing to fetch")
    faults = []
    for source in dict.fromkeys(file for files in needs.values() for file in files):
        try:
            _fetch_one(source)
        except (DataError, IntegrityError) as error:
            faults.append(error)
    if faults:
        raise type(faults[0])("\n\n".join(map(str, faults)))


def _fetch_one(name: str) -> None:
    from mphil.benchmarks.sources import SOURCES, find, locate

    source, there = SOURCES[name], find(name)
    found = locate(source, tell=lambda text: typer.echo(text, err=True))
    size = found.path.stat().st_size
    if found.verified:
        typer.echo(f"{found.path}: {'already there' if there else 'downloaded'}, {size:,} bytes, checksum verified")
        return
    typer.echo(f"{found.path}: {'already there' if there else 'downloaded'}, {size:,} bytes, not verified")
    known = "another one was accepted" if source.sha256 else "no checksum of the published file is known"
    typer.echo(f"warning: {known}; sha256 of this one is {found.sha256}, which every result records", err=True)


def _environments(sizes: dict[str, int]) -> str:
    """Graphs of each environment, or how many there are where a row would not hold them."""
    if len(sizes) > MOST_ENVIRONMENTS:
        return f"{len(sizes):,} of {min(sizes.values()):,} to {max(sizes.values()):,} graphs"
    return " ".join(f"{name}:{size}" for name, size in sizes.items()) or "-"
