"""The members of a committee beside its first network, as one file of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor

from mphil.chem.describe import FEATURES
from mphil.errors import IntegrityError
from mphil.model.bundle.contents import Committee
from mphil.model.committee.trees import Trees
from mphil.task import Task

Networks = Mapping[str, Mapping[str, Tensor]]
Ensembles = Mapping[str, tuple[Trees, ...]]

BEHIND = "/"
"""Stands between the number of a member, or of a task, and what belongs to it."""


def render_members(networks: Networks, trees: Ensembles) -> bytes:
    """Weights are called `network/MEMBER/WEIGHT`, arrays of trees `trees/MEMBER/TASK/ARRAY`; members by number."""
    tensors = {
        BEHIND.join(("network", str(number), name)): tensor.detach().cpu().contiguous().clone()
        for number, state in enumerate(networks.values())
        for name, tensor in state.items()
    }
    for number, ensembles in enumerate(trees.values()):
        tensors |= tree_tensors(ensembles, BEHIND.join(("trees", str(number), "")))
    return render_tensors(tensors)


def parse_members(
    data: bytes, committee: Committee, task: Task
) -> tuple[dict[str, dict[str, Tensor]], dict[str, tuple[Trees, ...]]]:
    """What `render_members` wrote, the trees checked.

    Raises:
        IntegrityError: it does not hold the members of this committee.
        SafetensorError: it is no file of tensors.
    """
    tensors = parse_tensors(data)
    further = committee.members[committee.members[0].kind == "network" :]
    networks, trees = {}, {}
    for number, member in enumerate(one for one in further if one.kind == "network"):
        networks[member.name] = _below(tensors, BEHIND.join(("network", str(number), "")))
    for number, member in enumerate(one for one in further if one.kind != "network"):
        found = _below(tensors, BEHIND.join(("trees", str(number), "")))
        trees[member.name] = parse_trees(found, task)
    if tensors:
        raise IntegrityError(f"{next(iter(tensors))[:60]!r} belongs to no member")
    return networks, trees


def tree_tensors(ensembles: tuple[Trees, ...], prefix: str = "") -> dict[str, Tensor]:
    """The arrays of an ensemble for each task, as `TASK/ARRAY`."""
    return {
        f"{prefix}{number}{BEHIND}{name}": torch.from_numpy(np.ascontiguousarray(array))
        for number, one in enumerate(ensembles)
        for name, array in one.arrays().items()
    }


def parse_trees(tensors: dict[str, Tensor], task: Task) -> tuple[Trees, ...]:
    """What `tree_tensors` gave, checked; the tensors are taken out of the dictionary.

    Raises:
        IntegrityError: they are not an ensemble for each task.
    """
    found = []
    for number in range(task.n_tasks):
        arrays: dict[str, NDArray[Any]] = {
            name: tensor.numpy() for name, tensor in _below(tensors, f"{number}{BEHIND}").items()
        }
        one = Trees.from_arrays(arrays, FEATURES)
        if task.kind == "regression":
            if len(one.classes) or len(one.base) != 1 or one.link != "identity":
                raise IntegrityError("the trees of a regression have classes")
        elif not len(one.classes) or (one.classes >= task.n_classes).any():
            raise IntegrityError("the classes of the trees are not those of the task")
        found.append(one)
    if tensors:
        raise IntegrityError(f"{next(iter(tensors))[:60]!r} belongs to no task")
    return tuple(found)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin so, without the beginning; they are taken out."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}
