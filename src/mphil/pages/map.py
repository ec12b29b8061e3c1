"""The sphere as a map of molecules: point at a sign, or walk to it with the keyboard, and see the molecule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mphil.errors import DataError
from mphil.pages.document import resource
from mphil.pages.sphere import Cloud, Mark, legend, sphere
from mphil.pages.text import escape

HINT = "The molecule under the pointer is drawn here. With the keyboard: Page Down and Page Up go from point to point."


@dataclass(frozen=True, eq=False)
class MoleculeMap:
    """Molecules on a sphere.

    Attributes:
        cloud: where they are; its `names` are said aloud.
        pictures: a drawing, as SVG text, for each point and then for each prototype.
        details: a line of text for each of them.
        class_names: name of each class.
        parts: part to its name for the reader and how its points are drawn, in the order of the legend.
        title: text above the sphere.
    """

    cloud: Cloud
    pictures: Sequence[str]
    details: Sequence[str]
    class_names: Sequence[str]
    parts: Sequence[tuple[str, str, Mark]]
    title: str

    def __post_init__(self) -> None:
        wanted = len(self.cloud.classes) + len(self.cloud.prototype_classes)
        if not len(self.pictures) == len(self.details) == wanted:
            raise DataError(
                f"map: {wanted} points and prototypes, {len(self.pictures)} pictures and {len(self.details)} details "
                "must be as many"
            )


def molecule_map(view: MoleculeMap, *, identifier: str) -> str:
    """The map as HTML: legend, sphere, and a card for the molecule that is looked at.

    The page must carry the scripts `map_scripts()`.

    Args:
        view: what to show.
        identifier: unique on the page.
    """
    names = [(part, name) for part, name, _ in view.parts]
    marks = [mark for *_, mark in view.parts]
    figure = sphere(
        view.cloud,
        identifier=identifier,
        title=view.title,
        class_names=view.class_names,
        part_names=names,
        marks=marks,
    )
    shown = {"pictures": list(view.pictures), "details": list(view.details)}
    block = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    return (
        legend(view.class_names, names, prototypes=bool(len(view.cloud.prototype_classes)), marks=marks)
        + f'<div class="map" data-map="{escape(identifier)}">{figure}'
        f'<div class="looked-at" hidden><img alt="" hidden><p class="smiles"><code></code></p>'
        f'<p class="detail">{escape(HINT)}</p></div>'
        f'<script type="application/json" data-pictures>{block}</script></div>'
    )


def map_scripts() -> list[str]:
    """What a page with a map runs."""
    return [resource("sphere.js"), resource("map.js")]
