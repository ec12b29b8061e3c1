"""The members of a committee: several networks, forests and a boosted model, each kept as soon as it is trained.

Every network has a folder, and whoever finds a finished run in it goes on from there. A helper process therefore hands
over nothing: when it has ended, for whatever reason, this process carries out the same runs and finds them done, or
does what is missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from mphil.benchmarks.catalogue import Benchmark
from mphil.chem.describe import FEATURES_NAME as FEATURES
from mphil.config import NamedArgs, RunConfig
from mphil.errors import MphilError, UsageError
from mphil.files import write_bytes
from mphil.methods.base import METHODS, resolve_hyperparameters
from mphil.model.bundle import Committee, Member
from mphil.model.bundle.members_file import parse_trees, tree_tensors
from mphil.model.committee.fitting import fit_trees
from mphil.model.committee.trees import TREE_KINDS, TREE_NAMES, TREES_FORMAT, MoleculeFeatures, TreeKind, Trees
from mphil.nn.threads import divided_cores
from mphil.progress import row_bar
from mphil.training.checkpoint import Checkpoints
from mphil.training.run import Run, execute

GRACE_SECONDS = 30.0
"""A helper that is to stop has so long to save before it is killed."""
GLANCE_SECONDS = 0.2

Work = Sequence[tuple[RunConfig, Path]]
"""Runs and their folders."""


@dataclass
class Beside:
    """Runs that several processes take from one queue.

    Attributes:
        work: the runs, at most 256.
        data: what they are trained on.
        queue: descriptor to read the numbers of runs from that nobody has taken, a byte each.
        helpers: the other processes.
        said: the last line that one of them wrote.
    """

    work: Work
    data: Benchmark
    queue: int
    helpers: list[BaseProcess] = field(default_factory=list)
    said: str = ""

    def carry_out(self) -> dict[Path, Run]:
        """Carry out one run after the other until none is left."""
        done = {}
        while number := os.read(self.queue, 1):
            config, folder = self.work[number[0]]
            done[folder] = execute(config, self.data, folder, resume=True)
        return done

    def finish(self) -> dict[Path, Run]:
        """Help with the runs that are left and wait for the helpers; returns the runs of this process by folder."""
        done = self.carry_out()
        console = Console(stderr=True)
        for helper in self.helpers:
            with console.status(self.said) as status:
                while helper.is_alive():
                    helper.join(GLANCE_SECONDS)
                    status.update(self.said)
        return done


@contextmanager
def trained_beside(work: Work, data: Benchmark, processes: int) -> Iterator[Beside]:
    """Begin with runs in other processes, as long as the block runs; `finish` is to be called inside.

    If the block is left by an exception, Ctrl-C for example, the helpers save what they have and end; so they do when
    this process is killed.

    Args:
        work: runs with their folders; those that have a result are left alone.
        data: what they are trained on.
        processes: processes in all. With 1, `finish` does everything.
    """
    work = [(config, folder) for config, folder in work if not (folder / "result.json").exists()]
    forkable = sys.platform == "linux" and all(config.train.device == "cpu" for config, _ in work)
    count = min(processes - 1, len(work)) if forkable else 0
    queue, alive, said = os.pipe(), os.pipe(), os.pipe()
    os.write(queue[1], bytes(range(len(work))))
    os.close(queue[1])
    beside = Beside(work, data, queue[0])
    context = multiprocessing.get_context("fork")
    with divided_cores(count + 1):
        for _ in range(count):
            begun = context.Process(target=_help, args=(beside, alive, said), daemon=True)
            with warnings.catch_warnings():
                # Newer versions of Python warn of threads, which other libraries keep, and which do nothing meanwhile.
                warnings.simplefilter("ignore", DeprecationWarning)
                begun.start()
            beside.helpers.append(begun)
        os.close(said[1])
        listener = threading.Thread(target=_listen, args=(beside, said[0]), daemon=True)
        listener.start()
        try:
            yield beside
        finally:
            os.close(alive[1])
            try:
                for helper in beside.helpers:
                    helper.join(GRACE_SECONDS)
            finally:  # a second Ctrl-C does not wait
                for helper in beside.helpers:
                    helper.kill()
                    helper.join()
                listener.join()
                for reading, _ in (queue, alive, said):
                    os.close(reading)


def _listen(beside: Beside, said: int) -> None:
    """Pass on what helpers write; on a terminal, where bars are drawn, the last line is kept for later."""
    terminal = Console(stderr=True).is_terminal
    with open(said, encoding="utf-8", errors="replace", closefd=False) as lines:
        for line in lines:
            beside.said = line.strip()
            if not terminal:
                sys.stderr.write(line)
                sys.stderr.flush()


def _help(beside: Beside, alive: tuple[int, int], said: tuple[int, int]) -> None:
    """What a helper does, in a session of its own: Ctrl-C on the terminal reaches the first process alone."""
    os.setsid()
    signal.signal(signal.SIGTERM, _interrupt)
    os.close(alive[1])
    os.dup2(said[1], 2)
    logging.disable()  # the first process will say the same
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(alive[0],), daemon=True).start()
    try:
        beside.carry_out()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGTERM)
    except Exception as error:
        sys.stderr.write(f"a process beside this one gave up, and this one takes over ({error})\n")
        sys.exit(1)


def _end_with(alive: int) -> None:
    """Ask for an interrupt, which training holds back until it has saved, when the first process lets go."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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


def network_configs(config: RunConfig, members: int, *, molecules: bool) -> list[RunConfig]:
    """The settings of so many networks: the method and ERM in turn, each time with the next seed.

    Two methods make different mistakes, and the plain one is what people compare with. Of molecules, all but the first
    take descriptors too, if their method can; the first, which is explained and exported, is as it was asked for.
    """
    plain = NamedArgs(name=BASELINE, args=resolve_hyperparameters(METHODS[BASELINE], None, {}))
    methods = [config.method] if config.method.name == BASELINE else [config.method, plain]
    found = [config] if members else []
    for number in range(1, members):
        turn, method = number // len(methods), methods[number % len(methods)]
        if molecules and "descriptors" in method.args:
            method = method.model_copy(update={"args": {**method.args, "descriptors": True}})
        found.append(config.model_copy(update={"method": method, "seed": config.seed + turn}))
    return found


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
    for one in network_configs(config, members, molecules=features is not None)[1:]:
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
    name = config.method.name + ("-descriptors" if config.method.args.get("descriptors") else "")
    return name if config.seed == seed else f"{name}-s{config.seed}"


def chosen_weights(run: Run, rule: str) -> dict[str, torch.Tensor]:
    """The weights that a part chose; without a folder, those that the first rule that could choose left."""
    if run.folder is not None:
        run.method.load_state_dict(Checkpoints(run.folder / "checkpoint").load(f"best-{rule}"))
    return run.method.state_dict()


def _member(run: Run, config: RunConfig, rule: str, first: RunConfig) -> Member:
    name, readout = config.method.name, config.encoder.readout
    if config.method.args.get("descriptors") and not first.method.args.get("descriptors"):
        name += " with descriptors"
    return Member(
        name=name if config.seed == first.seed else f"{name}, seed {config.seed}",
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
