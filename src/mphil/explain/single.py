"""Explanations of single molecules, on the atoms as somebody wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.correspondence import REMOVED, corresponding_atoms
from mphil.chem.draw import molecule_svg
from mphil.errors import DataError
from mphil.explain.atoms import By, node_scores, relative, ways
from mphil.explain.substructures import TELLING, RankedSubstructure, disagreement, rank_substructures
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore
from mphil.methods.base import Method

BATCH = 64
"""Molecules whose atoms are scored at once."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a molecule is predicted as it is. Atoms are numbered in the order in which `smiles` names them.

    Attributes:
        smiles: the molecule as it was written.
        seen: the spelling that the model saw: canonical, perhaps without counter-ions.
        by: how atoms were scored, one of `mphil.explain.atoms.BYS`.
        scores: (n_atoms,) importance as the method gives it; NaN for atoms that the model never saw.
        weights: (n_atoms,) the same between 0 and 1, for drawing; 0 for atoms that the model never saw. All 0 when no
            atom stands out.
        substructures: parts of the molecule, those with the highest weights first.
    """

    smiles: str
    seen: str
    by: By
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]
    substructures: tuple[RankedSubstructure, ...]

    @property
    def disagreement(self) -> str:
        """Where colours and the effect of removing parts disagree, in a sentence; empty where they agree."""
        return disagreement(self.substructures)

    def svg(self, *, outline: bool = True, width: int = 320, height: int = 240) -> str:
        """A drawing in which important atoms glow; the first substructure is outlined if hiding it tells."""
        marked: tuple[int, ...] = ()
        if outline and self.substructures and self.substructures[0].effect >= TELLING:
            marked = self.substructures[0].atoms
        weights = self.weights.round(4).tolist()
        return molecule_svg(self.smiles, weights=weights, outline=marked, width=width, height=height)


def atom_scores(
    method: Method, store: GraphStore, by: By | None = None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """For each graph of a store, the scores of its nodes as the method gives them, and between 0 and 1."""
    device = next(method.parameters()).device
    for batch in Loader(store, torch.arange(len(store)), BATCH, str(device)):
        scores = node_scores(method, batch, by)
        ends = batch.ptr[1:-1].cpu().numpy()
        raw, scaled = (values.cpu().double().numpy() for values in (scores, relative(scores, batch.ptr)))
        yield from zip(np.split(raw, ends), np.split(scaled, ends), strict=True)


def explain_molecules(
    method: Method,
    store: GraphStore,
    written: Sequence[str] | None = None,
    *,
    by: By | None = None,
    advance: Callable[[int], object] = lambda done: None,
) -> list[Explanation]:
    """Explain the predictions of a method for all molecules of a store.

    Args:
        method: a trained method.
        store: the molecules as the model sees them, with SMILES.
        written: the same molecules as somebody wrote them; the store's own spelling when absent.
        by: how atoms are scored; see `mphil.explain.atoms.ways`.
        advance: told after every molecule that there is one more.

    Example:
        >>> from mphil.benchmarks import benchmark
        >>> from mphil.config import EncoderConfig
        >>> from mphil.methods import build_method
        >>> data = benchmark("decoy-scaffold", graphs=20)
        >>> nodes, edges = data.store.node_features, data.store.edge_features
        >>> method = build_method("erm", data.task, EncoderConfig(width=8, layers=2, node=nodes, edge=edges), {})
        >>> len(explain_molecules(method, data.store[:3]))
        3
    """
    if store.smiles is None:
        raise DataError("these graphs have no SMILES; explanations are drawn on molecules")
    if written is not None and len(written) != len(store):
        raise DataError(f"{len(written)} written molecules for {len(store)} graphs; give one for each")
    chosen = by or ways(method)[0]
    explanations = []
    for graph, (raw, scaled) in enumerate(atom_scores(method, store, chosen)):
        parts = tuple(rank_substructures(method, store, graph, scaled))
        seen = store.smiles[graph]
        explanations.append(_as_written(Explanation(seen, seen, chosen, raw, scaled, parts), written, graph))
        advance(1)
    return explanations


def _as_written(explanation: Explanation, written: Sequence[str] | None, graph: int) -> Explanation:
    """The explanation with atoms numbered as somebody wrote them."""
    if written is None or written[graph] == explanation.seen:
        return explanation
    nodes = np.array(corresponding_atoms(written[graph], explanation.seen))
    there = nodes != REMOVED
    atom = {int(node): number for number, node in enumerate(nodes) if node != REMOVED}
    return replace(
        explanation,
        smiles=written[graph],
        scores=np.where(there, explanation.scores[nodes], np.nan),
        weights=np.where(there, explanation.weights[nodes], 0.0),
        substructures=tuple(
            replace(part, atoms=tuple(sorted(atom[node] for node in part.atoms if node in atom)))
            for part in explanation.substructures
        ),
    )
