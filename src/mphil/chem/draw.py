"""Pictures of molecules as SVG text that can be put into any page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from html import escape
from math import dist

from rdkit.Chem import Mol, rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from mphil.chem.parse import parse_lenient
from mphil.errors import UsageError

INK: dict[int, str] = {
    -1: "#777e8a",  # every element without a colour of its own
    6: "#777e8a",
    7: "#4a7de0",
    8: "#e0503f",
    9: "#2d9657",
    15: "#c2702c",
    16: "#a3811c",
    17: "#2d9657",
    35: "#b8557c",
    53: "#9a5fc0",
}
"""Colour by atomic number, chosen to read on white as well as on near-black."""

GLOW = "#ff6a00"
"""Colour of atom and bond weights."""

OUTLINE = "#0d9a9a"
"""Colour of the line round the outlined atoms."""

BOND_LENGTH = 34.0
"""Pixels, in molecules that are small enough for the picture."""

GLOW_RADIUS = 0.72
BAR_WIDTH = 0.4
OUTLINE_RADIUS = 0.42
"""Fractions of the bond length."""

_STYLE = {
    "clearBackground": False,
    "fixedBondLength": BOND_LENGTH,
    "bondLineWidth": 1.8,
    "padding": 0.09,
    "multipleBondOffset": 0.17,
    "additionalAtomLabelPadding": 0.06,
}

_PLAIN_BOND = re.compile(
    r"style='fill:none;fill-rule:evenodd;stroke:(#\w+);stroke-width:([\d.]+)px;"
    r"stroke-linecap:butt;stroke-linejoin:miter;stroke-opacity:1'"
)

Point = tuple[float, float]
Pair = tuple[int, int]


def molecule_svg(
    smiles: str,
    *,
    weights: Sequence[float] | None = None,
    bond_weights: Sequence[float] | None = None,
    outline: Collection[int] = (),
    width: int = 320,
    height: int = 240,
) -> str:
    """Draw a molecule on a transparent background, readable on light and on dark pages.

    The text is a single `<svg>` element without script, style sheet, font or reference to anything outside, and
    equal arguments give equal text. Atoms are counted in the order in which the SMILES names them, bonds in the order
    of the edges of a graph store: bond `b` is the edges `2b` and `2b + 1`.

    Args:
        smiles: the molecule.
        weights: (n_atoms,) how strongly each atom glows, from 0 (not at all) to 1.
        bond_weights: (n_bonds,) how strongly each bond glows, likewise.
        outline: atoms to draw a line round.
        width: of the picture, in pixels.
        height: of the picture, in pixels.

    Example:
        >>> molecule_svg("CCO", weights=[0, 0.5, 1], outline=[2])[:5]
        '<svg '
    """
    mol, _ = parse_lenient(smiles)
    glow = _checked_weights("atom", weights, mol.GetNumAtoms())
    bars = _checked_weights("bond", bond_weights, mol.GetNumBonds())
    marked = sorted(int(atom) for atom in outline)
    if not all(0 <= atom < mol.GetNumAtoms() for atom in marked):
        raise UsageError(f"outlined atoms must lie between 0 and {mol.GetNumAtoms() - 1}, not {marked}")
    drawer = _drawn(mol, width, height)
    places = [(point.x, point.y) for point in map(drawer.GetDrawCoords, range(mol.GetNumAtoms()))]
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    length = _bond_length(places, bonds)
    request = repr((smiles, glow, bars, marked, width, height))
    key = hashlib.sha256(request.encode()).hexdigest()[:10]
    layers = [f"<title>{escape(smiles)}</title>"]
    if bars is not None:
        layers.append(_bars(places, bonds, bars, length * BAR_WIDTH))
    if glow is not None:
        layers += _glow(places, glow, length * GLOW_RADIUS, key)
    layers.append(_skeleton(drawer))
    if marked:
        layers += _contour(places, bonds, set(marked), length * OUTLINE_RADIUS, (width, height), key)
    frame = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img">{"".join(layers)}</svg>'


def _checked_weights(kind: str, weights: Sequence[float] | None, expected: int) -> list[float] | None:
    """Weights as numbers, one for each atom or bond and between 0 and 1."""
    if weights is None:
        return None
    values = [float(weight) for weight in weights]
    if len(values) != expected:
        raise UsageError(f"{len(values)} {kind} weights for a molecule of {expected} {kind}s")
    if not all(0 <= value <= 1 for value in values):
        raise UsageError(f"{kind} weights must lie between 0 and 1; scale them first")
    return values


def _drawn(mol: Mol, width: int, height: int) -> rdMolDraw2D.MolDraw2DSVG:
    """A drawer that has laid out and drawn the molecule."""
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = drawer.drawOptions()
    options.setAtomPalette({number: _rgb(colour) for number, colour in INK.items()})
    for name, value in _STYLE.items():
        setattr(options, name, value)
    flat = rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False)
    rdDepictor.Compute2DCoords(flat, forceRDKit=True, useRingTemplates=True)
    rdDepictor.StraightenDepiction(flat)
    drawer.DrawMolecule(flat)
    drawer.FinishDrawing()
    return drawer


def _skeleton(drawer: rdMolDraw2D.MolDraw2DSVG) -> str:
    """Bonds and letters as RDKit drew them, without its frame and class names, and with rounded ends."""
    inside = drawer.GetDrawingText().split("<!-- END OF HEADER -->")[1].rsplit("</svg>", 1)[0]
    inside = _PLAIN_BOND.sub(r"fill='none' stroke='\1' stroke-width='\2' stroke-linecap='round'", inside)
    return re.sub(r"\s+", " ", re.sub(r" class='[^']*'", "", inside)).strip()


def _glow(places: Sequence[Point], weights: Sequence[float], radius: float, key: str) -> list[str]:
    """A soft disc behind each atom, as opaque as its weight; neighbours melt into one another."""
    stops = ((0, 0.45), (55, 0.33), (100, 0))
    fade = "".join(f'<stop offset="{at}%" stop-color="{GLOW}" stop-opacity="{opacity}"/>' for at, opacity in stops)
    discs = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" opacity="{weight:.3f}"/>'
        for (x, y), weight in zip(places, weights, strict=True)
        if weight > 0
    )
    # Pages hold many drawings: the key keeps one drawing from borrowing the gradient of another that is hidden.
    gradient = f'<radialGradient id="glow-{key}">{fade}</radialGradient>'
    return [f"<defs>{gradient}</defs>", f'<g fill="url(#glow-{key})">{discs}</g>']


def _bars(places: Sequence[Point], bonds: Sequence[Pair], weights: Sequence[float], width: float) -> str:
    """A broad line with round ends behind each bond, as opaque as its weight; neighbours do not overlap."""
    lines = "".join(
        f'<path d="M{_between(a, b, BAR_WIDTH / 2)}L{_between(b, a, BAR_WIDTH / 2)}" opacity="{weight:.3f}"/>'
        for (a, b), weight in zip([(places[a], places[b]) for a, b in bonds], weights, strict=True)
        if weight > 0
    )
    return f'<g stroke="{GLOW}" stroke-opacity="0.45" stroke-width="{width:.1f}" stroke-linecap="round">{lines}</g>'


def _between(a: Point, b: Point, share: float) -> str:
    """The point at a share of the way from `a` to `b`, as text."""
    return f"{a[0] + share * (b[0] - a[0]):.1f},{a[1] + share * (b[1] - a[1]):.1f}"


def _contour(
    places: Sequence[Point], bonds: Sequence[Pair], atoms: set[int], radius: float, size: tuple[int, int], key: str
) -> list[str]:
    """One line round each connected set of atoms: a thick blob with a slightly thinner one cut out of it."""
    dots = [(places[atom], places[atom]) for atom in sorted(atoms)]
    bars = [(places[begin], places[end]) for begin, end in bonds if begin in atoms and end in atoms]
    path = " ".join(f"M{a[0]:.1f},{a[1]:.1f}L{b[0]:.1f},{b[1]:.1f}" for a, b in dots + bars)
    blob = f'<path d="{path}" fill="none" stroke-linecap="round"'
    outer, inner = 2 * radius, 2 * radius - 3.6
    frame = f'width="{size[0]}" height="{size[1]}"'
    return [
        f'<mask id="cut-{key}" maskUnits="userSpaceOnUse" x="0" y="0" {frame}><rect {frame} fill="#fff"/>',
        f'{blob} stroke="#000" stroke-width="{inner:.1f}"/></mask>',
        f'{blob} stroke="{OUTLINE}" stroke-width="{outer:.1f}" mask="url(#cut-{key})"/>',
    ]


def _bond_length(places: Sequence[Point], bonds: Sequence[Pair]) -> float:
    """Mean length of a bond in pixels."""
    return sum(dist(places[a], places[b]) for a, b in bonds) / len(bonds) if bonds else BOND_LENGTH


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
