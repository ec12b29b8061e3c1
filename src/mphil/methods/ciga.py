"""CIGA: subgraphs that carry the label, alike within a class and hard to do without."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn import rationale
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import entry_losses, label_pairs, labelled, masked_mean, supervised_contrast
from mphil.nn.readout import readout, two_layers
from mphil.task import Task

PAPER = "Chen et al., 2022, Learning causally invariant representations for OOD generalization on graphs, NeurIPS"
Source = Literal["features", "raw"]
Contrast = Literal["features", "representation"]
Networks = Literal["divided", "full"]
SPACE = {"share": [0.2, 0.3, 0.4, 0.6, 0.8], "contrast": [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}


@register("ciga-v1", paper=PAPER, needs={"edge_weight"}, search_space=SPACE)
class CIGAv1(Method):
    r"""The best-scored edges of a graph predict its label, and those of one class must look alike.

    A GNN scores edges, :math:`s_{uv} = f([h_u \| h_v])`. The best of each graph are :math:`G_c`, with weight
    :math:`\sigma(s)`; a second GNN classifies them. A large overlap of :math:`G_c` within a class, and none between
    classes, is what a cause of the label has and its companions in one environment lack.

    .. math:: \mathcal L = \ell_c - \alpha\, \frac1n \sum_i \frac1{|P(i)|} \sum_{p \in P(i)} \log
              \frac{e^{\langle u_i, u_p \rangle}}{\sum_{a \ne i} e^{\langle u_i, u_a \rangle}}

    :math:`P(i)` are the other graphs with the label of i, and :math:`u` is the unit vector of :math:`G_c`.

    Args:
        task: what is asked.
        encoder: settings of the GNNs.
        share: r, share of the edges of each graph that is :math:`G_c`, rounded up.
        contrast: :math:`\alpha`.
        classify: what the second GNN starts from: the `features` that edges are scored by, or the `raw` graph, with
            all layers of the encoder.
        contrast_on: :math:`u` is the sum of the `features` of the nodes of :math:`G_c`, or its `representation`.
        networks: `divided`, as in GOOD: two layers of the encoder, without dropout, and a linear map score edges, the
            other layers and a linear head classify. `full`, as the authors have it: both GNNs have all layers of the
            encoder; edges are scored by an MLP with a hidden layer of four times the width, graphs are classified by
            one with a hidden layer of twice the width.

    Differs from the authors' code: :math:`u` is summed over the nodes of :math:`G_c`, where theirs gathers as many
    first rows of the batch; binary tasks have one output, not two. Tasks of a multi-task problem are contrasted one by
    one, known labels only.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        share: float = 0.8,
        contrast: float = 1.0,
        classify: Source = "features",
        contrast_on: Contrast = "features",
        networks: Networks = "divided",
    ) -> None:
        super().__init__(task, encoder)
        self.contrast, self.classify, self.contrast_on, self.networks = contrast, classify, contrast_on, networks
        full = networks == "full"
        first, second = (encoder, encoder) if full else rationale.split_layers(encoder)
        self.extractor = rationale.Extractor(first, share, hidden=(4 * encoder.width,) if full else ())
        self.encoder = build_encoder(encoder) if classify == "raw" else build_encoder(second, embedded=True)
        self.head = self.make_head(encoder.width)

    def make_head(self, width: int) -> nn.Module:
        """(B, width) vectors of graphs -> (B, outputs) logits."""
        outputs = self.task.n_outputs
        return two_layers(width, outputs) if self.networks == "full" else nn.Linear(width, outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        nodes, weight, kept = self.extractor(batch)
        cause, _ = rationale.cut(batch, weight, kept)
        return self.invariance(cause, nodes, batch.y)[0]

    def invariance(self, cause: rationale.Part, nodes: Tensor, y: Tensor) -> tuple[Losses, Tensor]:
        """Both terms of v1, and the (B, T) losses that the first is the mean of."""
        z = self.represent(cause, nodes)
        entries = entry_losses(self.head(z), y, self.task)
        u = readout(nodes[cause.nodes], cause.graphs.ptr, "sum") if self.contrast_on == "features" else z
        contrast = self.contrast * supervised_contrast(u, *label_pairs(y, self.task), temperature=1.0)
        return Losses(classification=masked_mean(entries, labelled(y)), contrast=contrast), entries

    def represent(self, part: rationale.Part, nodes: Tensor) -> Tensor:
        """(B, d) vector of one part of each graph, from the features of all nodes or from the raw graph."""
        x = None if self.classify == "raw" else nodes[part.nodes]
        h = self.encoder(part.graphs, x=x, edge_weight=part.edge_weight)
        return self.pool(h, part.graphs.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the part kept of each graph."""
        nodes, weight, kept = self.extractor(batch)
        cause, _ = rationale.cut(batch, weight, kept)
        return self.represent(cause, nodes)

    def node_importance(self, batch: Batch) -> Tensor:
        _, weight, kept = self.extractor(batch)
        return rationale.node_importance(weight, kept, batch)


@register("ciga-v2", paper=PAPER, needs={"edge_weight"}, search_space=SPACE | {"hinge": [0.5, 1.0, 2.0]})
class CIGAv2(CIGAv1):
    r"""CIGA v1, and what is left out should predict the label too, as long as it does so worse than what is kept.

    The share r need not fit the cause, and companions can hide in :math:`G_c`. A second head predicts the label from
    the rest :math:`G_s`, the edges not kept with weight :math:`\sigma(-s)`; an edge then goes where it helps most.

    .. math:: \mathcal L = \mathcal L_{\mathrm{v1}}
              + \beta\, \frac{\sum_i \ell_{s,i}\, 1[\ell_{s,i} > \ell_{c,i}]}{\sum_i 1[\ell_{s,i} > \ell_{c,i}]}

    Everything else is as in `ciga-v1`.

    Args:
        task: what is asked.
        encoder: settings of the GNNs.
        share: r, share of the edges of each graph that is :math:`G_c`, rounded up.
        contrast: :math:`\alpha`.
        hinge: :math:`\beta`.
        classify: what the second GNN starts from: the `features` that edges are scored by, or the `raw` graph.
        contrast_on: what is contrasted: the sum of the `features` of :math:`G_c`, or its `representation`.
        networks: sizes of the GNNs, scorer and heads: `divided` as in GOOD, `full` as the authors have them.

    Differs from the authors' code: as v1; and the hinge reaches the scores of edges, as in GOOD, where the authors'
    `s_rep=rep` stops it at the second head; the rest is seen by the second GNN on every benchmark, where their commands
    for scaffolds have one layer of its own for it; the second head lacks their linear map from outputs to outputs. The
    rest does not move the running statistics of the normalisation.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        share: float = 0.8,
        contrast: float = 1.0,
        hinge: float = 1.0,
        classify: Source = "features",
        contrast_on: Contrast = "features",
        networks: Networks = "divided",
    ) -> None:
        super().__init__(
            task,
            encoder,
            share=share,
            contrast=contrast,
            classify=classify,
            contrast_on=contrast_on,
            networks=networks,
        )
        self.hinge = hinge
        self.rest_head = self.make_head(encoder.width)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        nodes, weight, kept = self.extractor(batch)
        cause, rest = rationale.cut(batch, weight, kept)
        losses, entries = self.invariance(cause, nodes, batch.y)
        with rationale.unmoved_statistics(self.encoder):
            rest_entries = entry_losses(self.rest_head(self.represent(rest, nodes)), batch.y, self.task)
        gate = (rest_entries > entries) & labelled(batch.y)
        losses["hinge"] = self.hinge * masked_mean(rest_entries, gate)
        return losses
