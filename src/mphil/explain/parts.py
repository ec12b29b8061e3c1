"""What the parts of MPHIL+ are: the training molecules, and the atoms in them, where each prototype matches best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mphil.chem.draw import molecule_svg
from mphil.data.store import GraphStore
from mphil.explain.prototypes import evenly
from mphil.methods.base import evaluating
from mphil.methods.mphil_plus import MPHILPlus
from mphil.page.gallery import Drawing, PartView

SHOWN = 12
"""Parts on a page, those with the largest weight in the decision when there are more."""
LOOKED_AT = 1_000
"""Training molecules in which a part is looked for, evenly spaced when there are more."""
EXAMPLES = 4
BATCH = 256


def part_views(
    method: MPHILPlus,
    smiles: Sequence[str],
    featurise: Callable[[Sequence[str]], GraphStore],
    classes: Sequence[str],
    task: int,
) -> list[PartView]:
    """The parts that weigh most in the decision about a task, each with the molecules where it matches best.

    Args:
        method: the trained method.
        smiles: training molecules.
        featurise: from molecules to graphs of those that can be read.
        classes: names of the classes.
        task: number of the task.
    """
    if method.prototypes is None or not len(smiles):
        return []
    store = featurise([smiles[row] for row in evenly(len(smiles), LOOKED_AT).tolist()])
    similarity, node = _matches(method, store)
    weights = part_weights(method, task)
    order = (weights.amax(0) - weights.amin(0)).argsort(descending=True, stable=True)
    return [_view(part, weights[:, part], similarity[:, part], node[:, part], store, classes) for part in order[:SHOWN]]


def part_weights(method: MPHILPlus, task: int) -> Tensor:
    """(classes, M) what a part adds to the logit of each class of a task when it matches perfectly.

    Of a regression, how it speaks for low, middle and high values.
    """
    assert method.prototypes is not None
    weights = method.head.weight.detach()[:, : len(method.prototypes)] / method.temperature
    if method.task.kind == "multiclass":
        return weights
    own = weights[task]
    sides = [-own, 0 * own, own] if method.task.kind == "regression" else [-own, own]
    return torch.stack(sides) / 2


def _matches(method: MPHILPlus, store: GraphStore) -> tuple[Tensor, Tensor]:
    """(n, M) similarity of the best node, and its number inside its graph."""
    similarity, node = [], []
    with evaluating(method):
        for first in range(0, len(store), BATCH):
            batch = store.batch(torch.arange(first, min(first + BATCH, len(store))))
            found = method.match(batch)
            similarity.append(found.similarity)
            node.append(found.node - batch.ptr[:-1].unsqueeze(1))
    return torch.cat(similarity), torch.cat(node)


def _view(
    part: Tensor, weights: Tensor, similarity: Tensor, node: Tensor, store: GraphStore, classes: Sequence[str]
) -> PartView:
    smiles, drawings = list(store.smiles or ()), []
    for row in similarity.argsort(descending=True, stable=True)[:EXAMPLES].tolist():
        atom, begin, end = int(node[row]), int(store.edge_ptr[row]), int(store.edge_ptr[row + 1])
        source, target = (store.edge_index[:, begin - int(store.edge_ptr[0]) : end - int(store.edge_ptr[0])]).tolist()
        around = {atom, *(v for u, v in zip(source, target, strict=True) if u == atom)}
        glow = [float(v == atom) for v in range(int(store.n_nodes[row]))]
        svg = molecule_svg(smiles[row], weights=glow, outline=sorted(around))
        drawings.append(Drawing(smiles[row], svg, f"similarity {similarity[row]:.2f}"))
    speaks = int(weights.argmax())
    return PartView(
        f"part {int(part) + 1}, for {classes[speaks]}", speaks, float(weights.max() - weights.min()), drawings
    )
