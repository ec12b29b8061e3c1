"""Several processes that train one model, without torchrun: started in no time, and each returns what it found."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from mphil.benchmarks.catalogue import Benchmark
from mphil.config import TrainConfig
from mphil.graphs.loader import derive_seed
from mphil.graphs.split import Split
from mphil.methods.base import METHODS, build_method
from mphil.task import Kind
from mphil.training.callbacks import Callback
from mphil.training.distributed import SharedCheckpoints, joined
from mphil.training.trainer import Trainer
from tests.command import PATIENCE
from tests.graphs import TASKS, random_store, small_encoder

# A server that has imported everything, has never computed, and forks for each process.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "torch._dynamo"])
list(METHODS)


def together(work: Callable[..., Any], *arguments: Any, ranks: int = 2) -> list[Any]:
    """What `work(*arguments)` returns, or raises, on each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ends, processes = [], []
    for rank in range(ranks):
        mine, theirs = _CONTEXT.Pipe()
        processes.append(_CONTEXT.Process(target=_be, args=(theirs, rank, ranks, port, work, arguments), daemon=True))
        processes[-1].start()
        theirs.close()
        ends.append(mine)
    try:
        found = []
        for end in ends:
            assert end.poll(PATIENCE), "a process hangs"
            found.append(pickle.loads(end.recv_bytes()))
        return found
    finally:
        for process in processes:
            process.kill()
            process.join()


def _be(end: Any, rank: int, ranks: int, port: int, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": "test"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    try:
        with joined("cpu"):
            found = work(*arguments)
    except BaseException as error:
        found = error
    # Not by `send`, which would share the memory of tensors with a process that is about to end.
    end.send_bytes(pickle.dumps(found))


class Recorder(Callback):
    """Keeps the losses of every step, and the prototypes after it, if there are any."""

    def __init__(self, method: torch.nn.Module) -> None:
        self.method = method
        self.losses: list[dict[str, float]] = []
        self.prototypes: list[torch.Tensor] = []

    def on_step(self, progress: Any, losses: Any) -> None:
        self.losses.append(dict(losses))
        if hasattr(self.method, "prototypes"):
            self.prototypes.append(self.method.prototypes.detach().clone())


def double_benchmark(kind: Kind, **store: Any) -> Benchmark:
    """Random graphs in double precision: 37 for training, 6 in each of the other parts."""
    graphs = random_store(kind, graphs=61, **store)
    floats = {
        name: value.double()
        for name in ("x", "edge_attr")
        if (value := getattr(graphs, name)) is not None and value.is_floating_point()
    }
    parts = torch.arange(61).split([37, 6, 6, 6, 6])
    return Benchmark(task=TASKS[kind], store=replace(graphs, **floats), split=Split(*parts))


def trainer_of(method: str, args: dict, kind: str, store: dict, encoder: dict, folder=None, **config: Any) -> Trainer:
    """In double precision; 4 batches an epoch, the last of a single graph."""
    torch.set_default_dtype(torch.float64)
    data = double_benchmark(kind, **store)
    torch.manual_seed(derive_seed(0, "weights"))
    built = build_method(method, data.task, small_encoder(data.store, **encoder), args)
    config = TrainConfig(**{"epochs": 2, "batch_size": 12, "checkpoint_minutes": 0, "lr": 0.01} | config)
    trainer = Trainer(built, data, config, 0, None if folder is None else SharedCheckpoints(folder))
    trainer.callbacks.append(Recorder(built))
    return trainer


def outcome(trainer: Trainer) -> dict[str, Any]:
    """What a run leaves."""
    (recorder,) = [callback for callback in trainer.callbacks if isinstance(callback, Recorder)]
    return {
        "losses": recorder.losses,
        "prototypes": recorder.prototypes,
        "state": trainer.method.state_dict(),
        "best": trainer.best,
        "history": trainer.at.history,
    }


def train(*arguments: Any, **config: Any) -> dict[str, Any]:
    trainer = trainer_of(*arguments, **config)
    trainer.fit()
    return outcome(trainer)
