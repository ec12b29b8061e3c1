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
from mphil.errors import DataError
from mphil.evaluate.prediction import score_parts
from mphil.evaluate.selection import best_epoch
from mphil.methods.base import Method, Progress
from mphil.training.checkpoint import Checkpoints, flatten_optimizer, restore_optimizer
from mphil.training.interrupt import Interrupt
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
        epoch: epochs done.
        batch: batches done of the present epoch.
        step: batches done in all.
        seconds: time spent on them.
        loss_sums: terms of the loss, summed over the batches of the present epoch.
        history: a record of every epoch done.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    loss_sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """Fits a method to the training part of a benchmark.

    Every random number is a function of (seed, step), the order of graphs of (seed, epoch), so a run that was cut
    anywhere and taken up from its last checkpoint ends with the same bits as one that was not.

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
        torch.set_num_threads(config.threads)
        self.method, self.benchmark, self.config, self.seed = method.to(config.device), benchmark, config, seed
        self.checkpoints = checkpoints
        self.listeners: list[Listener] = []
        self.loader = Loader(benchmark.store, benchmark.split.train, config.batch_size)
        self.optimizers = {
            name: torch.optim.Adam(parameters, lr=config.lr, weight_decay=config.weight_decay, fused=True)
            for name, parameters in method.param_groups().items()
        }
        self.at = Position()
        self.best: dict[str, dict[str, Tensor]] = {}
        if checkpoints is not None and checkpoints.exists():
            self._restore(checkpoints)

    @property
    def progress(self) -> Progress:
        total = self.config.epochs * len(self.loader)
        return Progress(
            step=self.at.step,
            epoch=self.at.epoch,
            total_steps=min(total, self.config.max_steps or total),
            total_epochs=self.config.epochs,
        )

    def fit(self) -> list[dict[str, Any]]:
        """Train to the end, or until a limit; returns the record of every epoch.

        An interrupt (Ctrl-C, SIGTERM) is passed on as soon as the present step is done and saved.
        """
        with Interrupt() as interrupt:
            while not self._finished():
                self._train_epoch(interrupt)
                self._close_epoch()
                interrupt.strike()
        return self.at.history

    def evaluate(self, parts: tuple[Part, ...] = PARTS) -> dict[str, float | None]:
        """Score of the present weights on each part; None where a part is empty or has no label to score."""
        return score_parts(self.method, self.benchmark, self.config.eval_batch_size, parts)

    def load_best(self, rule: str) -> None:
        """Put the weights of the epoch that `rule` chose into the method."""
        self.method.load_state_dict(self.best[rule])

    def _finished(self) -> bool:
        config, at = self.config, self.at
        if at.batch:
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
            torch.manual_seed(derive_seed(self.seed, "epoch", at.epoch))
            in_order = Loader(self.loader.store, self.loader.graphs, self.config.eval_batch_size)
            self.method.begin_epoch((batch.to(self.config.device) for batch in in_order), self.progress)
        for batch in islice(
            self.loader.epoch(self.seed, at.epoch, start=at.batch), self.progress.total_steps - at.step
        ):
            losses = self._train_step(batch.to(self.config.device))
            for name, value in losses.items():
                at.loss_sums[name] = at.loss_sums.get(name, 0.0) + value
            at.batch += 1
            at.step += 1
            now = time.monotonic()
            at.seconds = before + now - started
            for listener in self.listeners:
                listener.batch_done(self.progress, losses)
            if interrupt.held or now - saved > 60 * self.config.checkpoint_minutes:
                self._save({})
                saved = now
            interrupt.strike()

    def _train_step(self, batch: Any) -> dict[str, float]:
        """Move the parameters once, or once per group; returns the terms of the loss."""
        torch.manual_seed(derive_seed(self.seed, "step", self.at.step))
        values: dict[str, float] = {}
        for group, losses in self.method.steps(batch, self.progress):
            optimizer, total = self.optimizers[group], losses.total
            values |= {name: float(term.detach()) for name, term in losses.items()}
            if not total.isfinite():
                raise self._diverged("loss", values)
            optimizer.zero_grad(set_to_none=True)
            total.backward()  # type: ignore[no-untyped-call]
            norm = clip_grad_norm_(optimizer.param_groups[0]["params"], self.config.clip or math.inf)
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
        """Evaluate, note, keep the weights if they are the best so far, save."""
        at = self.at
        started = time.monotonic()
        scores = self.evaluate(PARTS[1:])
        at.seconds += time.monotonic() - started
        losses = {name: value / at.batch for name, value in at.loss_sums.items()}
        at.epoch, at.batch, at.loss_sums = at.epoch + 1, 0, {}
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
        self._save(improved)

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
