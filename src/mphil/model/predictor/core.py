"""The predictor: reads molecules as in training, asks the model once, and says how far to trust the answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.row_issue import OK
from mphil.chem.substructures import Seen
from mphil.errors import UsageError
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore
from mphil.methods.base import Method, build_method
from mphil.model.bundle import Bundle, read_bundle
from mphil.model.bundle.manifest import is_bundle
from mphil.model.committee.trees import MoleculeFeatures, read_features
from mphil.model.predictor.asking import Advance, Members, Outputs, ask, combined, distance
from mphil.model.predictor.predictions import Floats, Numbers, Predictions, Shift, with_coverage
from mphil.model.predictor.reading import Molecules, as_graphs, as_molecules, cleaned, is_frame, predict_frame
from mphil.tables.from_smiles import with_descriptors
from mphil.tables.pool import run
from mphil.trust.neighbours import most_similar
from mphil.trust.ood import VERDICTS

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

BATCH = 256
"""Graphs that go through the model at a time."""

IN_DOMAIN = VERDICTS[0]
NOT_FINITE = ("not-finite", "the model gives no finite number for it")


class Predictor:
    """A trained model that answers.

    Args:
        bundle: what `read_bundle` gave.
        batch_size: graphs that go through the model at a time; it changes no answer.
        device: where the model works.

    Attributes:
        bundle: what it was made of.
        shift: how the molecules that are asked about are drawn, if that was found out; see `adapt`.

    Example:
        >>> import mphil
        >>> predictor = mphil.load("runs/first/bundle")  # doctest: +SKIP
        >>> predictor.predict(["CCO", "C C"]).status  # doctest: +SKIP
        ['ok', 'whitespace']
    """

    def __init__(self, bundle: Bundle, *, batch_size: int = BATCH, device: str = "cpu") -> None:
        config = bundle.config
        if batch_size < 1:
            raise UsageError(f"batch_size must be 1 or more, not {batch_size}")
        self.bundle, self.batch_size, self.device = bundle, batch_size, device
        self._method: Method | None = None
        if config.has_network:
            method = build_method(config.method.name, config.task, config.encoder, config.method.args)
            method.load_state_dict(bundle.state)
            self._method = method.to(device).eval()
        self.shift: Shift | None = None
        self._members = None if config.committee is None else Members(bundle, device)

    @property
    def method(self) -> Method:
        """The trained method, in evaluation mode; of a committee, its first network.

        Raises:
            UsageError: trees answer alone.
        """
        if self._method is None:
            raise UsageError(
                f"this bundle holds {self.bundle.config.method.name} and no network, which is what is explained, "
                "served and exported; `mphil predict` answers with it"
            )
        return self._method

    @property
    def takes_molecules(self) -> bool:
        """Whether it is asked about molecules; else about graphs."""
        return self.bundle.config.molecules is not None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a user who reads the answers should know about this installation."""
        made, here = self.bundle.config.versions.get("rdkit", "unknown"), version("rdkit")
        if self.takes_molecules and made != here:
            return (f"the bundle was made with RDKit {made}, this is {here}: a few molecules may read differently",)
        return ()

    @overload
    def predict(
        self, given: Sequence[str] | GraphStore | Sequence[Data], /, *, workers: int | None = None
    ) -> Predictions: ...

    @overload
    def predict(
        self, given: pd.DataFrame, /, *, smiles: str | None = None, id: str | None = None, workers: int | None = None
    ) -> pd.DataFrame: ...

    def predict(
        self,
        given: Sequence[str] | GraphStore | Sequence[Data] | pd.DataFrame,
        /,
        *,
        smiles: str | None = None,
        id: str | None = None,
        workers: int | None = None,
    ) -> Predictions | pd.DataFrame:
        """Answer about molecules, of which every spelling gets the same answer, or about graphs.

        Args:
            given: one SMILES a row; a row that cannot be read is answered with a status and a message. Or graphs,
                as a store or as PyG has them; a bundle that takes molecules reads their `smiles`. Or a DataFrame,
                which is answered with one.
            smiles: the column of a DataFrame with the molecules; None takes the name it had in training.
            id: the column of a DataFrame that becomes the index of the answers; None keeps the index.
            workers: processes that read molecules; 0 works in this one, None chooses by the number of rows.

        Raises:
            UsageError: the bundle takes graphs, a single string was given, or a column is not in the DataFrame.
        """
        if is_frame(given):
            return predict_frame(self, cast("pd.DataFrame", given), smiles, id, workers)
        if smiles is not None or id is not None:
            raise UsageError("smiles= and id= name columns of a DataFrame; what was given is none")
        if isinstance(given, str):
            raise UsageError("molecules come as a sequence of SMILES; for a single one, put it into a list")
        rows_or_graphs = cast("Sequence[str] | GraphStore | Sequence[Data]", given)
        graphs = as_graphs(rows_or_graphs, self.bundle.config.encoder)
        if graphs is not None and not self.takes_molecules:
            return self.predict_graphs(graphs)
        if graphs is not None and graphs.smiles is None:
            raise UsageError("this bundle takes molecules, and these graphs carry no SMILES; give the SMILES")
        rows = cleaned(cast("Sequence[str]", given if graphs is None else graphs.smiles))
        options = self.reading
        return self.answer(as_molecules(run(rows, options, workers=workers), len(rows), options["schema"]))

    def adapt(self, smiles: Sequence[str]) -> Predictor:
        """The same model for molecules that are drawn like these: its answers also have weighted conformal sets.

        Args:
            smiles: some of the molecules that will be asked about, or all of them; labels are not needed.

        Raises:
            UsageError: there are too few molecules, or the bundle keeps no labelled held-out rows.
        """
        molecules = self.read(smiles)
        distance = self.answer(molecules).ood_score[molecules.kept]
        known = np.isfinite(distance)
        twin = copy.copy(self)
        twin.shift = Shift.fit(self.bundle, molecules.fingerprints[known], distance[known])
        return twin

    @property
    def reading(self) -> dict[str, Any]:
        """Keyword arguments of `mphil.chem.read_rows.read_batch`, with which rows of SMILES are read as in training."""
        reading = self.bundle.config.molecules
        if reading is None:
            raise UsageError(
                "this bundle was trained on graphs that are no molecules: give it graphs, as a folder (mphil predict "
                "BUNDLE FOLDER) or in Python (load(BUNDLE).predict(graphs)); `mphil evaluate BUNDLE` scores it on the "
                "graphs of its benchmark"
            )
        described = self.has_trees or self.takes_descriptors
        wanted = ["spelling", "graph", "fingerprint", *(["features"] if described else [])]
        standardised = reading.standardised != "none"
        return {"wanted": wanted, "schema": reading.features, "definite": True, "standardised": standardised}

    @property
    def has_trees(self) -> bool:
        """Whether some of the models are trees on features of molecules."""
        committee = self.bundle.config.committee
        return committee is not None and committee.features is not None

    @cached_property
    def takes_descriptors(self) -> bool:
        """Whether a network reads what describes a whole molecule."""
        networks = [] if self._members is None else self._members.networks.values()
        return any(one.takes_descriptors for one in (self._method, *networks) if one is not None)

    def _described(self, store: GraphStore) -> GraphStore:
        """Graphs with all that the networks read."""
        return with_descriptors(store) if self.takes_descriptors else store

    def read(self, smiles: Sequence[str]) -> Molecules:
        """Molecules as in training, in this process: canonical spelling, graph, fingerprint."""
        rows, options = cleaned(smiles), self.reading
        return as_molecules(run(rows, options, workers=0), len(rows), options["schema"])

    def answer(self, molecules: Molecules) -> Predictions:
        """Answer about molecules that were read."""
        references, kept = self.bundle.references, molecules.kept
        assert references.fingerprints is not None
        assert references.smiles is not None
        place, alike = most_similar(molecules.fingerprints, references.fingerprints)
        judged = self._judge(molecules.store, similarity=alike, features=molecules.features)
        answers = (self.shift.apply(judged, molecules.fingerprints) if self.shift else judged).spread(
            kept, molecules.rows
        )
        status, message = list(answers.status), list(answers.message)
        for issue in molecules.issues:
            status[issue.row], message[issue.row] = issue.status, issue.message
        nearest, similarity = np.full(molecules.rows, -1), np.full(molecules.rows, np.nan)
        nearest[kept], similarity[kept] = place, alike
        changed = np.zeros(molecules.rows, bool)
        changed[kept] = molecules.changed > 0
        names = references.names
        spelling = dict(zip(kept.tolist(), molecules.store.smiles or (), strict=True))
        return replace(
            answers,
            status=status,
            message=message,
            smiles=[spelling.get(row, "") for row in range(molecules.rows)],
            nearest=nearest,
            nearest_smiles=["" if place < 0 else references.smiles[place] for place in nearest.tolist()],
            similarity=similarity,
            nearest_name=None if names is None else ["" if place < 0 else names[place] for place in nearest.tolist()],
            reason=self._reasons(answers.domain, spelling, nearest, similarity),
            changed=changed if self.reading["standardised"] else None,
        )

    @cached_property
    def _seen(self) -> Seen:
        """What occurs in the training molecules."""
        references = self.bundle.references
        return references.seen or Seen.of(references.smiles or ())

    def _reasons(
        self, verdicts: NDArray[np.str_] | None, spelling: Mapping[int, str], nearest: Numbers, similarity: Floats
    ) -> list[str] | None:
        """Why each molecule is not in domain; empty for those that are."""
        if verdicts is None:
            return None
        references = self.bundle.references
        assert references.smiles is not None
        told = [""] * len(nearest)
        for row in np.flatnonzero((verdicts != "") & (verdicts != IN_DOMAIN)).tolist():
            place = int(nearest[row])
            closest = references.names[place] if references.names and references.names[place] else ""
            closest = closest or references.smiles[place]
            first = f"the nearest training molecule, {closest}, has similarity {similarity[row]:.2f}"
            told[row] = "; ".join([first, *self._seen.missing(spelling[row])])
        return told

    def predict_graphs(self, store: GraphStore, advance: Advance = lambda done: None) -> Predictions:
        """Answer about graphs of the kind the model was trained on; `advance` is told how many more are done.

        Raises:
            UsageError: the graphs carry other features.
        """
        self.check_graphs(store)
        return self._judge(store, advance)

    def check_graphs(self, store: GraphStore) -> None:
        """Refuse graphs that carry other features than those of training."""
        wanted = self.bundle.config.encoder
        for level, mine, theirs in (
            ("node", wanted.node, store.node_features),
            ("edge", wanted.edge, store.edge_features),
        ):
            # Codes that did not occur here make the vocabulary of a column look smaller than it is.
            same = mine.kind == theirs.kind and mine.width == theirs.width and mine.schema == theirs.schema
            if not same or (mine.kind == "categorical" and any(map(int.__gt__, theirs.sizes, mine.sizes))):
                raise UsageError(
                    f"the {level} features of these graphs are {theirs.kind} of sizes {theirs.sizes}, "
                    f"the model was trained on {mine.kind} of sizes {mine.sizes}"
                )

    def network(self, store: GraphStore, advance: Advance = lambda done: None) -> Outputs:
        """What the network says about graphs, of a committee the first one; `advance` is told how many are done.

        Without a network, zeros.
        """
        if self._method is None:
            advance(len(store))
            nothing = np.empty((len(store), 0), np.float32)
            return Outputs(np.zeros((len(store), self.bundle.config.task.n_outputs)), nothing, None)
        return ask(self._method, self._batches(self._described(store)), advance)

    def outputs(
        self,
        store: GraphStore,
        advance: Advance = lambda done: None,
        features: MoleculeFeatures | None = None,
    ) -> Outputs:
        """What the model says about graphs, before any calibration.

        Args:
            store: the graphs.
            advance: told how many more are done.
            features: of the molecules, for trees; made from the spellings when absent.
        """
        first = self.network(store, advance)
        if self._members is None:
            return first
        return combined(first, self.said(first, store, features), self._members.weights, self.bundle.config.task)

    def said(self, first: Outputs, store: GraphStore, features: MoleculeFeatures | None = None) -> Floats:
        """(m, n, outputs) probabilities of all members of a committee, of which the first has been asked.

        Raises:
            UsageError: there are trees, and the graphs are no molecules.
        """
        assert self._members is not None
        if self.has_trees and features is None:
            if store.smiles is None:
                raise UsageError("some models of this bundle are trees, which are asked about molecules; use predict")
            features = read_features(store.smiles)
        described = self._described(store)
        return self._members.said(first.logits, lambda: self._batches(described), features)

    def _batches(self, store: GraphStore) -> Loader:
        return Loader(store, torch.arange(len(store)), self.batch_size, self.device)

    def examine(
        self,
        store: GraphStore,
        advance: Advance = lambda done: None,
        similarity: Floats | None = None,
        features: MoleculeFeatures | None = None,
    ) -> tuple[Numbers, Outputs, Floats]:
        """What the model says of graphs before any calibration, and how far from training they are.

        Args:
            store: the graphs.
            advance: told how many more are done.
            similarity: of molecules, to the nearest of training.
            features: of molecules, for trees; made from the spellings when absent.

        Returns:
            the places of the k graphs for which the outputs are finite, these outputs, and their (k,) distances.
        """
        outputs = self.outputs(store, advance, features)
        kept = np.flatnonzero(np.isfinite(outputs.logits).all(1) & np.isfinite(outputs.embedding).all(1))
        sound = outputs.take(kept)
        alike = None if similarity is None else similarity[kept]
        bundle = self.bundle
        return kept, sound, distance(bundle.trust.score, sound, bundle.references, bundle.config.task, alike)

    def _judge(
        self,
        store: GraphStore,
        advance: Advance = lambda done: None,
        similarity: Floats | None = None,
        features: MoleculeFeatures | None = None,
    ) -> Predictions:
        """Answers about graphs, none of which is refused beforehand; `similarity` is to their nearest in training."""
        config, trust = self.bundle.config, self.bundle.trust
        kept, sound, score = self.examine(store, advance, similarity, features)
        probability = trust.calibration.apply(sound.logits)
        if config.task.kind == "regression":
            return self._measured(sound, score).spread(kept, len(store), *NOT_FINITE)
        several = config.task.kind == "multiclass"
        said = Predictions(
            task=config.task,
            targets=config.targets,
            classes=config.classes,
            status=[OK] * len(kept),
            message=[""] * len(kept),
            probability=probability,
            prediction=probability.argmax(1)[:, None] if several else (probability > 0.5).astype(np.int64),
            ood_score=score,
            embedding=sound.embedding,
            sets=None if trust.conformal is None else trust.conformal.sets(probability),
            domain=None if trust.bands is None else trust.bands.verdict(score),
            prototype=sound.slots,
            uncertainty=sound.spread,
        )
        return said.spread(kept, len(store), *NOT_FINITE)

    def _measured(self, outputs: Outputs, score: Floats) -> Predictions:
        """Answers of a regression, in the unit of each task."""
        config, trust = self.bundle.config, self.bundle.trust
        predicted, nothing = config.task.to_units(outputs.logits), (len(outputs.logits), 0)
        apart = outputs.spread_in_units(config.task)
        return Predictions(
            task=config.task,
            targets=config.targets,
            classes=config.classes,
            status=[OK] * len(predicted),
            message=[""] * len(predicted),
            probability=np.empty(nothing),
            prediction=np.empty(nothing, np.int64),
            ood_score=score,
            embedding=outputs.embedding,
            domain=None if trust.bands is None else trust.bands.verdict(score),
            predicted=predicted,
            intervals=None if trust.intervals is None else trust.intervals.around(predicted, apart),
            uncertainty=apart,
        )


def load(path: Path | str, *, device: str = "cpu", coverage: float | None = None) -> Predictor:
    """A predictor from the folder of a bundle.

    Args:
        path: what `mphil train` calls the bundle, or the folder that this is in.
        device: where the model works.
        coverage: share of conformal sets that hold the true class on rows like the held-out ones; that of the bundle
            when absent.

    Raises:
        UsageError: there is no bundle in the folder, or it keeps no rows to make sets for another coverage from.
        IntegrityError: the bundle is damaged, or not one that this version reads.
    """
    inside = Path(path) / "bundle"
    bundle = read_bundle(inside if not is_bundle(Path(path)) and is_bundle(inside) else path)
    return Predictor(bundle if coverage is None else with_coverage(bundle, coverage), device=device)
