"""The training loop: one for all methods, readable from top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from mphil.benchmarks.base import Benchmark
from mphil.config import TrainConfig
from mphil.data.loader import Loader, derive_seed
from mphil.data.split import PARTS, Part
from mphil.data.store import Batch
from mphil.errors import DataError
from mphil.evaluate.prediction import score_parts
from mphil.evaluate.selection import best_epoch
from mphil.methods.base import Method, Parts, Progress
from mphil.nn import world
from mphil.nn.threads import one_thread
from mphil.training.checkpoint import Checkpoints, flatten_optimizer, restore_optimizer
from mphil.training.distributed import local_device
from mphil.training.interrupt import Interrupt
from mphil.training.memory import kept_memory
from mphil.training.trainable import check_trainable

RULES: tuple[Literal["ood_val", "id_val"], ...] = ("ood_val", "id_val")
"""Both selections are kept and reported side by side."""


class Listener:
    """Somebody who watches training: a progress bar, a log."""

    def batch_done(self, progress: Progress, losses: Mapping[str, float]) -> None:
        """A step has been taken; `progress.step` counts it."""

    def epoch_done(self, history: list[dict[str, Any]], progress: Progress) -> None:
        """An epoch has been scored; the last of `history` is its record."""


@dataclass
class Position:
    """Where the loop stands; with the tensors, all that is needed to go on as if nothing had happened.

    Attributes:
        stage: stages done.
        epoch: epochs done of the present stage.
        batch: batches done of the present epoch.
        step: batches done of the present stage.
        seconds: time spent in all.
        loss_sums: terms of the loss, summed over the batches of the present epoch.
        history: a record of every epoch done of the main stage.
        earlier: a record of every epoch done of the stages before it.
    """

    stage: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    loss_sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Fits a method to the training part of a benchmark: the method's earlier stages, if it has any, then the main one.

    Every random number is a function of (seed, step), the order of graphs of (seed, epoch), so a run that was cut
    anywhere and taken up from its last checkpoint ends with the same bits as one that was not. Several processes share
    every batch and go through the loop side by side (see `training/distributed.py`).

    Args:
        method: what is trained.
        benchmark: on what.
        config: how.
        seed: of everything random in training.
        checkpoints: where to save, and to go on from if there is a checkpoint; without it nothing is written.

    Attributes:
        at: where the loop stands.
        best: weights of the epoch that each selection rule chose so far.
        listeners: who is told what happens.
    """

    def __init__(
        self,
        method: Method,
        benchmark: Benchmark,
        config: TrainConfig,
        seed: int,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        check_trainable(benchmark, config)
        self.benchmark, self.config, self.seed = benchmark, config, seed
        self.device = local_device(config.device)
        self.method, self.checkpoints = method.to(self.device), checkpoints
        world.align(method.state_dict().values())
        self.listeners: list[Listener] = []
        self.loader = Loader(
            benchmark.store, benchmark.split.train, config.batch_size, self.device, (world.rank(), world.size())
        )
        self.parts = Parts(*(self._in_order(part) for part in ("train", "ood_val")))
        self.stages = [(name, math.ceil(share * config.epochs)) for name, share in method.stages().items()]
        self.stages.append(("main", config.epochs))
        rates = method.learning_rates()
        self.optimizers = {
            name: torch.optim.Adam(
                parameters, lr=config.lr * rates.get(name, 1.0), weight_decay=config.weight_decay, fused=True
            )
            for name, parameters in method.param_groups().items()
        }
        self.at = Position()
        self.best: dict[str, dict[str, Tensor]] = {}
        if checkpoints is not None and checkpoints.exists():
            self._restore(checkpoints)

    @property
    def progress(self) -> Progress:
        stage, epochs = self.stages[self.at.stage]
        total = epochs * len(self.loader)
        return Progress(
            step=self.at.step,
            epoch=self.at.epoch,
            total_steps=min(total, self.config.max_steps or total),
            total_epochs=epochs,
            stage=stage,
        )

    def fit(self) -> list[dict[str, Any]]:
        """Train to the end, or until a limit; returns the record of every epoch of the main stage.

        An interrupt (Ctrl-C, SIGTERM) is passed on as soon as the present step is done and saved.
        """
        with Interrupt() as interrupt, kept_memory(), one_thread():
            if not self._finished():
                self._seed("prepare")
                self.method.train()
                self.method.prepare(self.parts)
            while not self._finished():
                self._train_epoch(interrupt)
                self._close_epoch()
                if world.anywhere(interrupt.held):
                    raise KeyboardInterrupt
        return self.at.history

    def evaluate(self, parts: tuple[Part, ...] = PARTS) -> dict[str, float | None]:
        """Score of the present weights on each part; None where a part is empty or has no label to score."""
        return world.from_first(lambda: score_parts(self.method, self.benchmark, self.config.eval_batch_size, parts))

    def load_best(self, rule: str) -> None:
        """Put the weights of the epoch that `rule` chose into the method."""
        self.method.load_state_dict(self.best[rule])

    def _in_order(self, part: Part) -> Loader:
        return Loader(self.benchmark.store, self.benchmark.split[part], self.config.eval_batch_size, self.device)

    def _stage_seed(self) -> int:
        """Every stage has random numbers of its own; those of the main stage do not depend on the ones before."""
        stage = self.progress.stage
        return self.seed if stage == "main" else derive_seed(self.seed, f"stage {stage}")

    def _seed(self, stream: str, number: int = 0) -> None:
        torch.manual_seed(derive_seed(self._stage_seed(), stream, number))

    def _finished(self) -> bool:
        config, at = self.config, self.at
        if at.batch or at.stage < len(self.stages) - 1:
            return False
        if at.step >= self.progress.total_steps:
            return True
        if config.max_minutes and at.seconds >= 60 * config.max_minutes:
            return True
        best = best_epoch(at.history, config.patience_on)
        return bool(config.patience and best is not None and at.epoch - best >= config.patience)

    def _train_epoch(self, interrupt: Interrupt) -> None:
        at = self.at
        started = saved = time.monotonic()
        before = at.seconds
        self.method.train()
        if at.batch == 0:
            self._seed("epoch", at.epoch)
            self.method.begin_epoch(self.parts, self.progress)
        order = self.loader.epoch(self._stage_seed(), at.epoch, start=at.batch)
        for batch in islice(order, self.progress.total_steps - at.step):
            losses = self._train_step(batch)
            for name, value in losses.items():
                at.loss_sums[name] = at.loss_sums.get(name, 0.0) + value
            at.batch += 1
            at.step += 1
            now = time.monotonic()
            at.seconds = before + now - started
            for listener in self.listeners:
                listener.batch_done(self.progress, losses)
            stopping = world.anywhere(interrupt.held)
            if stopping or now - saved > 60 * self.config.checkpoint_minutes:
                self._save({})
                saved = now
            if stopping:
                raise KeyboardInterrupt

    def _train_step(self, batch: Batch) -> dict[str, float]:
        """Move the parameters once, or once per group; returns the terms of the loss."""
        # Different graphs must not get the same dropout.
        self._seed(f"step of rank {world.rank()}" if world.rank() else "step", self.at.step)
        values: dict[str, float] = {}
        for group, losses in self.method.steps(batch, self.progress):
            optimizer = self.optimizers[group]
            parameters = optimizer.param_groups[0]["params"]
            terms = world.total(torch.stack(list(losses.values())).detach())
            values |= dict(zip(losses, terms.tolist(), strict=True))
            if not terms.sum().isfinite():
                raise self._diverged("loss", values)
            optimizer.zero_grad(set_to_none=True)
            losses.total.backward()  # type: ignore[no-untyped-call]
            world.sum_gradients(parameters)
            norm = clip_grad_norm_(parameters, self.config.clip or math.inf)
            if not norm.isfinite():
                raise self._diverged("gradient", values)
            optimizer.step()
        return values

    def _diverged(self, what: str, losses: Mapping[str, float]) -> DataError:
        terms = ", ".join(f"{name} = {value:g}" for name, value in losses.items())
        return DataError(
            f"the {what} is not a finite number at epoch {self.at.epoch + 1}, step {self.at.step + 1} ({terms}); "
            "try a smaller train.lr or a larger temperature; the last checkpoint is untouched"
        )

    def _close_epoch(self) -> None:
        """End an epoch: score it and select, or, before the main stage, see whether the next stage is due."""
        at = self.at
        losses = {name: value / at.batch for name, value in at.loss_sums.items()}
        at.epoch, at.batch, at.loss_sums = at.epoch + 1, 0, {}
        self._save(self._score_epoch(losses) if self.progress.stage == "main" else self._pass_stage(losses))

    def _pass_stage(self, losses: Mapping[str, float]) -> dict[str, Any]:
        """Note an epoch of an earlier stage and, after its last, go on to the next stage."""
        at, progress = self.at, self.progress
        at.earlier.append({"stage": progress.stage, "epoch": at.epoch, "losses": losses, "seconds": at.seconds})
        if at.step >= progress.total_steps:
            started = time.monotonic()
            self._seed("end of stage")
            self.method.end_stage(self.parts, progress)
            at.seconds += time.monotonic() - started
            at.stage, at.epoch, at.step = at.stage + 1, 0, 0
        return {}

    def _score_epoch(self, losses: Mapping[str, float]) -> dict[str, dict[str, Tensor]]:
        """Score the epoch, tell the listeners, and keep the weights if they are the best so far; returns those."""
        at = self.at
        started = time.monotonic()
        scores = self.evaluate(PARTS[1:])
        # One clock for all, or they would not agree on when the time is up.
        at.seconds = world.from_first(lambda: at.seconds + time.monotonic() - started)
        at.history.append(
            {"epoch": at.epoch, "step": at.step, "losses": losses, "scores": scores, "seconds": at.seconds}
        )
        improved = {}
        for rule in RULES:
            if best_epoch(at.history, rule) == at.epoch:
                improved[f"best-{rule}"] = self.best[rule] = {
                    name: tensor.detach().cpu().clone() for name, tensor in self.method.state_dict().items()
                }
        # Told before it is saved: an epoch that is cut in between is done, and told, once more.
        for listener in self.listeners:
            listener.epoch_done(at.history, self.progress)
        return improved

    def _save(self, improved: Mapping[str, Mapping[str, Tensor]]) -> None:
        if self.checkpoints is None:
            return
        state = {f"method.{name}": tensor for name, tensor in self.method.state_dict().items()}
        optimizer_meta = {}
        for group, optimizer in self.optimizers.items():
            tensors, optimizer_meta[group] = flatten_optimizer(optimizer)
            state |= {f"optimizer.{group}.{name}": tensor for name, tensor in tensors.items()}
        self.checkpoints.write({"state": state, **improved}, {"at": asdict(self.at), "optimizers": optimizer_meta})

    def _restore(self, checkpoints: Checkpoints) -> None:
        meta, state = checkpoints.meta(), checkpoints.load("state")
        self.at = Position(**meta["at"])
        self.method.load_state_dict(_under("method.", state))
        for group, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, _under(f"optimizer.{group}.", state), meta["optimizers"][group])
        self.best = {r: checkpoints.load(f"best-{r}") for r in RULES if f"best-{r}" in checkpoints.groups()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
