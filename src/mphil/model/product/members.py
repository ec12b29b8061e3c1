"""The members of a committee: several networks, forests and a boosted model, each kept as soon as it is trained."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from mphil.benchmarks.base import Benchmark
from mphil.chem.descriptors import NAME as FEATURES
from mphil.config import NamedArgs, RunConfig
from mphil.errors import MphilError, UsageError
from mphil.files import write_bytes
from mphil.methods.base import METHODS, resolve_hyperparameters
from mphil.model.bundle import Committee, Member
from mphil.model.bundle.members import parse_trees, tree_tensors
from mphil.model.committee.features import MoleculeFeatures
from mphil.model.committee.fitting import fit_trees
from mphil.model.committee.kinds import TREE_KINDS, TREE_NAMES, TREES_FORMAT, TreeKind
from mphil.model.committee.trees import Trees
from mphil.model.product.beside import Beside
from mphil.progress import row_bar
from mphil.training.checkpoint import Checkpoints
from mphil.training.run import Run, execute

_LOG = logging.getLogger(__name__)

BASELINE = "erm"
MOST_MEMBERS = 20


@dataclass(frozen=True, eq=False)
class Trained:
    """A committee whose weights are still equal.

    Attributes:
        committee: who the members are.
        networks: weights by name of the networks but the first, by the name of the member.
        trees: an ensemble for each task, by the name of the member.
        features: of all molecules of the data; None for graphs.
        seconds: of training, of all networks.
    """

    committee: Committee
    networks: dict[str, dict[str, torch.Tensor]]
    trees: dict[str, tuple[Trees, ...]]
    features: MoleculeFeatures | None
    seconds: float


def check_members(members: int) -> None:
    """Refuse a number of networks that makes no committee.

    Raises:
        UsageError: it is below 1 or above `MOST_MEMBERS`.
    """
    if not 1 <= members <= MOST_MEMBERS:
        raise UsageError(
            f"--members {members}: a committee has 1 to {MOST_MEMBERS} networks; for one network alone use --fast"
        )


def network_configs(config: RunConfig, members: int) -> list[RunConfig]:
    """The settings of so many networks: the method and ERM in turn, each time with the next seed.

    Two methods make different mistakes, and the plain one is what people compare with.
    """
    plain = NamedArgs(name=BASELINE, args=resolve_hyperparameters(METHODS[BASELINE], None, {}))
    methods = [config.method] if config.method.name == BASELINE else [config.method, plain]
    rounds = [(number // len(methods), methods[number % len(methods)]) for number in range(members)]
    return [config.model_copy(update={"method": method, "seed": config.seed + turn}) for turn, method in rounds]


def train_members(
    config: RunConfig,
    data: Benchmark,
    features: MoleculeFeatures | None,
    first: Run,
    out: Path | None,
    *,
    members: int,
    rule: str,
    beside: Beside | None = None,
) -> Trained:
    """Train every member but the first network.

    Args:
        config: settings of the first network.
        data: the graphs and their split.
        features: of the molecules; None for graphs, which get no trees.
        first: its run.
        out: folder of the training, in which finished members are found again; None keeps nothing.
        members: networks in all.
        rule: the part that chooses their epochs.
        beside: other processes that train networks meanwhile.
    """
    found, networks = [_member(first, first.config, rule, config)], {}
    trees, grown = {}, []
    if features is not None:
        for kind in TREE_KINDS:
            trees[TREE_NAMES[kind]] = _trees(kind, features, data, config.seed, out)
            grown.append(Member(name=TREE_NAMES[kind], kind=kind, seed=config.seed, weight=0))
    done = {} if beside is None else beside.finish()
    seconds = float(first.result["seconds"])
    for one in network_configs(config, members)[1:]:
        folder = None if out is None else out / folder_name(one, config.seed)
        run = (done.get(folder) if folder else None) or execute(one, data, folder, resume=True)
        member = _member(run, one, rule, config)
        found.append(member)
        networks[member.name] = chosen_weights(run, rule)
        seconds += run.result["seconds"]
    found += grown
    equal = [member.model_copy(update={"weight": 1 / len(found)}) for member in found]
    committee = Committee(features=FEATURES if trees else None, members=tuple(equal))
    return Trained(committee, networks, trees, features, seconds)


def train_trees(
    kind: TreeKind, config: RunConfig, data: Benchmark, features: MoleculeFeatures | None, out: Path | None
) -> Trained:
    """A forest or a boosted model alone.

    Args:
        kind: which.
        config: for its seed.
        data: molecules and their split.
        features: of the molecules.
        out: as for `train_members`.
    """
    assert features is not None
    name = TREE_NAMES[kind]
    trees = {name: _trees(kind, features, data, config.seed, out)}
    member = Member(name=name, kind=kind, seed=config.seed, weight=1)
    return Trained(Committee(features=FEATURES, members=(member,)), {}, trees, features, 0.0)


def folder_name(config: RunConfig, seed: int) -> str:
    """Where the run of a network is kept, beside those with the first seed."""
    return config.method.name if config.seed == seed else f"{config.method.name}-s{config.seed}"


def chosen_weights(run: Run, rule: str) -> dict[str, torch.Tensor]:
    """The weights that a part chose; without a folder, those that the first rule that could choose left."""
    if run.folder is not None:
        run.method.load_state_dict(Checkpoints(run.folder / "checkpoint").load(f"best-{rule}"))
    return run.method.state_dict()


def _member(run: Run, config: RunConfig, rule: str, first: RunConfig) -> Member:
    method, readout = config.method.name, config.encoder.readout
    return Member(
        name=method if config.seed == first.seed else f"{method}, seed {config.seed}",
        kind="network",
        seed=config.seed,
        weight=0,
        method=config.method,
        readout=None if readout == first.encoder.readout else readout,
        epoch=run.result["selections"][rule]["epoch"],
    )


def _trees(
    kind: TreeKind, features: MoleculeFeatures, data: Benchmark, seed: int, out: Path | None
) -> tuple[Trees, ...]:
    """Trees of the training part; what was fitted to the same data before is read again."""
    key = _key(kind, data, seed)
    path = None if out is None else out / f"{kind}.safetensors"
    if path is not None and (stored := _stored(path, key, data)) is not None:
        return stored
    train = data.split.train.numpy()
    _LOG.info("training %s", TREE_NAMES[kind])
    with row_bar(TREE_NAMES[kind], data.task.n_tasks, shown=True) as advance:
        y = data.store.y.double().numpy()[train]
        trees = fit_trees(kind, features.take(train), y, data.task, seed=seed, advance=advance)
    if path is not None:
        write_bytes(path, save(tree_tensors(trees), metadata={"key": key}))
    return trees


def _stored(path: Path, key: str, data: Benchmark) -> tuple[Trees, ...] | None:
    """Trees in a file that were fitted to this data; None when there are none, or the file is of no use."""
    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            return parse_trees({name: file.get_tensor(name) for name in file.keys()}, data.task)  # noqa: SIM118
    except (OSError, SafetensorError, MphilError):
        return None


def _key(kind: TreeKind, data: Benchmark, seed: int) -> str:
    """Hash of all that decides what trees are grown."""
    facts: Sequence[Any] = [TREES_FORMAT, kind, seed, FEATURES, version("scikit-learn"), version("rdkit")]
    identity = [*facts, data.store.digest(), data.split.digest()]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()
