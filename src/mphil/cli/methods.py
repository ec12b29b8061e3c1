"""`mphil methods` and `mphil encoders`."""

from __future__ import annotations

import inspect
from functools import cache
from importlib.resources import files
from json import loads
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mphil.cli import show
from mphil.cli.options import Plugins

if TYPE_CHECKING:
    from mphil.model.committee.trees import TreeKind

verb = typer.Typer(no_args_is_help=False, invoke_without_command=True)


@verb.callback(epilog="Example: mphil methods show mphil")
def methods(
    context: typer.Context,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List all methods; `mphil methods show NAME` explains one."""
    if context.invoked_subcommand is None:
        list_all(json=json)


@verb.command("list", epilog="Example: mphil methods list --json")
def list_all(
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """All methods with what they need and what they are defined for."""
    from mphil.methods import METHODS
    from mphil.model.committee.trees import TREE_KINDS

    facts = [_facts(METHODS[name]) for name in METHODS] + [_tree_facts(kind) for kind in TREE_KINDS]
    if json:
        show.as_json(facts)
        return
    rows = [
        [f["name"], f["summary"], ", ".join(f["needs"]) or "-", _tasks(f["tasks"], f["refuses"]), _cost(f["cost"])]
        for f in facts
    ]
    show.table(["method", "what it does", "needs", "tasks", "cost"], rows)
    typer.echo("cost: processor time of training, relative to erm. `mphil methods show NAME` explains a method.")


@verb.command("show", epilog="Example: mphil methods show mphil")
def show_one(
    name: Annotated[str, typer.Argument(help="Name of a method.")],
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Explain a method: its formula, what it needs and costs, its hyperparameters and presets."""
    from mphil.methods import METHODS
    from mphil.model.committee.trees import TREE_FACTS, is_tree_kind

    facts = _tree_facts(name) if is_tree_kind(name) else _facts(METHODS[name])
    if json:
        show.as_json(facts)
        return
    about = TREE_FACTS[name].about if is_tree_kind(name) else inspect.getdoc(METHODS[name])
    typer.echo(f"{name}: {facts['summary']}\npaper: {facts['paper']}\n\n{about}\n")
    for line in _lines(facts):
        typer.echo(line)
    search = facts["search_space"]
    rows = [
        [key, str(value), ", ".join(map(str, search.get(key, [])))] for key, value in facts["hyperparameters"].items()
    ]
    if rows:
        show.table(["hyperparameter", "default", "worth trying"], rows)
    for preset, values in facts["presets"].items():
        typer.echo(f"preset {preset}: " + _assignments(values))
    published = facts["published"]
    if published["source"]:
        typer.echo(f"preset published: {published['source']}")
    if published["settings"]:
        rows = [[name, _assignments(values) or "-"] for name, values in published["settings"].items()]
        show.table(["published for", "settings"], rows)
    if published["encoder"]:
        rows = [[name, _assignments(values)] for name, values in published["encoder"].items()]
        show.table(["published for", "encoder"], rows)
    if published["epochs"]:
        typer.echo(f"epochs of the published runs: {_assignments(published['epochs'])}")


def _lines(facts: dict[str, Any]) -> list[str]:
    """What it needs, what it is for and what it costs."""
    lines = [f"needs: {', '.join(facts['needs']) or 'nothing but graphs and labels'}"]
    lines.append(f"tasks: {', '.join(facts['tasks'])}")
    lines += [f"not for {kind} tasks: {reason}" for kind, reason in facts["refuses"].items()]
    measured = ", ".join(f"{times:.1f}x on {graphs}" for graphs, times in facts["cost"].items())
    lines.append(f"cost relative to erm: {measured or 'not measured'}")
    return lines


def _tasks(tasks: list[str], refuses: dict[str, str]) -> str:
    if refuses.keys() <= {"regression"}:
        return "classes" if refuses else "classes, regression"
    return ", ".join(tasks)


def _cost(times: dict[str, float]) -> str:
    """From the cheapest to the dearest kind of graphs."""
    shown = list(dict.fromkeys(f"{value:.1f}x" for value in sorted(times.values())))
    return "-".join([shown[0], shown[-1]] if len(shown) > 1 else shown) or "-"


def _assignments(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _facts(cls: Any) -> dict[str, Any]:
    from mphil.config import keyword_arguments
    from mphil.methods.base import summary
    from mphil.methods.published import read_published

    published = read_published(cls.name)
    return {
        "name": cls.name,
        "summary": summary(cls),
        "paper": cls.paper,
        "needs": sorted(cls.needs),
        "tasks": sorted(cls.tasks),
        "refuses": dict(cls.refuses),
        "hyperparameters": keyword_arguments(cls.__init__),
        "search_space": cls.search_space,
        "presets": {name: dict(values) for name, values in cls.presets.items()},
        "published": {
            "source": published.source,
            "settings": {name: dict(values) for name, values in published.tables.items()},
            "encoder": {name: dict(values) for name, values in published.encoder.items()},
            "epochs": dict(published.epochs),
        },
        "cost": measured_costs().get(cls.name, {}),
    }


def _tree_facts(name: TreeKind) -> dict[str, Any]:
    """As `_facts`, for a model of trees."""
    from mphil.model.committee.trees import TREE_FACTS

    told = TREE_FACTS[name]
    nothing: dict[str, Any] = {"hyperparameters": {}, "search_space": {}, "presets": {}, "cost": {}, "refuses": {}}
    return {
        "name": name,
        "summary": told.summary,
        "paper": told.paper,
        "needs": ["molecules"],
        "tasks": ["binary", "multiclass", "multitask", "regression"],
        **nothing,
        "published": {"source": "", "settings": {}, "encoder": {}, "epochs": {}},
    }


@cache
def measured_costs() -> dict[str, dict[str, float]]:
    """Training time of every method relative to ERM, by kind of graphs, as `benchmarks/cost.py` measured it."""
    file = files("mphil.methods").joinpath("cost.json")
    found: dict[str, dict[str, float]] = loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def encoders(
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the encoders that `--set encoder.kind=NAME` takes."""
    from mphil.nn.encoders import ENCODERS, summary

    facts = [{"kind": name, "summary": summary(name), "edge_weight": ENCODERS[name].takes_weights} for name in ENCODERS]
    if json:
        show.as_json(facts)
        return
    rows = [[str(f["kind"]), str(f["summary"]), "yes" if f["edge_weight"] else "no"] for f in facts]
    show.table(["kind", "what it does", "edge weights"], rows)
    typer.echo("Any PyTorch module, such as torch_geometric.nn:GraphSAGE, is written as package.module:Class.")
