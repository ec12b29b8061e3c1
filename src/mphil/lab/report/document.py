"""What a report is made of, whatever it is written in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ReportTable:
    """A table of texts.

    Attributes:
        caption: what it shows, under which selection rule and budget.
        header: names of the columns.
        rows: the cells; the first of a row is its name.
        strong: (row, column) of the cells to stand out.
        notes: footnotes.
        folded: details, which a page shows when they are asked for.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: frozenset[tuple[int, int]] = frozenset()
    notes: Sequence[str] = ()
    folded: bool = False

    def without(self, names: Collection[str], empty: str) -> ReportTable:
        """The table without those of the named columns in which every cell is empty."""
        kept = [
            number
            for number, name in enumerate(self.header)
            if name not in names or any(cells[number] != empty for cells in self.rows)
        ]
        return replace(
            self,
            header=[self.header[number] for number in kept],
            rows=[[cells[number] for number in kept] for cells in self.rows],
            strong=frozenset((row, kept.index(column)) for row, column in self.strong if column in kept),
        )


@dataclass(frozen=True)
class Curves:
    """Lines over a common x axis; None leaves a gap. `errors` are whiskers, `log` makes equal factors equally high.

    The caption of this and of all other figures says over how many seeds, under which selection rule and budget.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    errors: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    caption: str = ""
    log: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar a name, with an optional whisker."""

    title: str
    unit: str
    values: Mapping[str, float]
    errors: Mapping[str, float] = field(default_factory=dict)
    caption: str = ""


@dataclass(frozen=True)
class Dots:
    """Every value of every row as a dot, with the interval of their mean.

    Attributes:
        title: what is drawn.
        unit: of the values.
        values: row to its values, in the order of drawing.
        intervals: row to the ends of the interval of its mean.
        marks: who reports to row to figure.
        caption: over how many seeds, under which selection rule and budget.
    """

    title: str
    unit: str
    values: Mapping[str, Sequence[float]]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    caption: str = ""


@dataclass(frozen=True)
class RankDiagram:
    """A critical-difference diagram: mean ranks, and bars over rows that are not told apart.

    Attributes:
        title: what is drawn.
        ranks: row to mean rank, the best first.
        difference: the critical difference.
        groups: rows that lie within it.
        caption: over which benchmarks.
    """

    title: str
    ranks: Mapping[str, float]
    difference: float
    groups: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Scatter:
    """Points in the plane, with the number of the class of each."""

    title: str
    points: Sequence[Sequence[float]]
    labels: Sequence[int]
    caption: str = ""


@dataclass(frozen=True)
class DrawnMolecules:
    """Drawings of molecules; each has SMILES, a weight for every atom and a caption."""

    title: str
    drawings: Sequence[tuple[str, Sequence[float], str]]
    caption: str = ""


Drawn = Curves | Bars | Dots | RankDiagram | Scatter
Block = ReportTable | Drawn | DrawnMolecules


@dataclass(frozen=True)
class Chapter:
    """A suite under one budget, or a page about a method.

    Attributes:
        name: word to call it by in file names and links.
        title: heading.
        intro: paragraphs.
        blocks: tables and figures.
        commands: (what, command) of every run.
        page: name of the HTML file that it is in, without the ending.
    """

    name: str
    title: str
    intro: Sequence[str]
    blocks: Sequence[Block]
    commands: Sequence[tuple[str, str]] = ()
    page: str = "index"


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        chapters: suites.
        problems: a sentence about everything that was left out.
        cards: a page for each method.
    """

    chapters: Sequence[Chapter]
    problems: Sequence[str] = ()
    cards: Sequence[Chapter] = ()
