"""Explanations as a folder: a drawing of every molecule, tables, and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from mphil.errors import UnknownName, UsageError
from mphil.explain.atoms import NAMES, By, ways
from mphil.explain.gallery import Model, changed_name, gallery_view
from mphil.explain.prototypes import TrainingMolecules
from mphil.explain.rows import ExplainedRows, Levels, explain_rows, page_classes
from mphil.files import replace_folder, write_json
from mphil.model.predictor import Predictor
from mphil.pages.gallery_page import render
from mphil.tables.read import open_table
from mphil.tables.roles import find_roles
from mphil.tables.write import csv_text

LIMIT = 200
"""Rows of a file that are explained unless more are asked for."""

PAGE = "index.html"
MOLECULES = "molecules.csv"
SUBSTRUCTURES = "substructures.csv"
SUMMARY = "explanations.json"
DRAWINGS = "drawings"
CHANGES = (
    "of the model's own probability, before calibration, when the part is hidden",
    "of the predicted number when the part is hidden; positive where the part keeps it low",
)
"""What a change is one of, for classes and for numbers."""


@dataclass(frozen=True)
class RowsToExplain:
    """Rows to be explained.

    Attributes:
        smiles: the molecules.
        source: where they come from, for the reader.
        more: whether there are further rows that were left out.
        names: (n,) what the table calls each row; empty when it has no column of names.
        lines: (n,) the line of the file that each row begins on; empty when they are in no file.
    """

    smiles: Sequence[str]
    source: str
    more: bool = False
    names: Sequence[str] = ()
    lines: Sequence[int] = ()

    @property
    def called(self) -> list[str]:
        """What each row is called on a page: its name, its line in the file, or else its number, from 1."""
        names = self.names or [""] * len(self.smiles)
        numbers = [f"line {line}" for line in self.lines] or [f"row {row + 1}" for row in range(len(names))]
        return [name or number for name, number in zip(names, numbers, strict=True)]

    @property
    def places(self) -> dict[str, Sequence[object]]:
        """Columns that say which row is meant: its number from 1 below the header, and its line and name if any."""
        told: dict[str, Sequence[object]] = {"line": self.lines, "id": self.names}
        return {"row": range(1, len(self.smiles) + 1)} | {name: cells for name, cells in told.items() if cells}


def read_rows(
    path: Path, predictor: Predictor, *, column: str = "", limit: int = LIMIT, sheet: str = "", name: str = ""
) -> RowsToExplain:
    """The first molecules of a table.

    Args:
        path: a table.
        predictor: the column that it was trained on is taken if the table has it.
        column: of the molecules; found when absent.
        limit: how many rows.
        sheet: of a workbook; the first with rows when absent.
        name: column that names the rows; found when absent.
    """
    table = open_table(path, sheet=sheet)
    trained = predictor.bundle.config.molecules
    if not column and trained is not None and trained.column in table.columns:
        column = trained.column
    roles = find_roles(table, smiles=column or None, id=name or None)
    wanted = [roles.smiles] if roles.id is None else [roles.smiles, roles.id]
    chunks = table.chunks(columns=wanted)
    cells = (row for chunk in chunks for row in zip(chunk.lines, *(chunk.columns[one] for one in wanted), strict=True))
    found = list(islice(cells, limit + 1))
    kept = found[:limit]
    names = [row[2].strip() for row in kept] if roles.id else ()
    return RowsToExplain([row[1] for row in kept], path.name, len(found) > limit, names, [row[0] for row in kept])


@dataclass(frozen=True, eq=False)
class WrittenReport:
    """A written report.

    Attributes:
        folder: where it is.
        rows: what was to be explained.
        explained: the rows and their explanations.
        by: how atoms were scored.
        notes: what the reader should know.
        summary: the whole in a few plain values.
        change: what the change of a part is a change of.
    """

    folder: Path
    rows: RowsToExplain
    explained: ExplainedRows
    by: By
    notes: tuple[str, ...]
    summary: dict[str, object]
    change: str


def write_report(
    predictor: Predictor,
    rows: RowsToExplain,
    out: Path,
    *,
    target: str = "",
    by: By | None = None,
    command: str = "",
    progress: bool = True,
) -> WrittenReport:
    """Explain rows and write a folder: all of it or nothing.

    Args:
        predictor: a trained model.
        rows: the molecules; none gives a page about the model alone.
        out: the folder: new, empty, or one that this function wrote.
        target: the task that the page is about, the first when absent.
        by: how atoms are scored; see `mphil.explain.atoms.ways`.
        command: the command that asked for it.
        progress: show bars when there is a terminal.
    """
    config = predictor.bundle.config
    if target and target not in config.targets:
        raise UnknownName("target", target, config.targets)
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or (out / SUMMARY).exists())):
        raise UsageError(f"{out} holds something else; name a new folder with --out")
    task = config.targets.index(target) if target else 0
    chosen = by or ways(predictor.method)[0]
    explained = explain_rows(predictor, rows.smiles, by=chosen, progress=progress)
    notes = _notes(predictor, rows, explained)
    model, levels = _model(predictor, task)
    view = gallery_view(
        model,
        explained.new_molecules(task, levels, rows.called if rows.source else ()),
        eyebrow=f"mphil explain · {config.method.name}" + (f" · {rows.source}" if rows.source else ""),
        making=_making(predictor, chosen, command),
        notes=notes,
        by=chosen,
        progress=progress,
    )
    summary = _summary(predictor, rows, explained, chosen, notes)
    with replace_folder(out) as draft:
        (draft / DRAWINGS).mkdir()
        for row, explanation in zip(explained.rows, explained.explanations, strict=True):
            (draft / DRAWINGS / f"{row + 1:06d}.svg").write_text(explanation.svg(), encoding="utf-8")
        (draft / MOLECULES).write_text(csv_text(_molecule_rows(rows, explained)), encoding="utf-8")
        (draft / SUBSTRUCTURES).write_text(csv_text(_substructure_rows(rows, explained)), encoding="utf-8")
        (draft / PAGE).write_text(render(view), encoding="utf-8")
        write_json(draft / SUMMARY, summary)
    several = config.task.kind == "multiclass"
    change = "change of probability" if several else changed_name(config.task, config.classes, 1).lower()
    return WrittenReport(out, rows, explained, chosen, notes, summary, change)


def _model(predictor: Predictor, task: int) -> tuple[Model, Levels | None]:
    """The model as the page is about it, and the levels of a regression."""
    config, references = predictor.bundle.config, predictor.bundle.references
    classes, labels, levels = page_classes(config, references.labels[:, task].astype(np.float64))
    training = TrainingMolecules(references.smiles or (), references.embeddings.astype(np.float64), labels)
    model = Model(
        predictor.method,
        training,
        classes,
        task,
        config.targets[task],
        lambda smiles: predictor.read(smiles).store,
    )
    return model, levels


def _notes(predictor: Predictor, rows: RowsToExplain, explained: ExplainedRows) -> tuple[str, ...]:
    notes = list(predictor.notes)
    answers = "Numbers" if predictor.bundle.config.task.kind == "regression" else "Probabilities"
    if committee := predictor.bundle.config.committee:
        notes.append(
            f"{answers} are those of {len(committee.members)} models together; atoms, parts and changes are those "
            f"of one of them, the network {committee.members[0].name}."
        )
    unread = len(rows.smiles) - len(explained.rows)
    if unread:
        notes.append(f"{unread:,} of {len(rows.smiles):,} rows could not be read; {MOLECULES} says why.")
    if rows.more:
        notes.append(f"Only the first {len(rows.smiles):,} rows of {rows.source} are explained; --limit takes more.")
    removed = sum(bool(np.isnan(one.scores).any()) for one in explained.explanations)
    if removed:
        unseen = "molecules have salts or solvents, which the model does not see"
        notes.append(f"{removed:,} {unseen}; they are drawn without colour.")
    if len(predictor.bundle.config.targets) > 1:
        notes.append("The model answers several targets at once: atoms and changes are averaged over all of them.")
    return tuple(notes)


def _making(predictor: Predictor, by: By, command: str) -> list[tuple[str, str]]:
    config = predictor.bundle.config
    versions = ", ".join(f"{name} {version}" for name, version in config.versions.items())
    told = [
        ("Atoms scored by", NAMES[by]),
        ("Change", CHANGES[config.task.kind == "regression"]),
        ("Model", f"{config.method.name}, epoch {config.epoch} chosen on {config.selection}, seed {config.seed}"),
        ("Bundle", predictor.bundle.digest[:16] or "not from a folder"),
        ("Trained with", versions),
    ]
    return [("Command", command), *told] if command else told


def _molecule_rows(rows: RowsToExplain, explained: ExplainedRows) -> Iterator[list[object]]:
    columns = explained.predictions.columns()
    places = rows.places
    yield [*places, "smiles", "drawing", "atom_importance", "disagreement", *columns]
    found = dict(zip(explained.rows, explained.explanations, strict=True))
    for row, smiles in enumerate(rows.smiles):
        one = found.get(row)
        drawing = "" if one is None else f"{DRAWINGS}/{row + 1:06d}.svg"
        weights = "" if one is None else " ".join(f"{weight:.3f}" for weight in one.weights)
        disagreement = "" if one is None else one.disagreement
        own = [cells[row] for cells in places.values()]
        yield [*own, smiles, drawing, weights, disagreement, *(cells[row] for cells in columns.values())]


def _substructure_rows(rows: RowsToExplain, explained: ExplainedRows) -> Iterator[list[object]]:
    places = rows.places
    yield [*places, "smiles", "rank", "kind", "name", "part", "atoms", "importance", "drop", "change"]
    for row, one in zip(explained.rows, explained.explanations, strict=True):
        own = [cells[row] for cells in places.values()]
        for rank, part in enumerate(one.substructures, start=1):
            atoms = " ".join(map(str, part.atoms))
            numbers = [f"{value:.4f}" for value in (part.importance, part.drop, part.change)]
            yield [*own, one.smiles, rank, part.kind, part.name, part.smiles, atoms, *numbers]


def _summary(
    predictor: Predictor, rows: RowsToExplain, explained: ExplainedRows, by: By, notes: Sequence[str]
) -> dict[str, object]:
    return {
        "bundle": predictor.bundle.digest,
        "method": predictor.bundle.config.method.name,
        "source": rows.source,
        "rows": len(rows.smiles),
        "explained": len(explained.rows),
        "atoms_scored_by": by,
        "notes": list(notes),
    }
