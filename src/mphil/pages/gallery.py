"""The gallery: what each prototype stands for, where molecules lie between them, and why each is predicted as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mphil.pages.document import Cell, RowGroup, dot, facts, image, page, paragraph, resource, section, table
from mphil.pages.map import MoleculeMap, map_scripts, molecule_map
from mphil.pages.palette import CLASSES
from mphil.pages.text import escape


@dataclass(frozen=True)
class Drawing:
    """A molecule to be shown.

    Attributes:
        smiles: its spelling.
        svg: its drawing, a whole SVG document.
        caption: what to know about it.
    """

    smiles: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Fragment:
    """A substructure that a group of molecules has more often than all of them.

    Attributes:
        smiles: the substructure.
        here: (with it, all) molecules of the group.
        overall: (with it, all) molecules that were counted.
    """

    smiles: str
    here: tuple[int, int]
    overall: tuple[int, int]

    @property
    def times(self) -> float:
        """How much more often."""
        return (self.here[0] / self.here[1]) / (self.overall[0] / self.overall[1])


@dataclass(frozen=True)
class PrototypeView:
    """A prototype and the training molecules around it.

    Attributes:
        name: such as "active, prototype 2 of 3".
        class_number: its class.
        members: training molecules that it is nearest to.
        same_class: those of them that have its class, and how many have a label at all.
        nearest: drawings of the nearest ones, what they share outlined.
        shared: what they share, in a sentence.
        fragments: what is over-represented among its members.
    """

    name: str
    class_number: int
    members: int
    same_class: tuple[int, int]
    nearest: Sequence[Drawing]
    shared: str
    fragments: Sequence[Fragment]


@dataclass(frozen=True)
class PartView:
    """A pattern that a method looks for in molecules.

    Attributes:
        name: such as "part 7, for active".
        class_number: the class it speaks for.
        weight: how much it moves the decision when it matches perfectly.
        examples: training molecules where it matches best, the atom glowing and its neighbours outlined.
    """

    name: str
    class_number: int
    weight: float
    examples: Sequence[Drawing]


@dataclass(frozen=True)
class PartRow:
    """A substructure of a molecule, as text.

    Attributes:
        name: what a chemist would call it, empty when there is no name.
        smiles: its spelling.
        importance: mean importance of its atoms.
        change: of the probability when it is hidden.
        svg: the molecule with the part outlined, for a part without a name.
    """

    name: str
    smiles: str
    importance: str
    change: str
    svg: str | None = None


@dataclass(frozen=True)
class ExplainedView:
    """A molecule with the reasons for its prediction.

    Attributes:
        drawing: its decisive atoms.
        rows: the first substructures.
        disagreement: where the colours and the effect of removal disagree, in a sentence.
        change: what the change of a part is a change of.
        matches: what the method looks for, drawn where it was found.
        reason: why the molecule is not in domain, if it is not.
    """

    drawing: Drawing
    rows: Sequence[PartRow]
    disagreement: str = ""
    change: str = "Change"
    matches: Sequence[Drawing] = ()
    reason: str = ""


@dataclass(frozen=True)
class GalleryView:
    """Everything on the page.

    Attributes:
        eyebrow: line above the heading.
        heading: what was found.
        lead: sentences below it.
        centres: what the groups are called, "prototype" or "class centre".
        prototypes: the groups.
        explained: molecules of the user.
        notes: what was left out, and what to bear in mind.
        making: (name, value) how the page was made.
        map: the sphere, or None when the method has no embedding.
        parts: what the method looks for, if it says so.
    """

    eyebrow: str
    heading: str
    lead: Sequence[str]
    centres: str
    prototypes: Sequence[PrototypeView]
    explained: Sequence[ExplainedView]
    notes: Sequence[str]
    making: Sequence[tuple[str, str]]
    map: MoleculeMap | None = None
    parts: Sequence[PartView] = ()


def render(view: GalleryView) -> str:
    """The whole page."""
    header = (
        f'<header><p class="eyebrow">{escape(view.eyebrow)}</p><h1>{escape(view.heading)}</h1>'
        + "".join(paragraph(_plain(text), "lead") for text in view.lead)
        + "</header>"
    )
    sections = [_map(view), _explained(view), _looked_for(view), _prototypes(view), _making(view)]
    body = f"{header}\n<main>\n" + "\n".join(part for part in sections if part) + "\n</main>"
    return page(view.heading, body, scripts=map_scripts() if view.map else (), styles=[resource("gallery.css")])


def _plain(text: str) -> str:
    """Text from a table in a paragraph, where backquotes would mark code."""
    return text.replace("`", "'")


def _map(view: GalleryView) -> str:
    if view.map is None:
        return ""
    text = (
        f"Each sign is a molecule, placed by the direction of its embedding; stars are {view.centres}s. Point at a "
        "sign to see the molecule. Drag the sphere or use the arrow keys to turn it; Enter brings the next star to the "
        "front."
    )
    return section("map", "The map", paragraph(_plain(text)), molecule_map(view.map, identifier="sphere"))


def _explained(view: GalleryView) -> str:
    if not view.explained:
        return ""
    text = (
        "The deeper the colour of an atom, the more it contributed to the prediction. The tables list the parts of a "
        "molecule by the mean of the same numbers over their atoms; the first is outlined if the model is less certain "
        "without it. Change: what becomes of the probability when the part is hidden from the model."
    )
    articles = [
        f"<article>{image(one.drawing.svg, f'{one.drawing.smiles}, decisive atoms')}"
        f"<h3>{escape(one.drawing.caption)}</h3>"
        f'<p class="smiles"><code>{escape(one.drawing.smiles)}</code></p>'
        f"{_reason(one)}{_parts(one)}{_matches(one)}</article>"
        for one in view.explained
    ]
    return section("molecules", "Your molecules", paragraph(text), f'<div class="explained">{"".join(articles)}</div>')


def _parts(one: ExplainedView) -> str:
    if not one.rows:
        return paragraph("It has no part that could be hidden.", "note")
    rows: list[list[str | Cell]] = [
        [Cell(row.name or row.smiles, svg=row.svg or ""), row.importance, row.change] for row in one.rows
    ]
    told = paragraph(_plain(one.disagreement), "note") if one.disagreement else ""
    return told + table("Parts, the most coloured first", ["Part", "Importance", one.change], [RowGroup(rows)])


def _reason(one: ExplainedView) -> str:
    return paragraph(_plain(f"{one.reason[0].upper()}{one.reason[1:]}."), "note") if one.reason else ""


def _matches(one: ExplainedView) -> str:
    if not one.matches:
        return ""
    return f'<h4>What the model looks for, found here</h4><div class="cards">{_cards(one.matches)}</div>'


def _looked_for(view: GalleryView) -> str:
    if not view.parts:
        return ""
    text = (
        "The model asks of every molecule whether, and where, it has one of these parts; those that move its decision "
        "most come first. Shown are the training molecules where a part matches best: the atom where it matches is "
        "coloured, its neighbours are outlined."
    )
    articles = (
        f'<article class="prototype"><h3>{dot(CLASSES[one.class_number % len(CLASSES)])}{escape(one.name)}</h3>'
        f"{paragraph(f'A perfect match moves the decision by {one.weight:.1f}.')}"
        f'<div class="cards">{_cards(one.examples)}</div></article>'
        for one in view.parts
    )
    return section("parts", "The parts it looks for", paragraph(text), *articles)


def _cards(drawings: Sequence[Drawing]) -> str:
    return "".join(
        f"<figure>{image(drawing.svg, drawing.smiles)}<figcaption>{escape(drawing.caption)}</figcaption></figure>"
        for drawing in drawings
    )


def _prototypes(view: GalleryView) -> str:
    if not view.prototypes:
        return ""
    text = (
        f"For each {view.centres}, the training molecules nearest to it by the angle between embeddings, the largest "
        "substructure they all share (outlined), and the parts that its molecules have more often than others."
    )
    title = f"What the {view.centres}s stand for"
    return section("prototypes", title, paragraph(text), *(_prototype(one) for one in view.prototypes))


def _prototype(one: PrototypeView) -> str:
    colour = CLASSES[one.class_number % len(CLASSES)]
    with_class, labelled = one.same_class
    if not one.members:
        counts = "It is not in use: every training molecule is nearer to another."
    elif labelled:
        known = f"{with_class:,} of {labelled:,} labels are its class"
        counts = f"{one.members:,} training molecules are nearest to it; {known}."
    else:
        counts = f"{one.members:,} training molecules are nearest to it; none has a label."
    cards = _cards(one.nearest)
    return (
        f'<article class="prototype"><h3>{dot(colour)}{escape(one.name)}</h3>{paragraph(_plain(counts))}'
        + (f'<div class="cards">{cards}</div>{paragraph(_plain(one.shared))}' if cards else "")
        + _fragments(one)
        + "</article>"
    )


def _fragments(one: PrototypeView) -> str:
    if not one.fragments:
        return paragraph("No part is more frequent here than elsewhere.", "note") if one.members else ""
    rows = [
        [
            fragment.smiles,
            f"{fragment.here[0]:,} of {fragment.here[1]:,}",
            f"{fragment.overall[0]:,} of {fragment.overall[1]:,}",
            f"{fragment.times:.1f}x",
        ]
        for fragment in one.fragments
    ]
    return table(f"Over-represented near {one.name}", ["Part", "Here", "Overall", "Ratio"], [RowGroup(rows)])


def _making(view: GalleryView) -> str:
    return section(
        "making", "How this page was made", *(paragraph(_plain(note)) for note in view.notes), facts(view.making)
    )
