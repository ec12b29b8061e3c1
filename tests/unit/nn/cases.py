"""Random inputs of the functions on the sphere, and how results are compared with the written-out ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from mphil.methods import mphil_assignment as assignment
from mphil.nn import sphere
from mphil.nn.losses import one_hot

quick = settings(max_examples=15, deadline=None, derandomize=True)


@dataclass
class Case:
    """Random inputs of all functions: B graphs, T tasks, C classes, K prototypes, p coordinates, n weights kept."""

    B: int
    T: int
    C: int
    K: int
    p: int
    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        draw = torch.Generator().manual_seed(self.seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.z = sphere.unit(normal(self.B, self.p))
        self.M = sphere.unit(normal(self.T, self.C, self.K, self.p))
        self.W_Q, self.W_K = 3 * normal(self.p + 1, self.p), 3 * normal(self.p + 1, self.p)
        self.y = torch.randint(self.C, (self.B, self.T), generator=draw).double()
        self.y[torch.rand(self.B, self.T, generator=draw) < 0.3] = math.nan
        self.membership = one_hot(self.y, self.C)
        self.log_weights = assignment.prune(normal(self.B, self.T, self.C, self.K).log_softmax(-1), self.n)
        self.tau = 0.05 + torch.rand(1, generator=draw).item()


@st.composite
def cases(draw) -> Case:
    K = draw(st.integers(1, 4))
    return Case(
        B=draw(st.integers(1, 5)),
        T=draw(st.integers(1, 3)),
        C=draw(st.integers(2, 4)),
        K=K,
        p=draw(st.integers(2, 5)),
        n=draw(st.integers(1, K)),
        seed=draw(st.integers(0, 999)),
    )


SMALL = Case(B=3, T=2, C=2, K=3, p=2, n=2, seed=5)
SINGLE = Case(B=2, T=1, C=3, K=1, p=3, n=1, seed=6)


def same(found: Tensor, expected: object) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def leaf(tensor: Tensor) -> Tensor:
    return tensor.clone().requires_grad_()
