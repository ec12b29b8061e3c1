"""The five parts of a benchmark and where they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from mphil.errors import DataError

Part = Literal["train", "id_val", "id_test", "ood_val", "ood_test"]
PARTS: tuple[Part, ...] = get_args(Part)
TESTS: tuple[Part, ...] = ("id_test", "ood_test")


@dataclass(frozen=True, eq=False)
class Split:
    """Which graph is in which part; no graph is in two.

    A part may be empty (a no-shift split has no `id_val`), except `train`.

    Attributes:
        train, id_val, id_test, ood_val, ood_test: positions of graphs in their store.
        provenance: how the split was made: rule, seed, source.
    """

    train: Tensor
    id_val: Tensor
    id_test: Tensor
    ood_val: Tensor
    ood_test: Tensor
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.train):
            raise DataError("the training part is empty")
        for part, graphs in self:
            if graphs.dtype != torch.long or graphs.dim() != 1:
                raise DataError(
                    f"{part} must be a vector of integers (int64), not {graphs.dtype} of {graphs.dim()} axes"
                )
            if len(graphs) and graphs.min() < 0:
                raise DataError(f"{part} has the negative position {int(graphs.min())}; positions count from 0")
        positions = torch.cat([graphs for _, graphs in self]).sort().values
        repeated = positions[1:][positions.diff() == 0]
        if len(repeated):
            graph = int(repeated[0])
            owners = [part for part, graphs in self for _ in range(int((graphs == graph).sum()))]
            raise DataError(f"graph {graph} is in {' and in '.join(owners)}; a graph belongs to one part, once")

    def __iter__(self) -> Iterator[tuple[Part, Tensor]]:
        return ((part, self[part]) for part in PARTS)

    def __getitem__(self, part: Part) -> Tensor:
        graphs: Tensor = getattr(self, part)
        return graphs

    @property
    def sizes(self) -> dict[Part, int]:
        return {part: len(graphs) for part, graphs in self}

    def digest(self) -> str:
        """Hash of the parts and their provenance."""
        sha = hashlib.sha256(json.dumps(dict(self.provenance), sort_keys=True).encode())
        for part, graphs in self:
            sha.update(f"{part}:{len(graphs)}:".encode() + graphs.numpy().astype("<i8").tobytes())
        return sha.hexdigest()
