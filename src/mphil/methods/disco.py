"""DiSCO: experts that each see other edges, and a sparse gate that chooses between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.encoder import Encoder
from mphil.nn.losses import entry_losses, labelled, masked_mean
from mphil.nn.masks import group_sizes, node_share_of_edges, straight_through
from mphil.nn.rationale import Scorer, edge_graph
from mphil.task import Task

TEMPERATURE = 0.1
MEDIAN = -math.log(math.log(2))
"""Of the noise: an edge whose score is above minus the median is kept in more than half of the draws."""
TOLERANCE = 0.1
"""Correlation of masks that costs nothing."""
SOFTNESS = 0.75
"""Temperature of the teacher of the gate."""
SIGNS = 5
"""What the gate knows of an expert's answer."""
GATE_HIDDEN = 64
GATE_RATE = 0.1
SPARSITY, WINNERS, SHARPENING = 0.2, 0.2, 5
EPS = 1e-12


class Opinions(NamedTuple):
    """What the experts make of a batch.

    Attributes:
        masks: (E, K) of 0 and 1, the edges that each expert sees.
        z: (B, K, d) the vectors they classify by.
        logits: (B, K, outputs).
        gate: (B, K) how much each counts; rows add up to 1.
    """

    masks: Tensor
    z: Tensor
    logits: Tensor
    gate: Tensor


@register(
    "disco",
    paper="Sun et al., 2026, DiSCO (code: github.com/jhsun20/MoEGraph), ICLR",
    needs={"edge_weight"},
    search_space={"experts": [4, 8], "keep": [0.5, 0.6, 0.7, 0.8], "diversity": [0.1, 0.5, 1.0]},
)
class DiSCO(Method):
    r"""One GNN scores edges for K experts; each classifies what it keeps, and a gate weighs their answers.

    .. math::
        m^k_{uv} = 1[s^k_{uv} + \gamma > 0], \quad \gamma \sim \mathrm{Gumbel}, \qquad
        \mathrm{logits} = \sum_k g_k f_k(m^k G), \quad g = \alpha\text{-entmax}(\mathrm{MLP}(\phi_1), \dots)

        \mathcal L = \overline{\textstyle\sum_k g_k \ell_k}
        + \lambda_1 \sum_k \bar g_k\, \overline{(\bar m^k_G - \kappa)^2}
        + \lambda_2\, \overline{\Big[\operatorname*{mean}_{k \ne l} |\mathrm{corr}(m^k_G, m^l_G)| - 0.1\Big]_+}
        + \lambda_3 \big(\overline{\mathrm{KL}(g \| q)} + \lambda_4 B(g)\big)

    Bars are means over graphs (over edges in :math:`\bar m_G`). Masks have the gradient of
    :math:`\sigma((s + \gamma) / 0.1)`. Of the answer of an expert, the gate sees :math:`\phi_k`: the largest
    probability, its margin over the second, entropy, energy, and the mean symmetric divergence from the other experts.
    Its teacher is :math:`q = \mathrm{softmax}_k(-\ell_k / 0.75)`; with :math:`u = 1/K`,
    :math:`B = \mathrm{KL}(u \| \bar g) + 0.2\, \overline{H(g)} + 0.2\, \mathrm{KL}(u \| \overline{g^5 / \sum g^5})`
    uses all experts, in each graph few. Experts do not learn from the gate's terms, and the gate, at a tenth of the
    learning rate, from nothing else but the first. In the beginning all experts count alike.

    Args:
        task: what is asked.
        encoder: settings of the GNN that scores and of those of the experts.
        experts: K.
        keep: :math:`\kappa`, wanted share of the edges of each graph.
        keep_weight: :math:`\lambda_1`.
        diversity: :math:`\lambda_2`. The published 1 is halved by an equal term for nodes, which has no gradient.
        gate_weight: :math:`\lambda_3`.
        balance: :math:`\lambda_4`.
        alpha: :math:`\alpha`, from 1 (softmax) to 2 (sparsemax).
        warmup: share of training in which experts count alike. The published one is 9 of 25 to 70 epochs.

    Differs from the authors' code: predictions keep the edges that most draws would keep, theirs draw; what the gate
    sees is standardised by running statistics, theirs by those of the batch, and five of their ten numbers, which are
    the same for all graphs of a batch, are left out; with several tasks they are means over the tasks; binary tasks
    have one output. On molecules their masks do not reach the messages, here they do; the loss of HIV is not
    adjusted for the share of actives. The gate is not trained on after the end.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        experts: int = 8,
        keep: float = 0.55,
        keep_weight: float = 5.0,
        diversity: float = 0.5,
        gate_weight: float = 0.1,
        balance: float = 0.5,
        alpha: float = 1.38,
        warmup: float = 0.36,
    ) -> None:
        super().__init__(task, encoder)
        if experts < 2 or not (0 < keep <= 1 and 1 <= alpha <= 2 and 0 <= warmup < 1):
            raise UsageError(
                "disco needs experts >= 2, 0 < keep <= 1, 1 <= alpha <= 2 and 0 <= warmup < 1, "
                f"not {experts=}, {keep=}, {alpha=} and {warmup=}"
            )
        self.keep, self.keep_weight, self.diversity = keep, keep_weight, diversity
        self.gate_weight, self.balance, self.alpha, self.warmup = gate_weight, balance, alpha, warmup
        width = encoder.width
        self.selector = build_encoder(encoder)
        self.scorers = nn.ModuleList(Scorer(width, "edge", hidden=(width,)) for _ in range(experts))
        self.encoders = nn.ModuleList(build_encoder(encoder) for _ in range(experts))
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, task.n_outputs)) for _ in range(experts)
        )
        self.gate = nn.Sequential(nn.Linear(SIGNS, GATE_HIDDEN), nn.ReLU(), nn.Linear(GATE_HIDDEN, 1))
        self.standard = nn.BatchNorm1d(SIGNS, affine=False)
        self.routing: Tensor
        self.register_buffer("routing", torch.zeros((), dtype=torch.bool))

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        gate = list(self.gate.parameters())
        return {"experts": [p for p in self.parameters() if p not in set(gate)], "gate": gate}

    def learning_rates(self) -> dict[str, float]:
        return {"gate": GATE_RATE}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        experts, gate = self.terms(batch, progress)
        yield "experts", experts
        yield "gate", gate

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        """All terms; `routing` has the value of `classification` and teaches the gate what that teaches the experts."""
        experts, gate = self.terms(batch, progress)
        return Losses(**experts, **gate)

    def terms(self, batch: Batch, progress: Progress) -> tuple[Losses, Losses]:
        """What the experts learn from, and what the gate does."""
        routing = progress.fraction >= self.warmup
        if self.training:
            self.routing.fill_(routing)
        masks, _, logits, gate = self.opinions(batch)
        losses, known = graph_losses(logits, batch.y, self.task), labelled(batch.y).any(1)
        routed = gate if routing else torch.full_like(gate, 1 / gate.shape[1])
        owner, n_graphs = edge_graph(batch), batch.ptr.numel() - 1
        fixed = routed.detach()
        experts = Losses(
            classification=masked_mean((fixed * losses).sum(1), known),
            keep=self.keep_weight * (fixed.mean(0) * keep_gaps(masks, owner, n_graphs, self.keep)).sum(),
            diversity=self.diversity * correlation(masks, owner, n_graphs),
        )
        taught = masked_mean(divergence(gate, (-losses.detach() / SOFTNESS).softmax(1)), known)
        return experts, Losses(
            routing=masked_mean((routed * losses.detach()).sum(1), known),
            teacher=self.gate_weight * taught,
            balance=self.gate_weight * self.balance * imbalance(gate),
        )

    def opinions(self, batch: Batch) -> Opinions:
        """What each expert sees and says, and how much it counts by the gate."""
        masks = self.masks(batch)
        encoders = cast("list[Encoder]", list(self.encoders))
        z = [self.represent(encoder, batch, mask) for encoder, mask in zip(encoders, masks.unbind(1), strict=True)]
        logits = torch.stack([head(vectors) for head, vectors in zip(self.heads, z, strict=True)], 1)
        signs = self.standard(signs_of(logits.detach(), self.task).flatten(0, 1)).view(*logits.shape[:2], SIGNS)
        return Opinions(masks, torch.stack(z, 1), logits, entmax(self.gate(signs).squeeze(2), self.alpha))

    def represent(self, encoder: Encoder, batch: Batch, mask: Tensor) -> Tensor:
        """(B, d) the graphs, seen by one expert through its mask; what nodes without edges carry is set to 0."""
        joined = node_share_of_edges(mask.detach(), batch) > 0
        h = encoder(batch, x=encoder.begin(batch, None) * joined.unsqueeze(1), edge_weight=mask)
        return self.pool(h, batch.ptr)

    def masks(self, batch: Batch) -> Tensor:
        """(E, K) the edges that each expert sees: 0 or 1, in training drawn, with the gradient of a relaxed draw."""
        nodes = self.selector(batch)
        scores = torch.stack([scorer(nodes, batch) for scorer in self.scorers], 1)
        if not self.training:
            return (scores + MEDIAN > 0).to(scores.dtype)
        tiny = torch.finfo(scores.dtype).tiny
        noise = -(-torch.rand_like(scores).clamp_min(tiny).log()).clamp_min(tiny).log()
        soft = ((scores + noise) / TEMPERATURE).sigmoid()
        return straight_through(soft > 0.5, soft)

    def predict(self, batch: Batch) -> Tensor:
        _, _, logits, gate = self.opinions(batch)
        return (self.routed(gate).unsqueeze(2) * logits).sum(1)

    def routed(self, gate: Tensor) -> Tensor:
        """(B, K) how much each expert counts at present."""
        return gate if self.routing else torch.full_like(gate, 1 / gate.shape[1])

    def embed(self, batch: Batch) -> Tensor:
        """(B, K d) the vectors of all experts, each times its weight."""
        _, z, _, gate = self.opinions(batch)
        return (self.routed(gate).unsqueeze(2) * z).flatten(1)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean over the edges of a node: the experts that keep the edge, by their weight."""
        masks, _, _, gate = self.opinions(batch)
        return node_share_of_edges((masks * self.routed(gate)[edge_graph(batch)]).sum(1), batch).detach()


def graph_losses(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """(B, K) mean loss of the known labels of every graph by every expert; 0 without labels."""
    n, experts = logits.shape[:2]
    entries = entry_losses(logits.flatten(0, 1), y.repeat_interleave(experts, 0), task).view(n, experts, -1)
    return entries.sum(2) / labelled(y).sum(1, keepdim=True).clamp_min(1)


def signs_of(logits: Tensor, task: Task) -> Tensor:
    """(B, K, 5) how sure each expert is: largest probability, margin, entropy, energy, and agreement with the others.

    Args:
        logits: (B, K, outputs) of two experts or more.
        task: what they mean.
    """
    binary = task.kind != "multiclass"
    answers = torch.stack([torch.zeros_like(logits), logits], 3) if binary else logits.unsqueeze(2)  # (B, K, T, C)
    log_p = answers.log_softmax(3)
    p = log_p.exp()
    first, second = p.topk(2, 3).values.unbind(3)
    entropy, energy = -(p * log_p).sum(3), -answers.logsumexp(3)
    # KL(k || l) = -H(k) - <p_k, log p_l>; the divergence of an expert from itself is 0.
    one_way = -entropy.unsqueeze(3) - torch.einsum("bktc,bltc->bktl", p, log_p)
    apart = (one_way + one_way.transpose(1, 3)).sum(3) / 2 / (logits.shape[1] - 1)
    return torch.stack([first, first - second, entropy, energy, -apart], 3).mean(2)


def entmax(scores: Tensor, alpha: float) -> Tensor:
    r"""Rows of weights that add up to 1 and may be 0 (Peters et al., 2019), (B, K) -> (B, K); alpha 1 is softmax.

    .. math:: p_k = \big[(\alpha - 1) s_k - \tau\big]_+^{1 / (\alpha - 1)}

    :math:`\tau` is found by bisection, and its gradient follows from the sum of p being 1.
    """
    if alpha == 1:
        return scores.softmax(1)
    power, scaled = 1 / (alpha - 1), (alpha - 1) * scores
    with torch.no_grad():
        high = scaled.amax(1, keepdim=True)
        low = high - 1
        for _ in range(60 if scores.dtype == torch.float64 else 30):
            middle = (low + high) / 2
            enough = (scaled - middle).clamp_min(0).pow(power).sum(1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        kept = (scaled - low).clamp_min(0)
        slopes = torch.where(kept > 0, kept.pow(power - 1), 0.0)
        slopes = slopes / slopes.sum(1, keepdim=True)
    threshold = low + (slopes * (scaled - scaled.detach())).sum(1, keepdim=True)
    p = (scaled - threshold).clamp_min(0)
    p = torch.where(kept > 0, torch.where(kept > 0, p, 1.0).pow(power), 0.0)
    return p / p.sum(1, keepdim=True).detach()


def keep_gaps(masks: Tensor, owner: Tensor, n_graphs: int, keep: float) -> Tensor:
    """(K,) mean over the graphs that have edges of the squared distance of the share kept from what is wanted."""
    sizes = group_sizes(owner, n_graphs).unsqueeze(1)
    shares = masks.new_zeros(n_graphs, masks.shape[1]).index_add(0, owner, masks) / sizes.clamp_min(1)
    return ((shares - keep).square() * (sizes > 0)).sum(0) / (sizes > 0).sum().clamp_min(1)


def correlation(masks: Tensor, owner: Tensor, n_graphs: int) -> Tensor:
    """By how much the mean absolute correlation of the experts' masks exceeds the tolerance, a mean over graphs.

    Args:
        masks: (E, K).
        owner: (E,) graph of every edge.
        n_graphs: how many there are; those with fewer than two edges are left out.
    """
    experts = masks.shape[1]
    sizes = group_sizes(owner, n_graphs).clamp_min(1).view(-1, 1)
    means = masks.new_zeros(n_graphs, experts).index_add(0, owner, masks) / sizes
    centred = masks - means[owner]
    pairs = torch.einsum("ek,el->ekl", centred, centred).flatten(1)
    moments = masks.new_zeros(n_graphs, experts**2).index_add(0, owner, pairs) / sizes
    moments = moments.view(n_graphs, experts, experts)
    variance = moments.diagonal(dim1=1, dim2=2)
    varies = variance > EPS
    scale = torch.where(varies, torch.where(varies, variance, 1.0).rsqrt(), 0.0)
    related = (moments * scale.unsqueeze(1) * scale.unsqueeze(2)).abs()
    apart = ~torch.eye(experts, dtype=torch.bool, device=masks.device)
    means_of_pairs = (related * apart).sum((1, 2)) / (experts * (experts - 1))
    counted = sizes.squeeze(1) > 1
    return ((means_of_pairs - TOLERANCE).relu() * counted).sum() / counted.sum().clamp_min(1)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """(B,) KL(p || q) of rows; what is 0 in p adds nothing."""
    return (p * (p.clamp_min(EPS).log() - q.clamp_min(EPS).log())).sum(1)


def imbalance(gate: Tensor) -> Tensor:
    """How unequally (B, K) weights use the experts over the batch, and how many of them in each graph, a scalar."""
    winners = gate.clamp_min(EPS).pow(SHARPENING)
    winners = winners / winners.sum(1, keepdim=True)
    entropy = -(gate.clamp_min(EPS) * gate.clamp_min(EPS).log()).sum(1).mean()
    return _from_uniform(gate.mean(0)) + SPARSITY * entropy + WINNERS * _from_uniform(winners.mean(0))


def _from_uniform(p: Tensor) -> Tensor:
    """KL of equal shares from (K,) shares."""
    return -math.log(len(p)) - p.clamp_min(EPS).log().mean()
