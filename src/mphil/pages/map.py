"""The sphere as a map of molecules: point at a sign, or walk to it with the keyboard, and see the molecule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mphil.errors import DataError
from mphil.pages.sphere import Cloud, Mark, legend, sphere
from mphil.pages.template import fragment
from mphil.pages.text import Markup

SCRIPTS = ("sphere.js", "map.js")
"""What a page with a map runs."""


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


def molecule_map(view: MoleculeMap, *, identifier: str) -> Markup:
    """The map as HTML: legend, sphere, and a card for the molecule that is looked at.

    The page must carry `SCRIPTS`.

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
    return fragment(
        "_map",
        legend=legend(view.class_names, names, prototypes=bool(len(view.cloud.prototype_classes)), marks=marks),
        sphere=figure,
        identifier=identifier,
        data={"pictures": list(view.pictures), "details": list(view.details)},
    )
