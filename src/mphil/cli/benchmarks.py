"""`mphil benchmarks`: list, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show

verb = typer.Typer(no_args_is_help=False, invoke_without_command=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(verb, name="benchmarks", help="List the benchmarks, or show one.")


@verb.callback(epilog="Example: mphil benchmarks show good-motif-basis --draw motif.html")
def benchmarks(
    context: typer.Context, json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False
) -> None:
    """List all benchmarks; `mphil benchmarks show NAME` describes one."""
    if context.invoked_subcommand is None:
        list_all(json)


@verb.command("list", epilog="Example: mphil benchmarks list --json")
def list_all(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """All benchmarks with one sentence each."""
    from mphil.benchmarks import BENCHMARKS

    entries = [BENCHMARKS[name] for name in BENCHMARKS]
    if json:
        show.as_json(
            [
                {"name": e.name, "summary": e.summary, "source": e.source, "differs": e.differs, "options": e.options}
                for e in entries
            ]
        )
        return
    show.table(["benchmark", "what it is"], [[entry.name, entry.summary] for entry in entries])


@verb.command("show", epilog="Example: mphil benchmarks show good-motif-basis --set graphs=3000 --draw motif.html")
def show_one(
    name: Annotated[str, typer.Argument(help="Name of a benchmark.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the benchmark, such as seed=1.")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Write a page with drawings of sample graphs.")] = None,
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
        from mphil.samples import sample_page

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
                " ".join(f"{k}:{v}" for k, v in count["environments"].items()) or "-",
                f"{count['mean_nodes']:.1f} [{count['nodes_range'][0]}, {count['nodes_range'][1]}]",
                f"{count['mean_edges']:.1f} [{count['edges_range'][0]}, {count['edges_range'][1]}]",
            ]
        )
    header = ["part", "graphs", "labels", "environments", "nodes", "directed edges"]
    show.table(header, rows, title=f"{facts['task']}, {facts['metric']}")
    if draw:
        typer.echo(f"drawings: {draw}")
