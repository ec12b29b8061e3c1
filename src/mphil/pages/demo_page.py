"""The demo page: one HTML file that shows who kept working under the shift, and why."""

from __future__ import annotations

from collections.abc import Sequence

from mphil.pages.charts import bar_chart, line_chart
from mphil.pages.elements import MISSING, SERIES, Markup, known, listing
from mphil.pages.sphere_map import PROTOTYPES, legend, sphere
from mphil.pages.template import Grid, TableCell, page
from mphil.pages.view import (
    KEPT,
    METRIC_NAMES,
    PART_NAMES,
    SELECTIONS,
    Choice,
    DataView,
    DemoView,
    FoundAtoms,
    Making,
    MethodView,
    MoleculeView,
    PartView,
    sample_size,
    score,
    tie_margin,
    verdict,
)

__all__ = [
    "Choice",
    "DataView",
    "DemoView",
    "FoundAtoms",
    "Making",
    "MethodView",
    "MoleculeView",
    "PartView",
    "render",
]

CURVES = ("id_val", "ood_val", "ood_test")


def render(view: DemoView) -> str:
    """The whole page."""
    spheres = _spheres(view)
    means = [f"{m.label} {m.atom_score:.2f}" for m in view.methods if known(m.atom_score) is not None]
    return page(
        "demo",
        f"MPHIL demo: {view.data.benchmark}",
        scripts=["sphere.js"],
        view=view,
        finding=verdict(view).sentence,
        lead=_lead(view),
        scores=_scores(view),
        bars=_bars(view),
        rule=_rule(view),
        curves=_curves(view),
        curve_table=_curve_table(view),
        spheres=spheres,
        legend=legend(view.data.classes, _sphere_parts(view), stars=PROTOTYPES if _armed(view) else "")
        if spheres
        else "",
        armed=_armed(view),
        colours=dict(zip((method.name for method in view.methods), _colours(view), strict=True)),
        atom_means=", ".join(means),
        parts=_parts(view),
        making=_making(view),
    )


def _lead(view: DemoView) -> str:
    first, other = verdict(view), verdict(view, "id_val")
    runs = len(view.making.seeds)
    how = "from one seed" if runs == 1 else f"a mean over {runs} seeds"
    noun = view.data.noun
    sentences = [
        f"ID test {noun} are drawn like the training {noun}; OOD test {noun} are not. "
        f"Scores are {METRIC_NAMES[view.metric]}, each {how}, at the epoch with the best OOD validation score."
    ]
    if (first.outcome, first.winner) != (other.outcome, other.winner):
        sentences.append(f"Choosing the epoch on ID validation changes the finding: {other.sentence}")
    if runs == 1:
        sentences.append("One seed shows how things work; it does not measure the methods.")
    return " ".join(sentences)


def _scores(view: DemoView) -> Grid:
    caption = f"{METRIC_NAMES[view.metric]} in per cent; gap: ID test minus OOD test, in points"
    return Grid(
        caption[0].upper() + caption[1:],
        ["Method", "ID test", "OOD test", "Gap", "OOD val.", "Epoch", "Seconds"],
        {
            f"Epoch chosen on {PART_NAMES[rule]}": [_score_row(view, method, rule) for method in view.methods]
            for rule in SELECTIONS
        },
    )


def _bars(view: DemoView) -> Markup:
    return bar_chart(
        ["ID test", "OOD test"],
        {
            method.label: [_percent(method.choices["ood_val"].scores.get(part)) for part in ("id_test", "ood_test")]
            for method in view.methods
        },
        title="Before and after the shift",
        y_label=f"{METRIC_NAMES[view.metric]}, %",
        y_range=(0, 100),
        reference=None if view.chance is None else ("guessing", 100 * view.chance),
        colours=_colours(view),
        show=lambda value: f"{value:.1f}",
        size=(380, 280),
    )


def _rule(view: DemoView) -> str:
    """How the words of the headline are decided."""
    text = (
        f"A method kept working if OOD test is at most {100 * KEPT:.0f} points below ID test. "
        "Two scores are too close to call within twice the sampling error of their difference"
    )
    scores = sorted((known(m.choices["ood_val"].scores.get("ood_test")) or 0.0 for m in view.methods), reverse=True)
    if len(scores) > 1 and sample_size(view):
        text += f", here {100 * tie_margin(scores[0], scores[1], sample_size(view)):.1f} points"
    return text + "."


def _score_row(view: DemoView, method: MethodView, rule: str) -> list[str | TableCell]:
    choice = method.choices[rule]
    inside, outside = (known(choice.scores.get(part)) for part in ("id_test", "ood_test"))
    gap = MISSING if inside is None or outside is None else f"{100 * (inside - outside):+.1f}".replace("-", "−")
    return [
        TableCell(method.label, _colour(view, method)),
        _bare(inside),
        _bare(outside),
        gap,
        _bare(choice.scores.get("ood_val")),
        str(choice.epoch),
        f"{method.seconds:.0f}",
    ]


def _lines(view: DemoView) -> dict[str, dict[str, list[float | None]]]:
    """Part to method to its curve, all of the same length."""
    shown = [part for part in CURVES if any(part in method.curves for method in view.methods)]
    epochs = max((len(curve) for method in view.methods for curve in method.curves.values()), default=0)
    return {
        part: {m.label: _padded(m.curves[part], epochs) for m in view.methods if part in m.curves} for part in shown
    }


def _curves(view: DemoView) -> list[Markup]:
    curves = _lines(view)
    values = [v for lines in curves.values() for line in lines.values() for v in line if v is not None]
    floor = 10.0 * (min(values, default=0.0) // 10)
    marks = {method.label: float(method.choices["ood_val"].epoch) for method in view.methods}
    return [
        line_chart(
            lines,
            title=PART_NAMES[part],
            x_label="epoch",
            y_label=f"{METRIC_NAMES[view.metric]}, %",
            y_range=(floor, 100.0),
            marks=marks,
            colours=_colours(view),
            show=lambda value: f"{value:.1f} %",
        )
        for part, lines in curves.items()
    ]


def _curve_table(view: DemoView) -> Grid:
    columns = {
        f"{PART_NAMES[part]}, {name}": line for part, lines in _lines(view).items() for name, line in lines.items()
    }
    rows = [
        [str(epoch), *(MISSING if value is None else f"{value:.1f}" for value in values)]
        for epoch, values in enumerate(zip(*columns.values(), strict=True), start=1)
    ]
    return Grid(f"{METRIC_NAMES[view.metric]} after each epoch, per cent", ["Epoch", *columns], rows)


def _spheres(view: DemoView) -> list[Markup]:
    shown = [(method, method.cloud) for method in view.methods if method.cloud is not None]
    return [
        sphere(
            cloud,
            identifier=f"sphere-{i}",
            title=method.label,
            class_names=view.data.classes,
            part_names=_sphere_parts(view),
        )
        for i, (method, cloud) in enumerate(shown)
    ]


def _sphere_parts(view: DemoView) -> list[tuple[str, str]]:
    return [(part, PART_NAMES[part]) for part in view.sphere_parts]


def _armed(view: DemoView) -> str:
    """A sentence about the methods that have prototypes."""
    armed = [method.label for method in view.methods if method.cloud and len(method.cloud.prototype_classes)]
    verb = "decides" if len(armed) == 1 else "decide"
    return f"{listing(armed)} {verb} by the prototypes (stars) a direction is close to. " if armed else ""


def _parts(view: DemoView) -> Grid:
    data = view.data
    rows = [
        [
            PART_NAMES[part.name].capitalize() if part.name == "train" else PART_NAMES[part.name],
            f"{part.graphs:,}",
            *(f"{count:,}" for count in part.per_class),
            MISSING if part.scaffolds is None else f"{part.scaffolds:,}",
            "new" if part.shortcut is None else score(part.shortcut),
        ]
        for part in data.parts
    ]
    caption = "The five parts. Scaffold rule: accuracy of guessing the label from the scaffold alone"
    return Grid(caption, ["Part", data.noun.capitalize(), *data.classes, "Scaffolds", "Scaffold rule"], rows)


def _making(view: DemoView) -> list[tuple[str, str]]:
    making = view.making
    seconds = sum(method.seconds for method in view.methods)
    return [
        ("Benchmark", view.data.benchmark + (f", digest {view.data.digest[:16]}" if view.data.digest else "")),
        ("Seeds", ", ".join(str(seed) for seed in making.seeds)),
        ("Budget", f"{making.epochs} epochs for every method, {seconds:.0f} s of training in all"),
        ("Epoch chosen by", "best OOD validation score; beside it, best ID validation score"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in making.versions.items())),
        ("Machine", f"{making.machine}; {making.threads} thread{'s' if making.threads != 1 else ''}"),
    ]


def _colours(view: DemoView) -> list[str]:
    """The first colour for the method the page is about, the others in turn: a method keeps its colour everywhere."""
    others = iter(SERIES[1:] * len(view.methods))
    return [SERIES[0] if method.name == view.focus else next(others) for method in view.methods]


def _colour(view: DemoView, method: MethodView) -> str:
    return _colours(view)[[m.name for m in view.methods].index(method.name)]


def _padded(curve: Sequence[float | None], epochs: int) -> list[float | None]:
    """A curve in per cent, as long as the longest: a method may have stopped early."""
    return [_percent(value) for value in curve] + [None] * (epochs - len(curve))


def _percent(value: float | None) -> float | None:
    value = known(value)
    return None if value is None else 100 * value


def _bare(value: float | None) -> str:
    return score(value).removesuffix("\N{NO-BREAK SPACE}%")
