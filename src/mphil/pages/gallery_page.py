"""The gallery: what each prototype stands for, where molecules lie between them, and why each is predicted as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mphil.pages.elements import CLASSES
from mphil.pages.sphere_map import SCRIPTS, MoleculeMap, molecule_map
from mphil.pages.template import Grid, Rows, TableCell, page


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
        name: what a chemist would call it, empty when there is no name.
    """

    smiles: str
    here: tuple[int, int]
    overall: tuple[int, int]
    name: str = ""

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

    @property
    def colour(self) -> str:
        return CLASSES[self.class_number % len(CLASSES)]

    @property
    def counts(self) -> str:
        """The numbers, in a sentence."""
        with_class, labelled = self.same_class
        if not self.members:
            return "It is not in use: every training molecule is nearer to another."
        known = f"{with_class:,} of {labelled:,} labels are its class" if labelled else "none has a label"
        return f"{self.members:,} training molecules are nearest to it; {known}."

    @property
    def table(self) -> Grid:
        rows = [
            [
                f"{fragment.name} ({fragment.smiles})" if fragment.name else fragment.smiles,
                f"{fragment.here[0]:,} of {fragment.here[1]:,}",
                f"{fragment.overall[0]:,} of {fragment.overall[1]:,}",
                f"{fragment.times:.1f}x",
            ]
            for fragment in self.fragments
        ]
        return Grid(f"Over-represented near {self.name}", ["Part", "Here", "Overall", "Ratio"], rows)


@dataclass(frozen=True)
class PatternView:
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

    @property
    def colour(self) -> str:
        return CLASSES[self.class_number % len(CLASSES)]


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

    @property
    def table(self) -> Grid:
        rows: Rows = [
            [TableCell(row.name or row.smiles, svg=row.svg or ""), row.importance, row.change] for row in self.rows
        ]
        return Grid("Parts, the most coloured first", ["Part", "Importance", self.change], rows)


@dataclass(frozen=True)
class GalleryView:
    """Everything on the page.

    Attributes:
        eyebrow: line above the heading.
        heading: what was found.
        lead: sentences below it.
        centres: what the groups are called, "prototype", "class centre" or "level centre".
        prototypes: the groups.
        explained: molecules of the user.
        notes: what was left out, and what to bear in mind.
        making: (name, value) how the page was made.
        map: the sphere, or None when the method has no embedding.
        parts: what the method looks for, if it says so.
        molecules: how many molecules of the user there are, of which some are in `explained`.
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
    parts: Sequence[PatternView] = ()
    molecules: int = 0


def render(view: GalleryView) -> str:
    """The whole page."""
    return page(
        "gallery",
        view.heading,
        scripts=SCRIPTS if view.map else (),
        styles=["gallery.css"],
        view=view,
        map=molecule_map(view.map, identifier="sphere") if view.map else "",
    )
