"""Methods that each break one promise, in the way people do."""

from __future__ import annotations

import random

import torch
from torch import nn

from mphil.methods import Losses, evaluating
from mphil.methods.erm import ERM
from mphil.nn.losses import entry_losses, labelled, masked_mean
from mphil.nn.memory import Memory
from mphil.nn.readout import decision_margin, readout


class Toy(ERM):
    """ERM for binary tasks, from which the others are made."""

    tasks = frozenset({"binary"})


class NoFacts(nn.Module):
    """Not registered."""

    tasks = frozenset({"binary"})


class UnknownNeed(Toy):
    needs = frozenset({"luck"})


class PositionalOption(Toy):
    def __init__(self, task, encoder, weight: float = 1.0):
        super().__init__(task, encoder)


class NoDefault(Toy):
    def __init__(self, task, encoder, *, weight: float):
        super().__init__(task, encoder)


class DefaultOfAnotherType(Toy):
    def __init__(self, task, encoder, *, weight: float = "heavy"):
        super().__init__(task, encoder)


class DefaultBeyondJson(Toy):
    def __init__(self, task, encoder, *, device: object = torch.float32):
        super().__init__(task, encoder)


class PresetWithTypo(Toy):
    presets = {"paper": {"wieght": 1.0}}  # noqa: RUF012

    def __init__(self, task, encoder, *, weight: float = 1.0):
        super().__init__(task, encoder)


class SearchesUnknown(Toy):
    search_space = {"weight": [1.0]}  # noqa: RUF012


class VectorLoss(Toy):
    def loss(self, batch, progress):
        return Losses(classification=self.predict(batch).square().sum(1))


class Detached(Toy):
    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.scale = nn.Parameter(torch.ones(1))

    def embed(self, batch):
        return super().embed(batch) * self.scale.detach()


class Cancelled(Toy):
    """A softmax over a single entry: there is a gradient, and it is always zero."""

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.gate = nn.Linear(encoder.width, 1)

    def embed(self, batch):
        z = super().embed(batch)
        return z * self.gate(z).softmax(1)


class ForgottenGroup(Toy):
    def param_groups(self):
        return {"all": list(self.encoder.parameters())}


class TwoGroups(Toy):
    def param_groups(self):
        return {"all": list(self.parameters()), "head": list(self.head.parameters())}


class UnknownGroup(Toy):
    def param_groups(self):
        return {"encoder": list(self.encoder.parameters()), "head": list(self.head.parameters())}


class WrongShape(Toy):
    def predict(self, batch):
        return super().predict(batch).expand(-1, 2)

    def loss(self, batch, progress):
        return Losses(risk=super().predict(batch).square().mean())


class RandomAnswer(Toy):
    def predict(self, batch):
        return nn.functional.dropout(super().predict(batch), 0.5, training=True)


class ReadsLabels(Toy):
    def predict(self, batch):
        return super().predict(batch) + batch.y.nan_to_num(0.5)


class CentredOnTheBatch(Toy):
    def embed(self, batch):
        z = super().embed(batch)
        return z - 0.1 * z.mean(0)


class NeedsTwoGraphs(Toy):
    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.norm = nn.BatchNorm1d(encoder.width)

    def embed(self, batch):
        return self.norm(super().embed(batch))


class UndeclaredEnvironments(Toy):
    def loss(self, batch, progress):
        risk = super().loss(batch, progress)["classification"]
        return Losses(risk=risk * (1 + batch.env.double().var() + batch.env.double().mean().square()).float())


class MissingIsNaN(Toy):
    def loss(self, batch, progress):
        return Losses(risk=nn.functional.binary_cross_entropy_with_logits(self.predict(batch), batch.y))


class MaskedTooLate(Toy):
    """The loss is finite, its gradient is not: 0 * NaN is NaN on the way back."""

    def loss(self, batch, progress):
        losses = (self.predict(batch) * (1 - 2 * batch.y)).exp()
        return Losses(risk=losses.where(labelled(batch.y), losses.new_zeros(())).mean())


class WritesLabels(Toy):
    def loss(self, batch, progress):
        batch.y.mul_(0.9)
        return super().loss(batch, progress)


class AddsToBatch(Toy):
    def embed(self, batch):
        batch.pooled = super().embed(batch)
        return batch.pooled


class OtherRandomNumbers(Toy):
    def loss(self, batch, progress):
        return Losses(risk=super().loss(batch, progress).total * random.random())


class HiddenState(Toy):
    """Learned, used in prediction, and saved nowhere."""

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.centre = torch.zeros(encoder.width)

    def embed(self, batch):
        return super().embed(batch) - self.centre.to(self.head.weight)

    def loss(self, batch, progress):
        losses = super().loss(batch, progress)
        if self.training:
            self.centre = self.embed(batch).detach().mean(0)
        return losses


class HiddenCounter(Toy):
    """A schedule that counts for itself in place of asking for the progress."""

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.calls = 0

    def loss(self, batch, progress):
        self.calls += self.training
        return Losses(risk=super().loss(batch, progress).total * (1 + self.calls))


class LearnsInEvaluation(Toy):
    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.register_buffer("seen", torch.zeros(()))

    def loss(self, batch, progress):
        self.seen += len(batch.y)
        return super().loss(batch, progress)


class LeavesGradients(Toy):
    def node_importance(self, batch):
        with torch.enable_grad():
            nodes = self.encoder(batch).detach().requires_grad_()
            decision_margin(self.head(readout(nodes, batch.ptr)), self.task).sum().backward()
        return nodes.grad.sum(1)


class SwitchesMode(Toy):
    def embed(self, batch):
        z = super().embed(batch)
        self.head.train()
        return z


class ImportanceByGraph(Toy):
    def node_importance(self, batch):
        return self.predict(batch)[:, 0]


class InfiniteScore(Toy):
    def ood_score(self, batch):
        return -(self.predict(batch)[:, 0] * 0).log()


class Staged(Toy):
    """An assistant guesses first; the main stage trains hardest where it was wrong."""

    def __init__(self, task, encoder, *, share: float = 0.5):
        super().__init__(task, encoder)
        self.share = share
        self.assistant = ERM(task, encoder)
        self.weights = Memory(1)

    def stages(self):
        return {"first": self.share}

    def param_groups(self):
        return {
            "first": list(self.assistant.parameters()),
            "all": [*self.encoder.parameters(), *self.head.parameters()],
        }

    def loss(self, batch, progress):
        if progress.stage == "first":
            return Losses(guess=self.assistant.loss(batch, progress).total)
        losses = entry_losses(self.predict(batch), batch.y, self.task)
        return Losses(risk=masked_mean(losses * self.weights.read(batch.index), labelled(batch.y)))

    def steps(self, batch, progress):
        yield "first" if progress.stage == "first" else "all", self.loss(batch, progress)

    def end_stage(self, parts, progress):
        with evaluating(self):
            for batch in parts.train:
                wrong = entry_losses(self.assistant.predict(batch), batch.y, self.task)
                self.weights.write(batch.index, 1 + wrong)


class MainTwice(Staged):
    def stages(self):
        return {"main": 1.0}


class EmptyStage(Staged):
    def stages(self):
        return {"first": 0.0}


class BrokenFirstStage(Staged):
    def loss(self, batch, progress):
        losses = super().loss(batch, progress)
        return losses if progress.stage == "main" else Losses(guess=losses.total * torch.nan)


class ForgetsItsStage(Staged):
    """What the first stage found is not part of the state."""

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.factor = 1.0

    def end_stage(self, parts, progress):
        super().end_stage(parts, progress)
        self.factor = 2.0

    def loss(self, batch, progress):
        return Losses(scaled=super().loss(batch, progress).total * self.factor)
