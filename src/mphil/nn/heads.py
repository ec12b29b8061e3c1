"""Small networks at the end of a method: from the vector of a graph to logits."""

from __future__ import annotations

from typing import Literal

from torch import nn

from mphil.nn.dropout import Dropout
from mphil.nn.encoders.blocks import BatchNorm

Head = Literal["linear", "mlp"]


def perceptron(before: int, hidden: int, after: int, dropout: float) -> nn.Sequential:
    """Linear, batch normalisation, ReLU, dropout, linear: (n, before) -> (n, after)."""
    return nn.Sequential(
        nn.Linear(before, hidden), BatchNorm(hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, after)
    )


def two_layers(width: int, outputs: int) -> nn.Sequential:
    """A hidden layer with ReLU, twice as wide as the input, and a linear one: (n, width) -> (n, outputs)."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))


def three_layers(width: int, outputs: int) -> nn.Sequential:
    """Two hidden layers with ReLU, as wide as the input, and a linear one: (n, width) -> (n, outputs)."""
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def classifier(kind: Head, width: int, outputs: int, dropout: float) -> nn.Module:
    """A linear map, or a perceptron with a hidden layer of twice the width: (n, width) -> (n, outputs)."""
    return nn.Linear(width, outputs) if kind == "linear" else perceptron(width, 2 * width, outputs, dropout)
