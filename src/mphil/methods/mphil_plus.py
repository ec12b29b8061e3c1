"""MPHIL+: invariant parts on the sphere. Every node is put there, and prototypes ask which parts a graph has."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.descriptors import Descriptors
from mphil.nn.encoders import build_encoder, require_weights
from mphil.nn.fast.linear import BlasLinear
from mphil.nn.losses import task_loss
from mphil.nn.masks import concrete
from mphil.nn.occlusion import Copies, occlusion
from mphil.nn.readout import margin_slope, readout
from mphil.nn.sphere import random_directions, unit
from mphil.nn.world import share, total
from mphil.task import Task

TIE = 1e-4
"""Similarities that differ by less count as equal: rounding must not choose between nodes that look alike."""


class Matches(NamedTuple):
    """Where the parts are found: (n_graphs, parts) similarity of the best node, and its row in the batch."""

    similarity: Tensor
    node: Tensor


@register(
    "mphil+",
    paper="ours, after Multi-Prototype Hyperspherical Invariant Learning",
    search_space={
        "parts": [8, 16, 32, 64],
        "projection": [32, 64, 128],
        "temperature": [0.1, 0.2, 0.5],
        "pooled": [False, True],
        "keep": [0.5, 0.7, 1.0],
    },
    parallel=True,
    regression=True,
)
class MPHILPlus(Method):
    r"""A graph is described by how well its best node matches each of M learned prototypes, the parts.

    .. math::
        \hat{\mathbf z}_v = \mathrm{Norm}\big(\mathrm{Proj}(\mathbf h_v)\big), \quad
        r_m = \max_{v \in G}\, \langle \hat{\mathbf z}_v, \boldsymbol\mu_m \rangle, \quad
        \mathrm{logits} = \mathbf W \big[\mathbf r / \tau \,\|\, \mathrm{READOUT}(\mathbf H)\big] + \mathbf b

    MPHIL puts one point a graph on the sphere, so that everything around the invariant part moves it. Here every node
    is a point: a prototype is the image of a local pattern, :math:`r_m` says whether the pattern occurs, and since it
    is bounded it cannot run away when a graph grows. Pooled features beside it, if wanted, add what is not local.

    As in MPHIL a second GNN decides what counts, here edge by edge: with a gate, messages are weighed by

    .. math:: g_{uv} = \sigma(s_{uv} + \text{logistic noise}), \qquad
              \mathcal L = \mathcal L_{\mathrm C} + \lambda\, \big|\overline{\sigma(s)} - \kappa(t)\big|

    where :math:`\kappa` falls from 1 to `keep` in the first part of training. Predictions take :math:`\sigma(s_{uv})`.

    Args:
        task: what is asked.
        encoder: settings of the GNN; its readout is that of the pooled features.
        parts: M, prototypes; 0 = none: every coordinate of the projected nodes is a feature by itself.
        projection: size of the sphere's space.
        temperature: :math:`\tau`, what evidence is divided by.
        sphere: put nodes and prototypes on the unit sphere.
        pooled: classify by the readout of the node features too.
        keep: :math:`\kappa`, wanted mean of the gate in the end; 1 = no gate.
        keep_weight: :math:`\lambda`.
        anneal: share of training in which :math:`\kappa` falls.
        gate_layers: message-passing layers of the second GNN.
        descriptors: classify by what is known of a whole molecule too, see `mphil.nn.descriptors`.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        parts: int = 32,
        projection: int = 64,
        temperature: float = 0.2,
        sphere: bool = True,
        pooled: bool = False,
        keep: float = 1.0,
        keep_weight: float = 3.0,
        anneal: float = 0.5,
        gate_layers: int = 2,
        descriptors: bool = False,
    ) -> None:
        super().__init__(task, encoder)
        if parts < 0 or projection < 1 or temperature <= 0:
            wanted = "parts >= 0, projection >= 1 and temperature > 0"
            raise UsageError(f"mphil+ needs {wanted}, not {parts}, {projection} and {temperature}")
        if not 0 < keep <= 1 or not 0 < anneal <= 1 or gate_layers < 1:
            wanted = "0 < keep <= 1, 0 < anneal <= 1 and gate_layers >= 1"
            raise UsageError(f"mphil+ needs {wanted}, not {keep}, {anneal} and {gate_layers}")
        width = encoder.width
        self.keep, self.keep_weight, self.anneal = keep, keep_weight, anneal
        self.temperature, self.sphere, self.pooled = temperature, sphere, pooled
        self.encoder = build_encoder(encoder)
        self.projector = nn.Sequential(BlasLinear(width, width), nn.ReLU(), BlasLinear(width, projection))
        self.prototypes = nn.Parameter(random_directions(parts, projection)) if parts else None
        if keep < 1:
            require_weights(encoder, "a gate (method.keep < 1)")
            kind = "gin" if encoder.kind == "vgin" else encoder.kind  # a virtual node needs more layers than these
            self.gate_encoder = build_encoder(encoder.model_copy(update={"kind": kind, "layers": gate_layers}))
            self.gate_score = nn.Sequential(BlasLinear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        self.descriptors = Descriptors(width) if descriptors else None
        self.head = nn.Linear((parts or projection) + (pooled + descriptors) * width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        scores = self.score_edges(batch)
        losses = Losses(**{self.task.learned: task_loss(self.head(self.embed(batch, scores)), batch.y, self.task)})
        if scores is not None:
            wanted = 1 - (1 - self.keep) * min(1.0, progress.fraction / self.anneal)
            open_share = total(scores.sigmoid().sum()) / total(scores.new_tensor(len(scores))).clamp_min(1)
            losses["gate"] = self.keep_weight * share((open_share - wanted).abs())
        return losses

    def predict(self, batch: Batch) -> Tensor:
        return cast("Tensor", self.head(self.embed(batch)))

    def score_edges(self, batch: Batch) -> Tensor | None:
        """(E,) log-odds that an edge counts, the same in both directions; None without a gate."""
        if self.keep == 1:
            return None
        ends = self.gate_encoder(batch)[batch.edge_index]
        return cast("Tensor", self.gate_score(torch.cat([ends.sum(0), ends.prod(0)], 1)).squeeze(1))

    def encode(self, batch: Batch, scores: Tensor | None = None, x: Tensor | None = None) -> Tensor:
        """(N, d) node features, messages weighed by the gate; `x` in place of the input layer's output."""
        scores = self.score_edges(batch) if scores is None else scores
        weight = None if scores is None else concrete(scores, training=self.training)
        return cast("Tensor", self.encoder(batch, x=x, edge_weight=weight))

    def embed(self, batch: Batch, scores: Tensor | None = None) -> Tensor:
        """(B, d) what the head classifies: parts, pooled features and descriptors, if these are used."""
        nodes = self.encode(batch, scores)
        found = self.describe(self.similarity(nodes), nodes, batch.ptr)
        return found if self.descriptors is None else torch.cat([found, self.descriptors(batch)], 1)

    def similarity(self, nodes: Tensor) -> Tensor:
        """(N, d) node features -> (N, M) cosines of the nodes and the prototypes."""
        z = self.projector(nodes)
        z = unit(z) if self.sphere else z
        if self.prototypes is None:
            return z
        return z @ (unit(self.prototypes) if self.sphere else self.prototypes).T

    def describe(self, similarity: Tensor, nodes: Tensor, ptr: Tensor) -> Tensor:
        """(B, M) evidence of every part, followed by the pooled features if they are used."""
        best = readout(similarity, ptr, "max") / self.temperature
        return torch.cat([best, self.pool(nodes, ptr)], 1) if self.pooled else best

    def match(self, batch: Batch) -> Matches:
        """The node of each graph where each part matches best, the first of equals."""
        similarity = self.similarity(self.encode(batch))
        best = readout(similarity, batch.ptr, "max")
        rows = torch.arange(len(similarity), device=similarity.device).unsqueeze(1)
        candidates = torch.where(similarity >= best[batch.batch] - TIE, rows, len(similarity))
        owner = batch.batch.unsqueeze(1).expand_as(candidates)
        return Matches(best, rows.new_full(best.shape, len(similarity)).scatter_reduce(0, owner, candidates, "amin"))

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) how far the margin of the decision falls when a node and its neighbours are hidden, see `occlusion`.

        Hidden nodes get the mean of what the input layer makes of their graph, and no part may match there, nor at
        their neighbours, which have seen them. The gate and what is known of a whole molecule stay as they are.
        """
        with torch.no_grad():
            first, scores = self.encoder.begin(batch, None), self.score_edges(batch)
            whole = self.embed(batch, scores)
            slope = margin_slope(self.head(whole), self.task) @ self.head.weight

            def fall(copies: Copies) -> Tensor:
                gate = None if scores is None else scores[copies.edge]
                nodes = self.encode(copies.batch, gate, copies.blank(first))
                found = self.describe(copies.silence(self.similarity(nodes)), nodes, copies.batch.ptr)
                of, told = copies.graph, found.shape[1]
                return ((whole[of, :told] - found) * slope[of, :told]).sum(1)

            return occlusion(batch, fall)

    def ood_score(self, batch: Batch) -> Tensor:
        r"""How far the nodes are from what the parts know: :math:`-\frac1{|G|}\sum_v \max_m s_{vm}`."""
        similarity = self.similarity(self.encode(batch))
        return -readout(similarity.amax(1, keepdim=True), batch.ptr).squeeze(1)
