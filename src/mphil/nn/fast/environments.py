"""Nodes that look alike are computed once.

What a layer gives for a node depends on nothing but the node, its neighbours and the bonds between them, as far away
as there have been layers. Nodes that agree in all of this (colour refinement: Weisfeiler and Leman, 1968) form a class,
and one row for each class is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mphil.errors import DataError
from mphil.nn.fast.library import status

WORTHWHILE = 0.9
"""Classes are used as long as there are at most so many for each node."""


@dataclass(frozen=True)
class Wiring:
    """Which rows a layer takes and which it gives.

    Attributes:
        source: (n_edges,) the row taken that speaks.
        target: (n_edges,) the row given that listens.
        bonds: (n_bonds, columns) what bonds carry, or None.
        code: (n_edges,) the row of `bonds` of each edge; row e for edge e when None.
        own: (n_given,) the row taken that each row given begins with; row r for row r when None.
        counts: (n_given,) how many nodes a row given stands for; one each when None.
        expand: (n_nodes,) the row given of each node, when what follows needs nodes; None when rows go on as they are.
    """

    source: Tensor
    target: Tensor
    bonds: Tensor | None = None
    code: Tensor | None = None
    own: Tensor | None = None
    counts: Tensor | None = None
    expand: Tensor | None = None


def every_code(sizes: Sequence[int]) -> Tensor:
    """All combinations of codes, in the order of their numbers: (n_combinations, columns)."""
    # On the CPU even where a model is built without memory: the device `meta` would import a compiler for it.
    return torch.cartesian_prod(*(torch.arange(size, device="cpu") for size in sizes)).view(-1, len(sizes))


def number_codes(codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """A number for every combination of codes: (n, columns) -> (n,), its row in `every_code`.

    Example:
        >>> number_codes(torch.tensor([[0, 2], [1, 0]]), (2, 3)).tolist()
        [2, 3]
    """
    number = codes[:, 0]
    for column, size in enumerate(sizes[1:], start=1):
        number = number * size + codes[:, column]
    return number


def countable(sizes: Sequence[int], most: int) -> bool:
    """Whether there are codes, and at most so many combinations of them."""
    return len(sizes) > 0 and math.prod(sizes) <= most


def share_wiring(x: Tensor, nodes: Wiring, depth: int) -> tuple[Tensor, Tensor, list[Wiring]] | None:
    """Wirings of the first layers, one row for each class of nodes that look alike; None when that does not pay.

    Args:
        x: (n_nodes, columns) what nodes carry.
        nodes: the wiring of a layer that computes every node.
        depth: layers that may work on classes.

    Returns:
        (n_kinds,) a node of each kind, whose features are the rows the first layer takes; (n_kinds,) how many nodes
        are of it; one wiring for each layer that works on classes, the last of which gives nodes.
    """
    colour, first = kinds(x)
    counts = colour.bincount(minlength=len(first))
    wirings: list[Wiring] = []
    while len(wirings) < depth:
        label, chosen = classes(colour, nodes.source, nodes.target, nodes.code)
        if len(chosen) > WORTHWHILE * len(label):
            break
        heard = (chosen[label[nodes.target]] == nodes.target).nonzero().squeeze(1)
        wirings.append(
            Wiring(
                source=colour[nodes.source[heard]],
                target=label[nodes.target[heard]],
                bonds=nodes.bonds,
                code=None if nodes.code is None else nodes.code[heard],
                own=colour[chosen],
                counts=label.bincount(minlength=len(chosen)),
            )
        )
        colour = label
    if not wirings:
        return None
    return first, counts, [*wirings[:-1], replace(wirings[-1], expand=colour)]


def kinds(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that agree in every bit are of one kind: (n, columns) -> (n,) kind of each, and (n_kinds,) a row of each.

    Example:
        >>> [part.tolist() for part in kinds(torch.tensor([[0.5, 1.0], [2.0, 1.0], [0.5, 1.0]]))]
        [[0, 1, 0], [0, 1]]
    """
    rows = rows.contiguous()
    kind, first = (torch.empty(len(rows), dtype=torch.long) for _ in range(2))
    library = status().library
    assert library is not None
    found = library.kinds(kind=kind, first=first, row=rows, rows=len(rows), bytes=rows.shape[1] * rows.element_size())
    if found < 0:
        raise MemoryError("no room for the table of kinds")
    return kind, first[:found].clone()


def classes(colour: Tensor, source: Tensor, target: Tensor, code: Tensor | None) -> tuple[Tensor, Tensor]:
    """Nodes with the same colour and the same multiset of (bond, neighbour's colour) share a class.

    Args:
        colour: (n_nodes,) int64, not negative.
        source: (n_edges,) where each edge begins.
        target: (n_edges,) where it ends.
        code: (n_edges,) kind of bond, not negative; all alike when None.

    Returns:
        (n_nodes,) class of each node, and (n_classes,) the first node of each class.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> [part.tolist() for part in classes(torch.zeros(3, dtype=torch.long), *path, None)]
        [[0, 1, 0], [0, 1]]
    """
    label, first = torch.empty_like(colour), torch.empty_like(colour)
    library = status().library
    assert library is not None
    found = library.classes(
        label=label,
        first=first,
        colour=colour.contiguous(),
        source=source.contiguous(),
        target=target.contiguous(),
        code=None if code is None else code.contiguous(),
        nodes=len(colour),
        edges=len(source),
    )
    if found < 0:
        raise DataError("an edge joins nodes, or has a code, that do not exist; check edge_index and edge_attr")
    return label, first[:found].clone()
