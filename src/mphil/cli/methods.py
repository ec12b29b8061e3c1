"""`mphil methods`: list, show."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from mphil.cli import show

verb = typer.Typer(no_args_is_help=False, invoke_without_command=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(verb, name="methods", help="List the methods, or show one.")


@verb.callback(epilog="Example: mphil methods show mphil")
def methods(
    context: typer.Context, json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False
) -> None:
    """List all methods; `mphil methods show NAME` explains one."""
    if context.invoked_subcommand is None:
        list_all(json)


@verb.command("list", epilog="Example: mphil methods list --json")
def list_all(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """All methods with what they need and what they are defined for."""
    from mphil.methods import METHODS

    facts = [_facts(METHODS[name]) for name in METHODS]
    if json:
        show.as_json(facts)
        return
    rows = [[f["name"], f["summary"], ", ".join(f["needs"]) or "-", ", ".join(f["tasks"])] for f in facts]
    show.table(["method", "what it does", "needs", "tasks"], rows)


@verb.command("show", epilog="Example: mphil methods show mphil")
def show_one(
    name: Annotated[str, typer.Argument(help="Name of a method.")],
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Explain a method: its formula, its hyperparameters and presets."""
    from mphil.methods import METHODS

    cls = METHODS[name]
    facts = _facts(cls)
    if json:
        show.as_json(facts)
        return
    typer.echo(f"{name}: {facts['summary']}\npaper: {facts['paper']}\n\n{inspect.getdoc(cls)}\n")
    rows = [[key, str(value)] for key, value in facts["hyperparameters"].items()]
    if rows:
        show.table(["hyperparameter", "default"], rows)
    for preset, values in facts["presets"].items():
        typer.echo(f"preset {preset}: " + ", ".join(f"{k}={v}" for k, v in values.items()))


def _facts(cls: Any) -> dict[str, Any]:
    from mphil.config import keyword_arguments

    module = inspect.getmodule(cls)
    return {
        "name": cls.name,
        "summary": (inspect.getdoc(module) or "").splitlines()[0].partition(": ")[2],
        "paper": cls.paper,
        "needs": sorted(cls.needs),
        "tasks": sorted(cls.tasks),
        "hyperparameters": keyword_arguments(cls.__init__),
        "search_space": cls.search_space,
        "presets": {name: dict(values) for name, values in cls.presets.items()},
    }
