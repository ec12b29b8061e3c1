"""The training loop: one for all methods, readable from top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from itertools import islice
from time import process_time
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from mphil.benchmarks.catalogue import Benchmark
from mphil.config import SelectionRule, TrainConfig
from mphil.errors import DataError
from mphil.graphs.loader import Loader, derive_seed
from mphil.graphs.split import PARTS, TESTS, Part
from mphil.graphs.store import GraphBatch
from mphil.graphs.transforms import add_distractors, drop_edges, mix_features
from mphil.methods.base import Method, Parts, Progress
from mphil.nn import world
from mphil.nn.threads import loop_threads, one_thread, shared_loops
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints, Position, flatten_optimizer, restore_optimizer
from mphil.training.distributed import local_device
from mphil.training.metrics import best_epoch, score_parts
from mphil.training.process import Interrupt, kept_memory
from mphil.training.recipe import BATCHES, Average, learning_rate_factor, put_back, renormalise
from mphil.training.trainable import check_accumulation, check_trainable

RULES: tuple[SelectionRule, ...] = get_args(SelectionRule)
"""Both selections are kept and reported side by side."""
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class Trainer:
    """Fits a method to the training part of a benchmark: the method's earlier stages, if it has any, then the main one.

    Every random number is a function of (seed, step), the order of graphs of (seed, epoch), so a run that was cut
    anywhere and taken up from its last checkpoint ends with the same bits as one that was not. Several processes share
    every batch and go through the loop side by side (see `training/process.py`).

    Args:
        method: what is trained.
        benchmark: on what.
        config: how.
        seed: of everything random in training.
        checkpoints: where to save, and to go on from if there is a checkpoint; without it nothing is written.

    Attributes:
        at: where the loop stands.
        best: weights of the epoch that each selection rule chose so far.
        callbacks: who is told what happens.
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
        check_accumulation(type(method), config)
        self.benchmark, self.config, self.seed = benchmark, config, seed
        self.device = local_device(config.device)
        self.method, self.checkpoints = method.to(self.device), checkpoints
        world.align(method.state_dict().values())
        self.callbacks: list[Callback] = []
        self.loader = Loader(
            benchmark.store,
            benchmark.split.train,
            config.batch_size,
            self.device,
            (world.rank(), world.size()),
            config.env_per_batch or 0,
        )
        self.parts = Parts(*(self._in_order(part) for part in ("train", "ood_val")))
        self.stages = [(name, math.ceil(share * config.epochs)) for name, share in method.stages().items()]
        self.stages.append(("main", config.epochs))
        groups, rates = method.param_groups(), method.learning_rates()
        self.rates = {name: config.lr * rates.get(name, 1.0) for name in groups}
        self.optimizers = {
            name: OPTIMIZERS[config.optimizer](
                parameters, lr=self.rates[name], weight_decay=config.weight_decay, fused=True
            )
            for name, parameters in groups.items()
        }
        self.average: Average | None = None
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

        The method is left with the weights that were scored in the last epoch.
        An interrupt (Ctrl-C, SIGTERM) is passed on as soon as the present step is done and saved.
        """
        self._cpu_clock = process_time()
        with Interrupt() as interrupt, kept_memory(), one_thread(), self._threads():
            if not self._finished():
                self._seed("prepare")
                self.method.train()
                self.method.prepare(self.parts)
            while not self._finished():
                self._train_epoch(interrupt)
                self._close_epoch()
                if world.anywhere(interrupt.held):
                    interrupt.strike()
                    raise KeyboardInterrupt
            self._settle()
        return self.at.history

    def evaluate(self, parts: tuple[Part, ...] = PARTS) -> dict[str, float | None]:
        """Score of the present weights on each part; None where it has no label to score or is not to be scored."""
        scored = tuple(part for part in parts if self.config.scored == "all" or part not in TESTS)
        with self._threads():
            found = world.from_first(
                lambda: score_parts(self.method, self.benchmark, self.config.eval_batch_size, scored)
            )
        return {part: found.get(part) for part in parts}

    def load_best(self, rule: str) -> None:
        """Put the weights of the epoch that `rule` chose into the method."""
        self.method.load_state_dict(self.best[rule])

    def best_epoch(self, rule: SelectionRule) -> int | None:
        """The epoch that `rule` chose so far."""
        lower = self.benchmark.task.lower_is_better
        return best_epoch(self.at.history, rule, self.config.window, self.config.min_epochs, lower=lower)

    def _threads(self) -> AbstractContextManager[None]:
        """The compiled loops share their work among the threads of the settings inside."""
        return shared_loops(loop_threads(self.config.threads), next(self.method.parameters()))

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
        if at.epoch < max(config.window, config.min_epochs):
            return False
        if config.max_minutes and at.seconds >= 60 * config.max_minutes:
            return True
        best = self.best_epoch(config.patience_on)
        return bool(config.patience and best is not None and at.epoch - best >= config.patience)

    def _train_epoch(self, interrupt: Interrupt) -> None:
        at = self.at
        started = saved = time.monotonic()
        before = at.seconds
        self.method.train()
        if at.batch == 0:
            self._seed("epoch", at.epoch)
            self.method.begin_epoch(self.parts, self.progress)
        if self.config.average and at.step == 0 and self.progress.stage == "main":
            self.average = Average(self.method, self.config.average)
        order = self.loader.epoch(self._stage_seed(), at.epoch, start=at.batch)
        for batch in islice(order, self.progress.total_steps - at.step):
            due = self._step_is_due()
            losses = self._train_step(batch, due)
            for name, value in losses.items():
                at.loss_sums[name] = at.loss_sums.get(name, 0.0) + value
            at.batch += 1
            at.step += 1
            now = time.monotonic()
            at.seconds = before + now - started
            for callback in self.callbacks:
                callback.on_step(self.progress, losses)
            if not due:  # gradients are not saved: what was begun is finished first
                continue
            stopping = world.anywhere(interrupt.held)
            if stopping or now - saved > 60 * self.config.checkpoint_minutes:
                self._save({})
                saved = now
            if stopping:
                interrupt.strike()
                raise KeyboardInterrupt

    def _step_is_due(self) -> bool:
        """Whether the next batch completes those of a step of the optimiser; the rest of an epoch is a step too."""
        at, batch = self.at, self.at.batch + 1
        return (
            batch % self.config.accumulate == 0 or batch == len(self.loader) or at.step + 1 == self.progress.total_steps
        )

    def _train_step(self, batch: GraphBatch, due: bool) -> dict[str, float]:
        """Add the gradients of a batch and, if a step is due, move the parameters; returns the terms of the loss."""
        if self.config.edge_drop:
            seed = derive_seed(self._stage_seed(), _of_rank("edges"), self.at.step)
            batch = drop_edges(batch, self.config.edge_drop, torch.Generator().manual_seed(seed))
        if self.config.distract:
            seed = derive_seed(self._stage_seed(), _of_rank("distractors"), self.at.step)
            batch = add_distractors(batch, self.config.distract, torch.Generator().manual_seed(seed))
        if self.config.mix_features:
            seed = derive_seed(self._stage_seed(), _of_rank("features"), self.at.step)
            batch = mix_features(batch, self.config.mix_features, torch.Generator().manual_seed(seed))
        # Different graphs must not get the same dropout.
        self._seed(_of_rank("step"), self.at.step)
        values: dict[str, float] = {}
        for group, losses in self.method.steps(batch, self.progress):
            terms = world.total(torch.stack(list(losses.values())).detach())
            values |= dict(zip(losses, terms.tolist(), strict=True))
            if not terms.sum().isfinite():
                raise self._diverged("loss", values)
            if self.at.batch % self.config.accumulate == 0:
                self.optimizers[group].zero_grad(set_to_none=True)
            losses.total.backward()  # type: ignore[no-untyped-call]
            if due:
                self._move(group, values)
        if due:
            self.at.updates += 1
            if self.average is not None:
                self.average.update(self.method, self.at.updates)
        return values

    def _move(self, group: str, losses: Mapping[str, float]) -> None:
        """Move the parameters of a group by the mean gradient of the batches since the last step."""
        optimizer = self.optimizers[group]
        parameters = optimizer.param_groups[0]["params"]
        world.sum_gradients(parameters)
        batches = self.at.batch % self.config.accumulate + 1
        for parameter in parameters if batches > 1 else ():
            if parameter.grad is not None:
                parameter.grad.div_(batches)
        norm = clip_grad_norm_(parameters, self.config.clip or math.inf)
        if not norm.isfinite():
            raise self._diverged("gradient", losses)
        optimizer.param_groups[0]["lr"] = self.rates[group] * learning_rate_factor(self.progress, self.config)
        optimizer.step()

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
            at.stage, at.epoch, at.step, at.updates = at.stage + 1, 0, 0, 0
        return {}

    def _score_epoch(self, losses: Mapping[str, float]) -> dict[str, dict[str, Tensor]]:
        """Score the epoch, tell the callbacks, and keep the weights if they are the best so far; returns those."""
        at = self.at
        started = time.monotonic()
        improved = {}
        with self._settled():
            scores = self.evaluate(PARTS[1:])
            # One clock for all, or they would not agree on when the time is up.
            at.seconds = world.from_first(lambda: at.seconds + time.monotonic() - started)
            at.history.append(
                {"epoch": at.epoch, "step": at.step, "losses": losses, "scores": scores, "seconds": at.seconds}
            )
            for rule in RULES:
                if self.best_epoch(rule) == at.epoch:
                    improved[f"best-{rule}"] = self.best[rule] = {
                        name: tensor.detach().cpu().clone() for name, tensor in self.method.state_dict().items()
                    }
        # Told before it is saved: an epoch that is cut in between is done, and told, once more.
        for callback in self.callbacks:
            callback.on_epoch(at.history, self.progress)
        return improved

    def _settle(self) -> None:
        """Make the weights of training those that are scored: their average, with BatchNorm statistics of its own."""
        if self.average is not None:
            self.average.write_to(self.method)
        if self.average is not None or self.config.renormalise:
            order = self.loader.epoch(derive_seed(self.seed, "renormalise"), 0)
            renormalise(self.method, self._transformed(islice(order, BATCHES)))

    def _transformed(self, batches: Iterable[GraphBatch]) -> Iterator[GraphBatch]:
        """Statistics of graphs alone would be far from those that the weights were trained with.

        Dropped edges shift them less, and are left out, as the numerics have always had it.
        """
        generator = torch.Generator().manual_seed(derive_seed(self.seed, _of_rank("distractors of statistics")))
        for batch in batches:
            if self.config.distract:
                batch = add_distractors(batch, self.config.distract, generator)
            if self.config.mix_features:
                batch = mix_features(batch, self.config.mix_features, generator)
            yield batch

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """The weights that are scored, inside; those of training again, afterwards."""
        if self.average is None and not self.config.renormalise:
            yield
            return
        with put_back(self.method):
            self._settle()
            yield

    def _save(self, improved: Mapping[str, Mapping[str, Tensor]]) -> None:
        now = process_time()
        self.at.cpu_seconds, self._cpu_clock = self.at.cpu_seconds + now - self._cpu_clock, now
        if self.checkpoints is None:
            return
        state = {f"method.{name}": tensor for name, tensor in self.method.state_dict().items()}
        optimizer_meta = {}
        for group, optimizer in self.optimizers.items():
            tensors, optimizer_meta[group] = flatten_optimizer(optimizer)
            state |= {f"optimizer.{group}.{name}": tensor for name, tensor in tensors.items()}
        if self.average is not None:
            state |= {f"average.{name}": tensor for name, tensor in self.average.values.items()}
        self.checkpoints.write({"state": state, **improved}, {"at": asdict(self.at), "optimizers": optimizer_meta})

    def _restore(self, checkpoints: Checkpoints) -> None:
        meta, state = checkpoints.meta(), checkpoints.load("state")
        self.at = Position(**meta["at"])
        self.method.load_state_dict(_under("method.", state))
        for group, optimizer in self.optimizers.items():
            restore_optimizer(optimizer, _under(f"optimizer.{group}.", state), meta["optimizers"][group])
        if averages := _under("average.", state):
            self.average = Average(self.method, self.config.average)
            self.average.load(averages)
        self.best = {r: checkpoints.load(f"best-{r}") for r in RULES if f"best-{r}" in checkpoints.groups()}


def _of_rank(stream: str) -> str:
    """Random numbers of this process; those of the first are those of one process alone."""
    return f"{stream} of rank {world.rank()}" if world.rank() else stream


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
