"""IGM: new environments by exchanging surroundings, new graphs by mixing what decides."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn import rationale
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import mixup, mixup_loss, task_loss
from mphil.nn.masks import clamp_share, concrete, group_sizes, subgraph
from mphil.nn.penalties import variance_penalty
from mphil.nn.rationale import Scorer, edge_graph
from mphil.task import Task


@register(
    "igm",
    paper="Jia et al., 2024, Graph invariant learning with subgraph co-mixup for OOD generalization, AAAI",
    needs={"edge_weight"},
    search_space={"variance": [0.1, 1.0, 10.0], "interpolation": [0.1, 0.5, 1.0], "share": [0.6, 0.7, 0.8]},
)
class IGM(Method):
    r"""Edges are drawn into an invariant part; its label must survive foreign surroundings and mixing.

    An edge belongs to the invariant part by :math:`w = \mathrm{Concrete}(\mathrm{MLP}[h_u \| h_v])`, and is in it when
    :math:`w > 1/2`; the part has between 1 - r and r of the edges. In a new environment k every graph has its
    invariant part, with weights w, joined to the rest of a random graph of the next class, with weights 1 - w.

    .. math::
        \mathcal L = R_0 + a\, \frac1K \sum_k R_k + b \operatorname{Var}(R_0, \dots, R_K)
        + d\, \ell\big(f(\lambda z_i + (1-\lambda) z_{\pi(i)}),\, \lambda y_i + (1-\lambda) y_{\pi(i)}\big)

    :math:`R_0` is the risk on the graphs as they are, from which predictions are made, too; :math:`z` is the vector of
    the invariant part and :math:`\lambda \sim \mathrm{Beta}(\alpha, \alpha)`.

    Args:
        task: what is asked.
        encoder: settings of the classifying GNN; two layers of its width score the edges.
        share: r, largest share of the edges of a graph in its invariant part; the smallest is 1 - r.
        environments: K, new environments in a step.
        mixed: a, weight of the risks in new environments.
        variance: b, weight of the variance of all risks.
        interpolation: d, weight of the loss on mixed invariant parts.
        alpha: of the Beta distribution.
        bridges: edges that join the two halves of a new graph.

    Differs from the authors' code, which cannot run: labels, edges and weights of new graphs belong together, the
    variance has a gradient and weights are used. Its weights a, b, d are not published; the defaults are ours.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        share: float = 0.7,
        environments: int = 1,
        mixed: float = 1.0,
        variance: float = 1.0,
        interpolation: float = 0.5,
        alpha: float = 0.2,
        bridges: int = 2,
    ) -> None:
        super().__init__(task, encoder)
        if not 0.5 <= share <= 1 or environments < 1 or alpha <= 0 or bridges < 0:
            raise UsageError(
                "igm needs 0.5 <= share <= 1, environments >= 1, alpha > 0 and bridges >= 0, "
                f"not {share}, {environments}, {alpha} and {bridges}"
            )
        self.share, self.environments, self.alpha, self.bridges = share, environments, alpha, bridges
        self.mixed, self.variance, self.interpolation = mixed, variance, interpolation
        width = encoder.width
        self.extractor = build_encoder(rationale.extractor_config(encoder))
        self.scorer = Scorer(width, "edge", hidden=(4 * width,))
        self.encoder = build_encoder(encoder)
        self.head = nn.Linear(width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        original = task_loss(self.predict(batch), batch.y, self.task)
        weight, kept = self.select(batch)
        with rationale.unmoved_statistics(self.encoder):
            mixed = torch.stack([self.mixed_risk(batch, weight, kept) for _ in range(self.environments)])
            interpolated = self.interpolated_risk(batch, weight, kept)
        return Losses(
            classification=original,
            mixed=self.mixed * mixed.mean(),
            variance=self.variance * variance_penalty(torch.cat([original.view(1), mixed])),
            interpolation=self.interpolation * interpolated,
        )

    def select(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(E,) weights of the edges, in training draws of them, and which are in the invariant part."""
        logits = self.scorer(self.extractor(batch), batch)
        weight = concrete(logits, training=self.training)
        low, n_graphs = 1 - self.share, batch.ptr.numel() - 1
        return weight, clamp_share(weight > 0.5, weight, edge_graph(batch), n_graphs, low, self.share)

    def mixed_risk(self, batch: Batch, weight: Tensor, kept: Tensor) -> Tensor:
        """Risk in one new environment, a scalar."""
        graphs, source = graft(batch, kept, random_partners(batch.y, self.task), self.bridges)
        # Bridges have the source -1: the last entry, which is a whole edge.
        weights = torch.cat([torch.where(kept, weight, 1 - weight), weight.new_ones(1)])
        logits = self.head(self.represent(graphs, weights[source]))
        return task_loss(logits, graphs.y, self.task)

    def interpolated_risk(self, batch: Batch, weight: Tensor, kept: Tensor) -> Tensor:
        """Risk on mixtures of invariant parts, a scalar."""
        invariant, _ = rationale.cut(batch, weight, kept)
        mixture = mixup(self.represent(invariant.graphs, invariant.edge_weight), self.alpha)
        return mixup_loss(self.head(mixture.features), batch.y, mixture, self.task)

    def represent(self, graphs: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """(B, d) vector of each graph."""
        return self.pool(self.encoder(graphs, edge_weight=edge_weight), graphs.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the graph as it is."""
        return self.represent(batch)

    def node_importance(self, batch: Batch) -> Tensor:
        return rationale.node_importance(*self.select(batch), batch)


def random_partners(y: Tensor, task: Task) -> Tensor:
    """For every graph, another of the batch to take surroundings from.

    It is one of the next class present; any other graph where there is no such class: for a multi-task problem, a
    missing label, or a batch of one class.

    Args:
        y: (B, T) labels, NaN = missing.
        task: what they are labels of.

    Returns:
        (B,) positions in the batch; a graph that is alone is its own partner.
    """
    n = len(y)
    allowed = torch.zeros(n, n, dtype=torch.bool, device=y.device)
    if task.kind != "multitask":
        label = y[:, 0]
        following = torch.where(label > label.unsqueeze(1), label, torch.inf).amin(1)
        lowest = torch.where(label.isnan(), torch.inf, label).amin()
        following = torch.where(following.isinf(), lowest, following)
        allowed = (label == following.unsqueeze(1)) & ((following != label) & ~label.isnan()).unsqueeze(1)
    others = ~torch.eye(n, dtype=torch.bool, device=y.device)
    allowed = torch.where(allowed.any(1, keepdim=True), allowed, others)
    return torch.rand(n, n, device=y.device).masked_fill(~allowed, -1.0).argmax(1)


def graft(batch: Batch, kept: Tensor, partner: Tensor, bridges: int = 2) -> tuple[Batch, Tensor]:
    """Join the kept part of every graph with the rest of its partner by a few random edges.

    Graph i of the result keeps the label of graph i. Its nodes are those of the kept part, then those of the rest. A
    bridge joins a random node of either side, in both directions, and carries the features of a random edge; where a
    side is empty there are none.

    Args:
        batch: the graphs.
        kept: (n_edges,) bool, which edges decide.
        partner: (n_graphs,) whose rest each graph gets.
        bridges: edges between the two sides.

    Returns:
        The new graphs, and for each of their edges where it was in `batch`, -1 for a bridge.
    """
    n_graphs = partner.numel()
    own, own_nodes = subgraph(batch, kept)
    rest, rest_nodes = subgraph(batch, ~kept)
    taken, edges, edge_index = _repeat(rest, partner)

    owner = torch.cat([own.batch, _owners(rest.ptr, partner)])
    order = owner.argsort(stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(order.numel(), device=order.device)
    nodes = torch.cat([own_nodes, rest_nodes[taken]])[order]
    ends, templates = _bridges(own.ptr.diff(), rest.ptr.diff()[partner], batch, bridges)

    inside = torch.cat([own.edge_index, edge_index + own_nodes.numel()], dim=1)
    ptr = torch.cat([batch.ptr.new_zeros(1), group_sizes(owner, n_graphs).cumsum(0)])
    source = torch.cat([kept.nonzero().squeeze(1), (~kept).nonzero().squeeze(1)[edges]])
    mixed = copy.copy(batch)
    mixed.x, mixed.batch, mixed.ptr = batch.x[nodes], owner[order], ptr
    mixed.edge_index = torch.cat([number[inside], ends], dim=1)
    if batch.edge_attr is not None:
        mixed.edge_attr = batch.edge_attr[torch.cat([source, templates])]
    return mixed, torch.cat([source, torch.full_like(templates, -1)])


def _repeat(batch: Batch, graphs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Graphs of a batch, any number of times each: positions of their nodes and edges, and the renumbered edges."""
    nodes, first = _members(batch.ptr, graphs)
    owner = edge_graph(batch)
    by_graph = owner.argsort(stable=True)
    edge_ptr = torch.cat([batch.ptr.new_zeros(1), group_sizes(owner, batch.ptr.numel() - 1).cumsum(0)])
    places, _ = _members(edge_ptr, graphs)
    edges = by_graph[places]
    shift = (first - batch.ptr[graphs]).repeat_interleave(edge_ptr.diff()[graphs])
    return nodes, edges, batch.edge_index[:, edges] + shift


def _members(ptr: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the members of some groups, one group after the other, and where each begins in that row."""
    counts = ptr.diff()[groups]
    first = counts.cumsum(0) - counts
    offset = (ptr[groups] - first).repeat_interleave(counts)
    return torch.arange(offset.numel(), device=ptr.device) + offset, first


def _owners(ptr: Tensor, groups: Tensor) -> Tensor:
    """For members in the order of `_members`, the place of their group."""
    return torch.arange(groups.numel(), device=ptr.device).repeat_interleave(ptr.diff()[groups])


def _bridges(n_own: Tensor, n_rest: Tensor, batch: Batch, count: int) -> tuple[Tensor, Tensor]:
    """Random edges between the two sides of each new graph, both directions, and the edges whose features they copy."""
    sizes = n_own + n_rest
    start = sizes.cumsum(0) - sizes
    possible = (n_own > 0) & (n_rest > 0)
    if batch.edge_index.shape[1] == 0:
        possible = torch.zeros_like(possible)
    graph = possible.nonzero().squeeze(1).repeat_interleave(count)
    here, there = torch.rand(2, graph.numel(), dtype=torch.float64, device=graph.device)
    u = start[graph] + (here * n_own[graph]).long()
    v = start[graph] + n_own[graph] + (there * n_rest[graph]).long()
    template = torch.randint(max(1, batch.edge_index.shape[1]), (graph.numel(),), device=graph.device)
    return torch.cat([torch.stack([u, v]), torch.stack([v, u])], dim=1), template.repeat(2)
