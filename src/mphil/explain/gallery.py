"""What the gallery page shows, computed from a model, its training molecules and new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mphil.chem.draw import molecule_svg
from mphil.chem.similarity import Shared, largest_shared
from mphil.explain.atoms import By, Explanation, atom_scores
from mphil.explain.prototypes import (
    COUNTED,
    Floats,
    Neighbourhood,
    TrainingMolecules,
    centres_of,
    evenly,
    neighbourhoods,
    over_represented,
    part_matches,
    part_views,
)
from mphil.explain.removal import RankedSubstructure
from mphil.graphs.store import GraphStore
from mphil.methods.base import Method
from mphil.methods.mphil_plus import MPHILPlus
from mphil.pages.gallery_page import Drawing, ExplainedView, Fragment, GalleryView, PartRow, PatternView, PrototypeView
from mphil.pages.sphere_map import PROTOTYPES, Cloud, Mark, MoleculeMap, to_sphere3
from mphil.progress import row_bar
from mphil.task import Task

TRAINING_POINTS = 200
NEW_POINTS = 100
"""Molecules on the map, evenly spaced when there are more: each carries its drawing."""

CENTRES = 24
"""Prototypes on the page, those with most training molecules when there are more."""

EXPLAINED = 24
"""Molecules of the user on the page; the others are files."""

PARTS = 4
"""Substructures shown of a molecule."""

PICTURE = (260, 195)
SMALL = (150, 110)
"""Pixels of a drawing on the map, and of a part without a name."""

TRAIN = "train"
MARKS: dict[str, Mark] = {"in domain": "hollow", "borderline": "barred", "out of domain": "crossed"}
NO_MAP = "There is no map and no group of molecules: the model has no embedding, or kept no training molecules."
UNKNOWN = "unknown"
"""Verdict where a model has none."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, as far as the page is about it.

    Attributes:
        method: the method.
        training: its training molecules.
        classes: names of the classes.
        task: number of the task that the page is about.
        target: name of that task.
        featurise: from molecules to graphs of those that can be read; their `index` says which these are.
    """

    method: Method
    training: TrainingMolecules
    classes: Sequence[str]
    task: int
    target: str
    featurise: Callable[[Sequence[str]], GraphStore]


@dataclass(frozen=True, eq=False)
class NewMolecules:
    """The n molecules a user asked about.

    Attributes:
        explanations: (n,) why each is predicted as it is.
        embeddings: (n, p) where the model puts them.
        classes: (n,) class each is taken for.
        probabilities: (n,) as `mphil predict` shows them: of the positive label; of several classes, of the predicted.
        verdicts: (n,) `in domain`, `borderline`, `out of domain`, or `unknown` where the model cannot tell.
        shown: (n,) the class whose probability that is.
        names: (n,) what each is called; empty when they have no names.
        reasons: (n,) why a molecule is not in domain; empty when that is not known.
        told: (n,) the answers of a regression in words, in place of classes and probabilities.
    """

    explanations: Sequence[Explanation]
    embeddings: Floats
    classes: NDArray[np.int64]
    probabilities: Floats
    verdicts: Sequence[str]
    shown: NDArray[np.int64]
    names: Sequence[str] = ()
    reasons: Sequence[str] = ()
    told: Sequence[str] = ()

    def caption(self, number: int, classes: Sequence[str]) -> str:
        """Such as "inactive; P(active) = 0.07; out of domain", behind the name of the molecule if it has one."""
        verdict = self.verdicts[number]
        if self.told:
            told = self.told[number]
        else:
            chance = self.probabilities[number]
            told = f"{classes[self.classes[number]]}; P({classes[self.shown[number]]}) = {chance:.2f}"
        named = f"{self.names[number]}: {told}" if self.names and self.names[number] else told
        return named if verdict == UNKNOWN else f"{named}; {verdict}"


def gallery_view(
    model: Model,
    new: NewMolecules,
    *,
    eyebrow: str,
    making: Sequence[tuple[str, str]],
    notes: Sequence[str] = (),
    by: By | None = None,
    progress: bool = True,
) -> GalleryView:
    """Everything on the page.

    Args:
        model: the model.
        new: molecules to put on the map and to list; there may be none.
        eyebrow: line above the heading.
        making: (name, value) how the page was made.
        notes: what the reader should know besides.
        by: how atoms are scored.
        progress: show bars where there is a terminal.
    """
    centres, real = centres_of(model.method, model.training, model.task)
    measured = model.method.task.kind == "regression"
    word = "prototype" if real else "level centre" if measured else "class centre"
    placed = bool(len(model.training) and centres.shape[2])
    around = neighbourhoods(model.training, centres) if placed else []
    kept = sorted(sorted(range(len(around)), key=lambda i: -len(around[i].members))[:CENTRES])
    prototypes = _prototypes(model, [around[i] for i in kept], centres.shape[1], word, by, progress)
    count = len(new.explanations)
    found = [f"{count:,} molecule{'s' if count != 1 else ''} explained"] if count or not placed else []
    found += [f"{len(around)} {word}s"] if placed and (real or not count) else []
    return GalleryView(
        eyebrow=eyebrow,
        heading=f"{model.target}: {', '.join(found)}",
        lead=_lead(model, new, centres.shape[1] if real else 0),
        centres=word,
        prototypes=prototypes,
        explained=_explained(model, new),
        notes=[*notes, *([] if placed else [NO_MAP]), *_left_out(model, new, len(around))],
        making=making,
        map=_map(model, new, centres, real, [one.nearest for one in around], progress),
        parts=_parts_of(model),
        molecules=count,
    )


def _parts_of(model: Model) -> list[PatternView]:
    if not isinstance(model.method, MPHILPlus):
        return []
    return part_views(model.method, model.training.smiles, model.featurise, model.classes, model.task)


def _lead(model: Model, new: NewMolecules, slots: int) -> list[str]:
    name, measured = model.method.name, model.method.task.kind == "regression"
    levels = "The training molecules are divided by their measured values into three levels, a third in each. "
    stars = (
        f"a star on the map is the mean direction of the training molecules of a {'level' if measured else 'class'}."
    )
    if isinstance(model.method, MPHILPlus):
        looked = 0 if model.method.prototypes is None else len(model.method.prototypes)
        sentences = [
            f"{name} asks of every molecule how well its atoms match {looked or 'some'} learned parts. "
            f"{levels if measured else ''}{stars.capitalize()}"
        ]
    else:
        sentences = [_prototype_words(name, slots, levels if measured else "", stars)]
    if model.method.takes_descriptors:
        sentences.append(
            "It also takes descriptors of the whole molecule, which belong to no atom: what atoms and parts add is the "
            "rest of the prediction."
        )
    if new.verdicts and UNKNOWN not in new.verdicts:
        outside = sum(verdict == "out of domain" for verdict in new.verdicts)
        verb = "is" if outside == 1 else "are"
        sentences.append(
            f"{outside or 'None'} of the {len(new.verdicts):,} molecules explained here {verb} out of domain."
        )
    return [" ".join(sentences)]


def _prototype_words(name: str, slots: int, levels: str, stars: str) -> str:
    if not slots:
        return f"{levels}{name} has no prototypes of its answers; in their place, {stars}"
    return (
        f"{name} compares every molecule with {slots} prototype{'s' if slots > 1 else ''} of each class. A prototype "
        "is no molecule: it is a direction that molecules lie near to."
    )


def _left_out(model: Model, new: NewMolecules, centres: int) -> list[str]:
    """What the page does not show because there is too much of it."""
    shown = [
        ("training molecules on the map", TRAINING_POINTS, len(model.training)),
        ("new molecules on the map", NEW_POINTS, len(new.explanations)),
        ("training molecules counted for over-represented parts", COUNTED, len(model.training)),
        ("groups, those with most members", CENTRES, centres),
    ]
    return [f"Shown: {most:,} of {count:,} {what}." for what, most, count in shown if count > most]


def _explained(model: Model, new: NewMolecules) -> list[ExplainedView]:
    chosen = evenly(len(new.explanations), EXPLAINED).tolist()
    matches = _matches_of(model, [new.explanations[i] for i in chosen])
    views = []
    for number, matched in zip(chosen, matches, strict=True):
        explanation = new.explanations[number]
        drawing = Drawing(explanation.smiles, explanation.svg(), new.caption(number, model.classes))
        rows = [_row(explanation, part) for part in explanation.substructures[:PARTS]]
        change = changed_name(model.method.task, model.classes, int(new.shown[number]))
        reason = new.reasons[number] if new.reasons else ""
        views.append(ExplainedView(drawing, rows, explanation.disagreement, change, matched, reason))
    return views


def changed_name(task: Task, classes: Sequence[str], shown: int) -> str:
    """What the change of a part is a change of."""
    if task.kind == "regression":
        return "Change of the number" if task.n_tasks == 1 else "Change in standard deviations, mean over targets"
    if task.n_tasks > 1:
        return f"Change of P({classes[1]}), mean over targets"
    return f"Change of P({classes[shown]})"


def _row(explanation: Explanation, part: RankedSubstructure) -> PartRow:
    picture = None
    if not part.name:
        picture = molecule_svg(explanation.smiles, outline=part.atoms, width=SMALL[0], height=SMALL[1])
    return PartRow(part.name, part.smiles, f"{part.importance:.2f}", part.told_change, picture)


def _matches_of(model: Model, explanations: Sequence[Explanation]) -> list[list[Drawing]]:
    if not isinstance(model.method, MPHILPlus) or not explanations:
        return [[] for _ in explanations]
    store = model.featurise([one.seen for one in explanations])
    found = part_matches(model.method, store, model.classes, model.task)
    place = dict(zip(store.index.tolist(), found, strict=True))
    return [place.get(i, []) for i in range(len(explanations))]


def _prototypes(
    model: Model, around: Sequence[Neighbourhood], slots: int, word: str, by: By | None, progress: bool
) -> list[PrototypeView]:
    with row_bar("counting parts", min(len(model.training), COUNTED), progress) as advance:
        fragments = over_represented(model.training, [one.members for one in around], advance=advance)
    views = []
    with row_bar(f"describing {word}s", len(around), progress) as advance:
        for one, parts in zip(around, fragments, strict=True):
            name = f"{model.classes[one.class_number]}, {word}" + (f" {one.slot + 1} of {slots}" if slots > 1 else "")
            views.append(_prototype(model, one, name, parts, by))
            advance(1)
    return views


def _prototype(
    model: Model, one: Neighbourhood, name: str, fragments: Sequence[Fragment], by: By | None
) -> PrototypeView:
    # What is nearest to a prototype that is not in use says nothing about it.
    nearest = one.nearest if len(one.members) else ()
    store = model.featurise([model.training.smiles[row] for row in nearest])
    smiles = list(store.smiles or ())
    shared = largest_shared(smiles)
    drawings = []
    for i, (place, (_, weights)) in enumerate(
        zip(store.index.tolist(), atom_scores(model.method, store, by), strict=True)
    ):
        marked = shared.matches[i] if shared else ()
        svg = molecule_svg(smiles[i], weights=weights.round(4).tolist(), outline=marked)
        label = model.training.labels[nearest[place]]
        told = "no label" if np.isnan(label) else model.classes[int(label)]
        drawings.append(Drawing(smiles[i], svg, f"{told}; similarity {one.similarity[place]:.2f}"))
    labels = model.training.labels[one.members]
    known = labels[~np.isnan(labels)]
    counts = (int((known == one.class_number).sum()), len(known))
    return PrototypeView(
        name, one.class_number, len(one.members), counts, drawings, _shared_text(shared, len(smiles)), fragments
    )


def _shared_text(shared: Shared | None, molecules: int) -> str:
    if molecules < 2:
        return "There is only one molecule: nothing to compare it with."
    if shared is None:
        return f"The {molecules} molecules share no substructure of three atoms or more."
    rest = "" if shared.complete else " The search was stopped after two seconds; there may be a larger one."
    return f"Shared by all {molecules}: {shared.atoms} atoms, outlined.{rest}"


def _map(
    model: Model, new: NewMolecules, centres: Floats, real: bool, nearest: Sequence[Sequence[int]], progress: bool
) -> MoleculeMap | None:
    training = model.training
    labelled = np.flatnonzero(~np.isnan(training.labels))
    rows = labelled[evenly(len(labelled), TRAINING_POINTS)]
    mine = evenly(len(new.explanations), NEW_POINTS)
    if not nearest or not len(rows):
        return None
    places = [training.embeddings[rows], *([new.embeddings[mine]] if len(mine) else [])]
    placed, stars, explained = to_sphere3(np.concatenate(places), centres.reshape(-1, centres.shape[2]))
    verdicts = [new.verdicts[i] for i in mine]
    centre_classes = np.repeat(np.arange(len(centres)), centres.shape[1]).tolist()
    smiles = [training.smiles[row] for row in rows] + [new.explanations[i].smiles for i in mine]
    cloud = Cloud(
        placed,
        [int(label) for label in training.labels[rows]] + [int(new.classes[i]) for i in mine],
        [TRAIN] * len(rows) + verdicts,
        stars,
        centre_classes,
        explained,
        [_short(text) for text in smiles],
    )
    closest = [training.smiles[first[0]] for first in nearest]
    width, height = PICTURE
    with row_bar("drawing the map", len(smiles) + len(closest), progress) as advance:
        pictures = []
        for text in [training.smiles[row] for row in rows] + closest:
            pictures.append(molecule_svg(text, width=width, height=height))
            advance(1)
        own = []
        for i in mine:
            own.append(new.explanations[i].svg(width=width, height=height))
            advance(1)
    told = [f"training molecule, {model.classes[int(label)]}" for label in training.labels[rows]]
    told += [f"yours: {new.caption(i, model.classes)}" for i in mine]
    return MoleculeMap(
        cloud=cloud,
        pictures=[*pictures[: len(rows)], *own, *pictures[len(rows) :]],
        details=[*told, *(f"the nearest training molecule: {_short(text)}" for text in closest)],
        class_names=model.classes,
        parts=[(TRAIN, "training", "filled"), *_parts(verdicts)],
        title=f"{model.method.name}, {model.target}",
        stars=PROTOTYPES if real else star_words(model.method.task.kind == "regression"),
    )


def star_words(measured: bool) -> str:
    """What a star on the map is where the method has no prototypes of its answers."""
    return f"mean of a {'level' if measured else 'class'}, in its colour"


def _parts(verdicts: Sequence[str]) -> list[tuple[str, str, Mark]]:
    """The parts of the map that hold new molecules."""
    present = set(verdicts)
    parts: list[tuple[str, str, Mark]] = [(v, f"yours, {v}", mark) for v, mark in MARKS.items() if v in present]
    return parts + ([(UNKNOWN, "yours", "hollow")] if UNKNOWN in present else [])


def _short(smiles: str) -> str:
    """A spelling short enough to be said."""
    return smiles if len(smiles) <= 90 else f"{smiles[:87]}..."
