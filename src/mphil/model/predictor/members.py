"""The members of a committee beside its first network, ready to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch

from mphil.graphs.store import Batch
from mphil.methods.base import Method, build_method
from mphil.model.bundle import Bundle
from mphil.model.committee.features import MoleculeFeatures
from mphil.model.committee.fitting import probabilities
from mphil.model.predictor.predictions import Floats
from mphil.nn.threads import one_thread
from mphil.trust.calibration import Calibration


class Members:
    """All models of a bundle.

    Args:
        bundle: with a committee.
        device: where networks work.
    """

    def __init__(self, bundle: Bundle, device: str) -> None:
        committee, config = bundle.config.committee, bundle.config
        assert committee is not None
        self._bundle, self._committee, self._task = bundle, committee, config.task
        self.weights = np.array([member.weight for member in committee.members])
        self._networks: dict[str, Method] = {}
        for name, state in bundle.networks.items():
            member = next(one for one in committee.members if one.name == name)
            assert member.method is not None
            encoder = config.encoder_of(member)
            method = build_method(member.method.name, config.task, encoder, member.method.args)
            method.load_state_dict(state)
            self._networks[name] = method.to(device).eval()

    def said(self, first: Floats, batches: Callable[[], Iterable[Batch]], features: MoleculeFeatures | None) -> Floats:
        """(m, n, outputs) probabilities of all members.

        Args:
            first: (n, outputs) logits of the first network.
            batches: the graphs, anew for every network.
            features: of the molecules, when there are trees.
        """
        task = self._task
        own = Calibration("none", task.kind, task.n_outputs)
        found = np.full((len(self._committee.members), *first.shape), np.nan)
        x = None if features is None else features.matrix()
        for place, member in enumerate(self._committee.members):
            if member.kind == "network":
                logits = self._logits(self._networks[member.name], batches()) if place else first
                finite = np.isfinite(logits).all(1)
                found[place, finite] = own.apply(logits[finite])
            else:
                assert x is not None
                found[place] = probabilities(self._bundle.trees[member.name], x, task)
        return found

    def _logits(self, method: Method, batches: Iterable[Batch]) -> Floats:
        with torch.no_grad(), one_thread():
            answers = [method.predict(batch).cpu() for batch in batches]
        if not answers:
            return np.empty((0, self._task.n_outputs))
        found: Floats = torch.cat(answers).double().numpy()
        return found
