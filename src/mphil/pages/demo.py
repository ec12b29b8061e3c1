"""The demo page: one HTML file that shows who kept working under the shift, and why."""

from __future__ import annotations

from collections.abc import Sequence

from mphil.pages.document import (
    Cell,
    RowGroup,
    command,
    details,
    dot,
    facts,
    image,
    page,
    paragraph,
    resource,
    section,
    table,
)
from mphil.pages.palette import SERIES
from mphil.pages.sphere import legend, sphere
from mphil.pages.svg import bar_chart, line_chart
from mphil.pages.text import MISSING, escape, known, listing
from mphil.pages.verdict import KEPT, METRIC_NAMES, sample_size, score, tie_margin, verdict
from mphil.pages.view import (
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
    result = verdict(view)
    eyebrow = f"MPHIL demo · {view.data.benchmark}" + (f" · {view.making.date}" if view.making.date else "")
    header = f'<header><p class="eyebrow">{escape(eyebrow)}</p><h1>{escape(result.sentence)}</h1>{_lead(view)}</header>'
    sections = [_scores(view), _curves(view), _spheres(view), _atoms(view), _data(view), _making(view), _next(view)]
    body = f"{header}\n<main>\n" + "\n".join(part for part in sections if part) + "\n</main>"
    return page(f"MPHIL demo: {view.data.benchmark}", body, scripts=[resource("sphere.js")])


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
    return paragraph(" ".join(sentences), "lead")


def _scores(view: DemoView) -> str:
    groups = [
        RowGroup([_score_row(view, method, rule) for method in view.methods], f"Epoch chosen on {PART_NAMES[rule]}")
        for rule in SELECTIONS
    ]
    header = ["Method", "ID test", "OOD test", "Gap", "OOD val.", "Epoch", "Seconds"]
    caption = f"{METRIC_NAMES[view.metric]} in per cent; gap: ID test minus OOD test, in points"
    caption = caption[0].upper() + caption[1:]
    bars = bar_chart(
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
    return section(
        "scores",
        "Scores",
        f'<div class="beside">{table(caption, header, groups)}<figure>{bars}</figure></div>',
        paragraph(_rule(view), "note"),
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


def _score_row(view: DemoView, method: MethodView, rule: str) -> list[str | Cell]:
    choice = method.choices[rule]
    inside, outside = (known(choice.scores.get(part)) for part in ("id_test", "ood_test"))
    gap = MISSING if inside is None or outside is None else f"{100 * (inside - outside):+.1f}".replace("-", "−")
    return [
        Cell(method.label, _colour(view, method)),
        _bare(inside),
        _bare(outside),
        gap,
        _bare(choice.scores.get("ood_val")),
        str(choice.epoch),
        f"{method.seconds:.0f}",
    ]


def _curves(view: DemoView) -> str:
    shown = [part for part in CURVES if any(part in method.curves for method in view.methods)]
    epochs = max((len(curve) for method in view.methods for curve in method.curves.values()), default=0)
    curves = {
        part: {m.label: _padded(m.curves[part], epochs) for m in view.methods if part in m.curves} for part in shown
    }
    values = [v for lines in curves.values() for line in lines.values() for v in line if v is not None]
    floor = 10.0 * (min(values, default=0.0) // 10)
    marks = {method.label: float(method.choices["ood_val"].epoch) for method in view.methods}
    charts = [
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
    return section(
        "curves",
        "Learning curves",
        paragraph("A ring marks the epoch chosen on OOD validation. OOD test is never used to choose."),
        '<div class="trio">' + "".join(f"<figure>{chart}</figure>" for chart in charts) + "</div>",
        details("The numbers behind the curves", _curve_table(view, shown, epochs)),
    )


def _curve_table(view: DemoView, parts: list[str], epochs: int) -> str:
    columns = [(m, part) for part in parts for m in view.methods if part in m.curves]
    curves = [_padded(m.curves[part], epochs) for m, part in columns]
    rows = [
        [str(epoch + 1), *(MISSING if curve[epoch] is None else f"{curve[epoch]:.1f}" for curve in curves)]
        for epoch in range(epochs)
    ]
    header = ["Epoch", *(f"{PART_NAMES[part]}, {m.label}" for m, part in columns)]
    return table(f"{METRIC_NAMES[view.metric]} after each epoch, per cent", header, [RowGroup(rows)])


def _spheres(view: DemoView) -> str:
    shown = [(method, method.cloud) for method in view.methods if method.cloud is not None]
    if not shown:
        return ""
    parts = [(part, PART_NAMES[part]) for part in view.sphere_parts]
    figures = [
        sphere(
            cloud,
            identifier=f"sphere-{i}",
            title=method.label,
            class_names=view.data.classes,
            part_names=parts,
        )
        for i, (method, cloud) in enumerate(shown)
    ]
    noun = view.data.noun
    armed = [method.label for method, cloud in shown if len(cloud.prototype_classes)]
    verb = "decides" if len(armed) == 1 else "decide"
    decide = f"{listing(armed)} {verb} by the prototypes (stars) a direction is close to. " if armed else ""
    return section(
        "spheres",
        f"Where the {noun} lie on the sphere",
        paragraph(
            f"Each sign is one of the {noun}, placed by the direction of its embedding. In a good representation the "
            f"classes lie apart, and filled and hollow signs of a class lie together. {decide}"
            "Drag a sphere or use the arrow keys to turn it; Enter brings the next prototype to the front."
        ),
        legend(view.data.classes, parts, prototypes=bool(armed)),
        f'<div class="pair">{"".join(figures)}</div>',
    )


def _atoms(view: DemoView) -> str:
    if not view.molecules:
        return ""
    means = [f"{m.label} {m.atom_score:.2f}" for m in view.methods if known(m.atom_score) is not None]
    text = (
        "Left, the atoms that decide the label. Beside it, the atoms each method relied on: the deeper the colour, the "
        "more. The number is the ROC-AUC of atom importance against the truth: 1 is a perfect ranking, 0.5 is chance."
    )
    if means:
        text += f" Mean over the OOD test {view.data.noun}: {', '.join(means)}."
    return section(
        "atoms",
        "Which atoms decided",
        paragraph(text),
        '<div class="molecules">' + "".join(_molecule(view, molecule) for molecule in view.molecules) + "</div>",
    )


def _molecule(view: DemoView, molecule: MoleculeView) -> str:
    cells = [_drawing(molecule.truth, f"{molecule.name}, atoms that decide the label", "Truth")]
    for method in view.methods:
        if method.name in molecule.found:
            found = molecule.found[method.name]
            value = known(found.score)
            said = MISSING if value is None else f"{value:.2f}"
            name = f"{dot(_colour(view, method))}{escape(method.label)} <b>{said}</b>"
            cells.append(_drawing(found.svg, f"{molecule.name}, atoms {method.label} relied on", name, escaped=True))
    return (
        f'<article><h3>{escape(molecule.caption)}</h3><div class="drawings">{"".join(cells)}</div>'
        f'<p class="smiles"><code>{escape(molecule.name)}</code></p></article>'
    )


def _drawing(svg: str, alt: str, caption: str, *, escaped: bool = False) -> str:
    text = caption if escaped else escape(caption)
    return f"<figure>{image(svg, alt)}<figcaption>{text}</figcaption></figure>"


def _data(view: DemoView) -> str:
    data = view.data
    header = ["Part", data.noun.capitalize(), *data.classes, "Scaffolds", "Scaffold rule"]
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
    return section(
        "data",
        "How the shift was made",
        *(paragraph(text) for text in data.story),
        table(caption, header, [RowGroup(rows)]),
    )


def _making(view: DemoView) -> str:
    making = view.making
    entries = [
        ("Benchmark", view.data.benchmark + (f", digest {view.data.digest[:16]}" if view.data.digest else "")),
        ("Seeds", ", ".join(str(seed) for seed in making.seeds)),
        ("Budget", f"{making.epochs} epochs for every method, {_total(view)} s of training in all"),
        ("Epoch chosen by", "best OOD validation score; beside it, best ID validation score"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in making.versions.items())),
        ("Machine", f"{making.machine}; {making.threads} thread{'s' if making.threads != 1 else ''}"),
    ]
    return section("making", "How the numbers were made", command(making.command), facts(entries))


def _total(view: DemoView) -> str:
    return f"{sum(method.seconds for method in view.methods):.0f}"


def _next(view: DemoView) -> str:
    if not view.next_commands:
        return ""
    items = "".join(f"<li>{paragraph(what)}{command(line)}</li>" for line, what in view.next_commands)
    return section("next", "Go on", f'<ul class="commands">{items}</ul>')


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
