"""What can be measured on a trained model besides its scores; the answers go into the record of the run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.errors import UsageError
from mphil.graphs.loader import Loader
from mphil.methods.mphil import MPHIL
from mphil.nn.losses import one_hot
from mphil.training.metrics import gather
from mphil.training.run import Run

Floats = NDArray[np.float64]
PER_CLASS = 200
"""Graphs of a class whose embeddings are compared."""
DRAWS = 20
"""Random samples over which a distance of two clouds is averaged."""
MOLECULES = 3
"""Molecules shown for a prototype."""
USED = 0.01
"""Share of the graphs of its class from which on a prototype counts as used."""
FIGURES = 4


def separability(run: Run) -> dict[str, Any]:
    """How far classes lie apart in the embedding of the OOD test part, and how far a class is spread.

    `intra` is the mean 1-Wasserstein distance between two samples of a class, `inter` that between samples of two
    classes, each over the mean distance of two graphs, so that embeddings of any scale compare. All samples have the
    same size, since small ones lie further apart: half of the smallest class. `points` are the same graphs in the plane
    (t-SNE), `labels` their classes.
    """
    data, graphs = run.benchmark, run.benchmark.split.ood_test
    labels = data.store.y[graphs, 0]
    classes = [graphs[labels == c][:PER_CLASS] for c in range(data.task.n_classes)]
    clouds = [_embedding(run, members) for members in classes if len(members) > 1]
    if len(clouds) < 2:
        raise UsageError(f"{data.name}: fewer than two classes of the OOD test part have two graphs")
    every = np.concatenate(clouds)
    scale = float(torch.cdist(torch.from_numpy(every), torch.from_numpy(every)).mean()) or 1.0
    size = min(map(len, clouds)) // 2
    draw = np.random.default_rng(0)
    halves = [np.split(draw.permutation(cloud)[: 2 * size], 2) for cloud in clouds for _ in range(DRAWS)]
    pairs = [
        (draw.permutation(one)[:size], draw.permutation(other)[:size])
        for one, other in combinations(clouds, 2)
        for _ in range(DRAWS)
    ]
    return {
        "intra": float(np.mean([wasserstein(*half) for half in halves])) / scale,
        "inter": float(np.mean([wasserstein(*pair) for pair in pairs])) / scale,
        "points": plane(every).round(2).tolist(),
        "labels": [number for number, cloud in enumerate(clouds) for _ in cloud],
    }


def prototypes(run: Run) -> dict[str, Any]:
    """For every prototype of the first task, the molecules of the OOD test part that are most similar to it."""
    data, method, graphs = run.benchmark, run.method, run.benchmark.split.ood_test
    bank = getattr(method, "prototypes", None)
    if bank is None or data.store.smiles is None:
        raise UsageError("prototypes are drawn for a method that has them, on molecules")
    similarity = torch.from_numpy(_embedding(run, graphs)) @ bank[0].detach().double().flatten(0, 1).T
    nearest = similarity.topk(min(MOLECULES, len(graphs)), dim=0)
    found = []
    for number in range(similarity.shape[1]):
        kind, slot = divmod(number, bank.shape[2])
        for row, value in zip(nearest.indices[:, number].tolist(), nearest.values[:, number].tolist(), strict=True):
            graph = graphs[row : row + 1]
            atoms = gather(method, Loader(data.store, graph, 1), method.node_importance)
            found.append(
                {
                    "class": kind,
                    "prototype": slot,
                    "smiles": data.store.smiles[int(graph)],
                    "label": float(data.store.y[graph, 0]),
                    "similarity": round(value, 4),
                    "atoms": [round(weight, 3) for weight in atoms.tolist()],
                }
            )
    return {"molecules": found}


def health(run: Run) -> dict[str, Any]:
    """Whether the prototypes of a class differ and are used, and whether the scores tell nodes apart, on ID validation.

    `together` and `apart` are mean cosines of prototypes of one class and of different ones; `used` is the share of
    slots that at least one in a hundred graphs of their class is nearest to; `score` and `score_spread` are mean and
    standard deviation of S over all nodes.
    """
    data, method, graphs = run.benchmark, run.method, run.benchmark.split.id_val
    if not isinstance(method, MPHIL):
        raise UsageError("the health of prototypes is asked of a method that has them")
    bank = method.bank().detach().double()
    _, classes, slots, _ = bank.shape
    cosines = torch.nn.functional.normalize(bank, dim=-1).flatten(1, 2)
    cosines = cosines @ cosines.mT
    kind = torch.arange(classes).repeat_interleave(slots)
    same, itself = kind.unsqueeze(0) == kind.unsqueeze(1), torch.eye(len(kind), dtype=torch.bool)
    nearest = torch.einsum("np,tckp->ntck", torch.from_numpy(_embedding(run, graphs)), bank).argmax(-1)
    members = one_hot(data.store.y[graphs], classes).double()
    picked = (torch.nn.functional.one_hot(nearest, slots) * members.unsqueeze(-1)).sum(0)
    share = picked / picked.sum(-1, keepdim=True).clamp_min(1)
    found = {
        "together": _mean(cosines[:, same & ~itself]),
        "apart": _mean(cosines[:, ~same]),
        "used": _mean((share >= USED).double()),
    }
    if method.scorer is not None:
        loader = Loader(data.store, graphs, run.config.train.eval_batch_size)
        scores = gather(method, loader, method.node_importance).double()
        found |= {"score": _mean(scores), "score_spread": round(float(scores.std(correction=0)), FIGURES)}
    return found


PROBES: dict[str, Callable[[Run], dict[str, Any]]] = {
    "separability": separability,
    "prototypes": prototypes,
    "health": health,
}


def wasserstein(one: Floats, other: Floats) -> float:
    """1-Wasserstein distance of two clouds of one size (n, d): the cheapest way to pair their points."""
    from scipy.optimize import linear_sum_assignment

    distance = torch.cdist(torch.from_numpy(one), torch.from_numpy(other)).numpy()
    return float(distance[linear_sum_assignment(distance)].mean())


def plane(points: Floats) -> Floats:
    """(n, 2) t-SNE of (n, d) points."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    # Principal components start it well, but a collapsed embedding has none.
    start = "pca" if points.shape[1] > 1 and points.std(axis=0).max() > 0 else "random"
    placed: Floats = TSNE(perplexity=perplexity, init=start, random_state=0).fit_transform(points).astype(np.float64)
    return placed


def _mean(values: torch.Tensor) -> float | None:
    """The mean, or None of nothing: one prototype a class has no others."""
    return round(float(values.mean()), FIGURES) if values.numel() else None


def _embedding(run: Run, graphs: torch.Tensor) -> Floats:
    loader = Loader(run.benchmark.store, graphs, run.config.train.eval_batch_size)
    return gather(run.method, loader, run.method.embed).double().numpy()
