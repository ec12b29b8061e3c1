"""How much each node speaks for a prediction, and explanations of single molecules on the atoms as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mphil.chem.draw import molecule_svg
from mphil.chem.similarity import REMOVED, corresponding_atoms
from mphil.errors import DataError, UnknownName, UsageError
from mphil.explain.removal import TELLING, RankedSubstructure, disagreement, rank_substructures
from mphil.graphs.loader import Loader, derive_seed
from mphil.graphs.store import Batch, GraphStore
from mphil.methods.base import Method, evaluating
from mphil.nn.encoders import Encoder
from mphil.nn.readout import decision_margin

By = Literal["own", "contribution", "gradient", "random"]
"""`own`: what the method says; `contribution`: its gradient-weighted variant; two baselines."""

BYS: tuple[By, ...] = get_args(By)
NAMES: dict[By, str] = {
    "own": "the method's own node importance",
    "contribution": "the method's own importance, weighted by gradients",
    "gradient": "gradient times input",
    "random": "chance, to compare with",
}
"""The same for a reader."""

EQUAL = 1e-5
"""Spread of the scores of a graph, next to the largest of them, below which none stands out: that much is rounding."""


def ways(method: Method) -> tuple[By, ...]:
    """The ways in which nodes of this method can be scored, the one that is taken by default first."""
    own: tuple[By, ...] = ("own",) if type(method).node_importance is not Method.node_importance else ()
    more: tuple[By, ...] = ("contribution",) if hasattr(method, "node_contribution") else ()
    return (*own, *more, "gradient", "random")


def node_scores(method: Method, batch: Batch, by: By | None = None, *, seed: int = 0) -> Tensor:
    """(n_nodes,) importance of every node, comparable inside a graph.

    Args:
        method: a trained method; it is asked in evaluation mode.
        batch: the graphs.
        by: one of `ways(method)`, the first of them when absent.
        seed: of random scores.
    """
    if by is not None and by not in BYS:
        raise UnknownName("way to score nodes", by, BYS)
    known = ways(method)
    if by is not None and by not in known:
        raise UsageError(f"{method.name} has no node scores of the kind {by!r}; use {', '.join(known)}")
    with evaluating(method):
        match by or known[0]:
            case "own":
                return method.node_importance(batch).detach()
            case "contribution":
                scores: Tensor = method.node_contribution(batch)  # type: ignore[operator]
                return scores.detach()
            case "gradient":
                return gradient_scores(method, batch)
            case _:
                return random_scores(batch, seed)


def gradient_scores(method: Method, batch: Batch) -> Tensor:
    r"""(n_nodes,) gradient times input, on what the input layers of the method make of the node features.

    .. math:: c_v = \sum_l \Big\langle \frac{\partial f}{\partial x^{(l)}_v},\, x^{(l)}_v \Big\rangle

    with the margin f of the decision and an input x for each input layer l. A method in evaluation mode is expected.

    Raises:
        UsageError: the method embeds parts of the graph anew, so that its input is not that of the graph.
    """
    with torch.enable_grad(), _inputs_caught(method, batch) as inputs:
        margin = decision_margin(method.predict(batch), method.task)
        if not inputs:
            raise UsageError(f"{method.name} has no input layer that looks at the graph; gradients cannot be taken")
        gradients = torch.autograd.grad(margin.sum(), inputs, allow_unused=True)
    shares = [
        (gradient * value).sum(1) for value, gradient in zip(inputs, gradients, strict=True) if gradient is not None
    ]
    return torch.stack(shares).sum(0).detach()


@contextmanager
def _inputs_caught(method: Method, batch: Batch) -> Iterator[list[Tensor]]:
    """While open, what any module makes of the batch's own node features becomes a leaf and is put on the list."""
    leaves: list[Tensor] = []

    def embed_first(encoder: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Every node gets a row of its own: encoders else let nodes that look alike share one."""
        assert isinstance(encoder, Encoder)
        if options.get("x") is not None or encoder.embed is None:
            return None
        if args[0].x is not batch.x:
            raise UsageError(
                f"{method.name} embeds parts of a graph anew: no gradients of its input; use its own scores"
            )
        return args, options | {"x": encoder.embed(batch.x)}

    def catch(module: nn.Module, args: tuple[Any, ...], made: Any) -> Any:
        if not args or args[0] is not batch.x:
            return None
        leaf = made.detach().requires_grad_()
        leaves.append(leaf)
        return leaf

    handles = []
    for module in method.modules():
        if isinstance(module, Encoder):
            handles.append(module.register_forward_pre_hook(embed_first, with_kwargs=True))
        else:
            handles.append(module.register_forward_hook(catch))
    try:
        yield leaves
    finally:
        for handle in handles:
            handle.remove()


def random_scores(batch: Batch, seed: int = 0) -> Tensor:
    """(n_nodes,) uniform draws: the same for a graph whatever batch it is in."""
    draws = [
        torch.rand(size, generator=torch.Generator().manual_seed(derive_seed(seed, "node scores", number)))
        for number, size in zip(batch.index.tolist(), batch.ptr.diff().tolist(), strict=True)
    ]
    return torch.cat(draws).to(batch.ptr.device) if draws else torch.zeros(0)


def relative(scores: Tensor, ptr: Tensor) -> Tensor:
    """(n_nodes,) scores between 0, the least of a graph, and 1, the most; all 0 where none stands out.

    Args:
        scores: (n_nodes,).
        ptr: (n_graphs + 1,) where each graph begins.

    Example:
        >>> relative(torch.tensor([1.0, 3.0, 2.0, 7.0, 7.0]), torch.tensor([0, 3, 5])).tolist()
        [0.0, 1.0, 0.5, 0.0, 0.0]
    """
    owner = torch.arange(len(ptr) - 1, device=ptr.device).repeat_interleave(ptr.diff())
    empty = scores.new_zeros(len(ptr) - 1)
    low = empty.scatter_reduce(0, owner, scores, "amin", include_self=False)
    high = empty.scatter_reduce(0, owner, scores, "amax", include_self=False)
    spread = high - low
    flat = spread <= EQUAL * torch.maximum(low.abs(), high.abs())
    scaled = (scores - low[owner]) / torch.where(flat, 1.0, spread)[owner]
    return torch.where(flat[owner], 0.0, scaled)


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
        written: the same molecules as a user wrote them; the store's own spelling when absent.
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
    """The explanation with atoms numbered as a user wrote them."""
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
