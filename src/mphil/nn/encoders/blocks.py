"""Blocks that encoders and methods are made of: normalisation, perceptrons, input layers, alike layers, padding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn import world
from mphil.nn.encoders.encoder import Encoder, message_weight
from mphil.nn.fast.library import kernels
from mphil.nn.fast.linear import Linear, frozen_perceptron, ours, perceptron
from mphil.nn.fast.normalise import NO_STEPS, Norm, Steps, scaled, standardised
from mphil.nn.randomness import Dropout


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes its running statistics when a batch has a single row."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def forward(self, x: Tensor, counts: Tensor | None = None, steps: Steps = NO_STEPS) -> Tensor:
        """Normalise (n_rows, d) features, of which row i stands for `counts[i]` nodes, and go on with `steps`."""
        if self.compiled(x, counts):
            if not self.training:
                return scaled(x, self.scale_and_shift(), steps)
            return standardised(x, self.weight, self.bias, counts, self.state, steps)
        if self.training and (world.size() > 1 or counts is not None):
            return steps(self._together(x, counts))
        if self.training and len(x) < 2:
            h = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
            return steps(h)
        return steps(super().forward(x))

    def compiled(self, x: Tensor, counts: Tensor | None) -> bool:
        """Whether compiled loops can normalise these rows."""
        if x.dim() != 2 or kernels(x) is None:
            return False
        if not self.training:
            return not torch.is_grad_enabled()
        return world.size() == 1 and (len(x) > 1 or (counts is not None and int(counts.sum()) > 1))

    def scale_and_shift(self) -> Tensor:
        """(2, d) what normalising by the running statistics comes to: scale * x + shift."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return torch.stack((scale, self.bias - self.running_mean * scale))

    @property
    def state(self) -> Norm:
        """The running statistics, for a batch that will move them."""
        return Norm(self.running_mean, self.running_var, self.num_batches_tracked, self.momentum, self.eps)

    def _together(self, x: Tensor, counts: Tensor | None) -> Tensor:
        """Normalise by the statistics of the rows of all processes that share the batch, or of one."""
        count, mean, variance = world.moments(x, counts)
        if count < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


class MLP(nn.Sequential):
    """Linear, batch normalisation, ReLU, linear: (n_rows, before) -> (n_rows, after)."""

    def __init__(self, before: int, hidden: int, after: int) -> None:
        super().__init__(Linear(before, hidden), BatchNorm(hidden), nn.ReLU(), Linear(hidden, after, zeros=True))

    def forward(
        self,
        x: Tensor,
        counts: Tensor | None = None,
        after: tuple[BatchNorm, Steps] | None = None,
        *,
        begun: bool = False,
    ) -> Tensor:
        """Row i stands for `counts[i]` nodes. A normalisation of the result and steps may come after.

        Rows that were `begun` have been multiplied by the first weight already.
        """
        first, norm, last = self.parts
        if not begun and not self.compiled(x, counts, after):
            out: Tensor = last(norm(first(x), counts, Steps(relu=True)))
        elif norm.training:
            maps = (None if begun else first.weight, first.bias), (last.weight, last.bias)
            outer = None if after is None else (after[0].weight, after[0].bias, after[0].state, after[1])
            return perceptron(x, *maps, (norm.weight, norm.bias), counts, norm.state, outer)
        else:
            out = frozen_perceptron(x, (first.weight, first.bias), (last.weight, last.bias), norm.scale_and_shift())
        return out if after is None else after[0](out, counts, after[1])

    def compiled(self, x: Tensor, counts: Tensor | None, after: tuple[BatchNorm, Steps] | None) -> bool:
        """Whether compiled loops can do all of it."""
        first, norm, _ = self.parts
        alike = after is None or after[0].training == norm.training
        return alike and norm.compiled(x, counts) and ours(x, first.weight.T)

    @property
    def parts(self) -> tuple[Linear, BatchNorm, Linear]:
        return cast("tuple[Linear, BatchNorm, Linear]", (self[0], self[1], self[3]))


def mlp(before: int, hidden: int, after: int) -> MLP:
    """Linear, batch normalisation, ReLU, linear."""
    return MLP(before, hidden, after)


class CodeEmbedding(nn.Module):
    """Sum of one learned vector per column: (n, columns) integer codes -> (n, width).

    All columns share one table, so that a row costs a single lookup. Xavier-uniform, column by column.
    """

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(sum(sizes), width))
        for rows in torch.split(self.table.detach(), list(sizes)):
            bound = math.sqrt(6 / (rows.shape[0] + width))
            rows.uniform_(-bound, bound)
        self.starts: Tensor
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.register_buffer("starts", torch.tensor(starts), persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # ONNX has no sums of lookups, and would get a loop over the rows instead
            return self.table[codes + self.starts].sum(1)
        return F.embedding_bag(codes + self.starts, self.table, mode="sum")


def embed_nodes(node: Features, edge: Features, width: int) -> tuple[nn.Module, int]:
    """The input layer and the width it gives.

    Codes are embedded. Floats are embedded when messages must be added to edge features of the same width, and
    otherwise, like constants, go into the first layer as they are.
    """
    if node.kind == "categorical":
        return CodeEmbedding(node.sizes, width), width
    if edge.kind != "none":
        return mlp(node.width, width, width), width
    return nn.Identity(), node.width


def embed_to_width(node: Features, width: int) -> nn.Module:
    """An input layer that always gives the width: codes are embedded, floats and constants pass a linear map."""
    return CodeEmbedding(node.sizes, width) if node.kind == "categorical" else nn.Linear(node.width, width)


def embed_edges(edge: Features, width: int) -> nn.Module | None:
    """What makes (n_edges, width) of what edges carry; None when they carry nothing."""
    if edge.kind == "none":
        return None
    return CodeEmbedding(edge.sizes, width) if edge.kind == "categorical" else nn.Linear(edge.width, width)


class Layered(Encoder):
    """Layers one after the other; after each batch normalisation, ReLU (not after the last of several), dropout."""

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config)
        if embedded:
            self.embed, before = None, config.width
        else:
            self.embed, before = embed_nodes(config.node, config.edge, config.width)
        widths = [before] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(self.layer(w, config.width, config.edge) for w in widths)
        self.norms = nn.ModuleList(BatchNorm(config.width) for _ in widths)
        self.dropout = Dropout(config.dropout)

    def layer(self, before: int, after: int, edge: Features) -> nn.Module:
        """A layer, called with node features, edge_index, the weight of every edge and what the edges carry."""
        raise NotImplementedError

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        h = self.begin(batch, x)
        for number in range(len(self.layers)):
            h = self.round(number, h, batch.edge_index, weight, batch.edge_attr)
        return h

    def round(self, number: int, h: Tensor, edge_index: Tensor, *edges: Tensor | None) -> Tensor:
        """One layer, called with `h`, `edge_index` and `edges`, its normalisation, ReLU and dropout."""
        h = self.norms[number](self.layers[number](h, edge_index, *edges))
        out: Tensor = self.dropout(h.relu() if self.relu_after(number) else h)
        return out

    def relu_after(self, number: int) -> bool:
        """Whether a layer is followed by a ReLU: all but the last of several."""
        return number < len(self.layers) - 1 or len(self.layers) == 1


@dataclass(frozen=True)
class Padded:
    """Graphs of about the same size, padded to the largest of them.

    Attributes:
        chosen: (n_graphs,) bool, which graphs of the batch these g are.
        nodes: (g, n) row of each node in the batch; 0 where there is none.
        present: (g, n) whether there is a node.
    """

    chosen: Tensor
    nodes: Tensor
    present: Tensor


def pad_by_size(ptr: Tensor) -> list[Padded]:
    """All graphs that have nodes, grouped by powers of two of their sizes.

    So a batch costs the sum of its own graphs' squares, up to a factor of four, however unequal they are.

    Args:
        ptr: (n_graphs + 1,) where each graph begins.

    Example:
        >>> [padded.nodes.tolist() for padded in pad_by_size(torch.tensor([0, 1, 4, 4, 8, 9]))]
        [[[0], [8]], [[1, 2, 3, 0], [4, 5, 6, 7]]]
    """
    sizes = ptr.diff()
    bits = int(sizes.max()).bit_length() + 1 if len(sizes) else 0
    groups = ((sizes <= high) & (sizes > high // 2) for high in (1 << power for power in range(bits)))
    return [_pad(ptr, chosen) for chosen in groups if bool(chosen.any())]


def _pad(ptr: Tensor, chosen: Tensor) -> Padded:
    starts, sizes = ptr[:-1][chosen], ptr.diff()[chosen]
    place = torch.arange(int(sizes.max()), device=ptr.device)
    present = place < sizes.unsqueeze(1)
    return Padded(chosen, torch.where(present, starts.unsqueeze(1) + place, 0), present)
