"""Embeddings and prototypes on a sphere one can turn, and the map of molecules made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from mphil.errors import DataError
from mphil.pages.elements import CLASSES, Markup, element, number, paint, picture
from mphil.pages.samples import Floats
from mphil.pages.template import fragment

CROSS = 1.5
"""Reach of the strokes through a point that is set off, in its radii."""
FRONT = ((0.94, 0.0, 0.34), (0.09, 0.96, -0.26), (-0.33, 0.28, 0.9))
"""First view: the third axis comes towards the reader, tilted a little so that it looks round."""
SHAPES = ("circle", "square", "triangle", "diamond")
"""Outline of a point by class, beside its colour."""
PROTOTYPES = "prototype, in the colour of its class"
"""What a star is, for the legend."""

Mark = Literal["filled", "hollow", "barred", "crossed"]
"""How the points of a part are drawn: with no stroke through them, with one, with two."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """What lies on one sphere.

    Attributes:
        points: (n, 3) unit vectors.
        classes: (n,) class number of each point.
        parts: (n,) part each point belongs to.
        prototypes: (m, 3) unit vectors; m may be 0.
        prototype_classes: (m,) class number of each prototype.
        explained: share of the variance that three axes keep.
        names: (n,) what to say of each point, before its class and part; or nothing.
    """

    points: Floats
    classes: Sequence[int]
    parts: Sequence[str]
    prototypes: Floats = field(default_factory=lambda: np.empty((0, 3)))
    prototype_classes: Sequence[int] = ()
    explained: float = 1.0
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        n, m = len(self.classes), len(self.prototype_classes)
        if len(self.names) not in (0, n):
            raise DataError(f"sphere: {n} points and {len(self.names)} names must be as many")
        points, prototypes = _triples(self.points), _triples(self.prototypes)
        if not len(points) == n == len(self.parts):
            raise DataError(f"sphere: {len(points)} points, {n} classes and {len(self.parts)} parts must be as many")
        if len(prototypes) != m:
            raise DataError(f"sphere: {len(prototypes)} prototypes and {m} prototype classes must be as many")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "prototypes", prototypes)


def to_sphere3(embeddings: ArrayLike, prototypes: ArrayLike = ()) -> tuple[Floats, Floats, float]:
    """Project embeddings to the three axes that keep most of them, and back onto a sphere.

    Principal axes are taken without centring. A method on the sphere compares directions from the origin; moving the
    origin to the mean would turn small differences between neighbours into opposite ends of the picture. The first
    axis, close to the mean direction, comes towards the reader.

    Args:
        embeddings: (n, p) vectors; their length is dropped.
        prototypes: (m, p) vectors, or nothing.

    Returns:
        (n, 3) points and (m, 3) prototypes of length 1 (0 where a vector has no component along the three axes), and
        the share of the variance of the directions, about their mean, that the three axes keep.

    Example:
        >>> points, _, explained = to_sphere3([[1, 0, 0], [0, 2, 0], [0, 0, 3]])
        >>> round(explained, 6), points.shape
        (1.0, (3, 3))
    """
    points = np.asarray(embeddings, dtype=np.float64)
    if points.ndim != 2 or not len(points):
        raise DataError(f"embeddings must have shape (n, p) with n > 0, not {points.shape}")
    marks = np.asarray(prototypes, dtype=np.float64).reshape(-1, points.shape[1])
    if not (np.isfinite(points).all() and np.isfinite(marks).all()):
        raise DataError("embeddings or prototypes hold NaN or infinity; look at the training log")
    everything = _unit(np.concatenate([points, marks]))
    axes = np.zeros((3, everything.shape[1]))
    found = np.linalg.svd(everything, full_matrices=False)[2][:3]
    signs = np.sign(found[np.arange(len(found)), np.abs(found).argmax(1)])
    axes[: len(found)] = found * signs[:, None]
    if (everything @ axes[0]).sum() < 0:
        axes[0] *= -1
    flat = everything @ axes[[1, 2, 0]].T
    spread = _variance(everything[: len(points)])
    explained = _variance(flat[: len(points)]) / spread if spread > 1e-12 else 1.0
    placed = _unit(flat)
    return placed[: len(points)], placed[len(points) :], min(explained, 1.0)


def sphere(
    cloud: Cloud,
    *,
    identifier: str,
    title: str,
    class_names: Sequence[str],
    part_names: Sequence[tuple[str, str]],
    marks: Sequence[Mark] = (),
) -> Markup:
    """A figure with a sphere that turns under mouse, finger and arrow keys, and a still picture where scripts are off.

    The page must carry `sphere.js`.

    Args:
        cloud: what to show.
        identifier: unique on the page.
        title: text above the sphere.
        class_names: name of each class.
        part_names: part to its name for the reader, in the order of the legend.
        marks: how the points of each part are drawn; the first filled and the others hollow when absent.
    """
    order = [name for name, _ in part_names]
    if strange := set(cloud.parts) - set(order):
        raise DataError(f"sphere {title}: part {min(strange)!r} is not among {', '.join(order)}")
    if strange_class := [c for c in (*cloud.classes, *cloud.prototype_classes) if not 0 <= c < len(class_names)]:
        raise DataError(f"sphere {title}: class {strange_class[0]} has no name among {len(class_names)}")
    data = {
        "points": np.round(cloud.points, 3).tolist(),
        "classes": [int(c) for c in cloud.classes],
        "parts": [order.index(part) for part in cloud.parts],
        "prototypes": np.round(cloud.prototypes, 3).tolist(),
        "prototypeClasses": [int(c) for c in cloud.prototype_classes],
        "classNames": list(class_names),
        "partNames": [text for _, text in part_names],
        "colours": [_colour(c) for c in range(len(class_names))],
        "shapes": [SHAPES[c % len(SHAPES)] for c in range(len(class_names))],
        "marks": _marks(marks, part_names),
        "names": list(cloud.names),
        "view": FRONT,
    }
    said = f"{title}: {len(cloud.classes)} points and {len(cloud.prototype_classes)} prototypes on a sphere"
    return fragment(
        "_sphere",
        identifier=identifier,
        title=title,
        said=said,
        named=bool(cloud.names),
        still=still(cloud, title=said, part_names=part_names, marks=marks),
        data=data,
        kept=f"{100 * cloud.explained:.0f}",
    )


def legend(
    class_names: Sequence[str],
    part_names: Sequence[tuple[str, str]],
    *,
    stars: str = PROTOTYPES,
    marks: Sequence[Mark] = (),
) -> Markup:
    """What the signs mean, with switches for the parts once scripts run; no star where it is called nothing."""
    return fragment(
        "_legend",
        classes=[(_sign(SHAPES[c % len(SHAPES)], _colour(c)), name) for c, name in enumerate(class_names)],
        star=_sign("star", "ink") if stars else None,
        star_name=stars,
        parts=[
            (_sign("circle", "ink", mark), name)
            for (_, name), mark in zip(part_names, _marks(marks, part_names), strict=True)
        ],
    )


def still(
    cloud: Cloud,
    *,
    title: str,
    part_names: Sequence[tuple[str, str]],
    marks: Sequence[Mark] = (),
    size: int = 360,
) -> Markup:
    """The first view as SVG text: what faces the reader strong, the far side pale."""
    radius, middle = 0.46 * size, size / 2
    drawn = {part: mark for (part, _), mark in zip(part_names, _marks(marks, part_names), strict=True)}
    signs: list[tuple[bool, bool, float, Markup]] = []
    for position, c, part in zip(_turn(cloud.points), cloud.classes, cloud.parts, strict=True):
        sign = _placed(position, SHAPES[c % len(SHAPES)], _colour(c), drawn[part], radius, middle)
        signs.append((position[2] >= 0, False, position[2], sign))
    for position, c in zip(_turn(cloud.prototypes), cloud.prototype_classes, strict=True):
        sign = _placed(position, "star", _colour(c), "filled", radius, middle)
        signs.append((position[2] >= 0, True, position[2], sign))
    disc = element("circle", cx=middle, cy=middle, r=radius, **paint(fill="surface", stroke="rule"))
    return picture(disc, *(sign for *_, sign in sorted(signs)), size=(size, size), said=title, kind="still")


def _marks(marks: Sequence[Mark], part_names: Sequence[tuple[str, str]]) -> list[Mark]:
    """How each part is drawn."""
    usual: list[Mark] = ["filled" if i == 0 else "hollow" for i in range(len(part_names))]
    if marks and len(marks) != len(usual):
        raise DataError(f"sphere: {len(marks)} marks for {len(usual)} parts; give one for each")
    return list(marks) or usual


def _placed(position: Floats, shape: str, colour: str, mark: Mark, radius: float, middle: float) -> Markup:
    x, y = middle + radius * position[0], middle - radius * position[1]
    return element(
        "path",
        d=_outline(shape, 10 if shape == "star" else 3.6, mark),
        transform=f"translate({x:.1f} {y:.1f})",
        opacity=1.0 if position[2] >= 0 else 0.3,
        **_fill(shape, colour, mark),
    )


def _sign(shape: str, colour: str, mark: Mark = "filled") -> Markup:
    """A sign of the legend."""
    outline = element("path", d=_outline(shape, 7 if shape == "star" else 5, mark), **_fill(shape, colour, mark))
    return element("svg", outline, class_="sign", viewBox="-8 -8 16 16", width=16, height=16, aria_hidden="true")


def _fill(shape: str, colour: str, mark: Mark) -> dict[str, str]:
    if mark != "filled":
        return paint(fill="none", stroke=colour) | {"stroke_width": "1.4"}
    return paint(fill=colour, stroke="ink" if shape == "star" else colour)


def _outline(shape: str, r: float, mark: Mark = "filled") -> str:
    if mark in ("barred", "crossed"):
        end = number(CROSS * r, 2)
        other = f"M-{end} -{end}L{end} {end}" if mark == "crossed" else ""
        return f"{_outline(shape, r)}M-{end} {end}L{end} -{end}{other}"
    if shape == "circle":
        return f"M{-r} 0A{r} {r} 0 1 1 {r} 0A{r} {r} 0 1 1 {-r} 0Z"
    corners = {"square": 4, "diamond": 4, "triangle": 3, "star": 10}[shape]
    angle = 2 * np.pi * np.arange(corners) / corners + (np.pi / 4 if shape == "square" else 0)
    reach = np.where(np.arange(corners) % 2, 0.42, 1.0) * r if shape == "star" else np.full(corners, 1.15 * r)
    steps = (
        f"{number(x, 2)} {number(y, 2)}" for x, y in zip(reach * np.sin(angle), -reach * np.cos(angle), strict=True)
    )
    return "M" + "L".join(steps) + "Z"


def _colour(class_number: int) -> str:
    return CLASSES[int(class_number) % len(CLASSES)]


def _turn(vectors: Floats) -> Floats:
    turned: Floats = vectors @ np.asarray(FRONT).T
    return turned


def _triples(vectors: ArrayLike) -> Floats:
    array: Floats = np.asarray(vectors, dtype=np.float64)
    if not array.size:
        return np.empty((0, 3))
    if array.ndim != 2 or array.shape[1] != 3 or not np.isfinite(array).all():
        raise DataError(f"sphere: points must be finite and of shape (n, 3), not {array.shape}; see to_sphere3")
    return array


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-12)
    return unit


def _variance(vectors: Floats) -> float:
    return float(((vectors - vectors.mean(0)) ** 2).sum())


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
        stars: what the prototypes of the cloud are.
    """

    cloud: Cloud
    pictures: Sequence[str]
    details: Sequence[str]
    class_names: Sequence[str]
    parts: Sequence[tuple[str, str, Mark]]
    title: str
    stars: str = PROTOTYPES

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
    stars = view.stars if len(view.cloud.prototype_classes) else ""
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
        legend=legend(view.class_names, names, stars=stars, marks=marks),
        sphere=figure,
        identifier=identifier,
        data={"pictures": list(view.pictures), "details": list(view.details)},
    )
