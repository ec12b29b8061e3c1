"""`mphil benchmarks`: list, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.cli.plugging import Plugins

MOST_ENVIRONMENTS = 12
"""Environments that are shown one by one."""

verb = typer.Typer(no_args_is_help=False, invoke_without_command=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(verb, name="benchmarks", help="List the benchmarks, or show one.")


@verb.callback(epilog="Example: mphil benchmarks show good-motif-basis --draw motif.html")
def benchmarks(
    context: typer.Context,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List all benchmarks; `mphil benchmarks show NAME` describes one."""
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
        files = [s.file + (", which is downloaded when it is used" if s.url else "") for s in missing[entry.name]]
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


def _environments(sizes: dict[str, int]) -> str:
    """Graphs of each environment, or how many there are where a row would not hold them."""
    if len(sizes) > MOST_ENVIRONMENTS:
        return f"{len(sizes):,} of {min(sizes.values()):,} to {max(sizes.values()):,} graphs"
    return " ".join(f"{name}:{size}" for name, size in sizes.items()) or "-"
