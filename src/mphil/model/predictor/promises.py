"""Promises made anew from the held-out rows of a bundle: for another coverage, or rows drawn differently."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mphil.errors import UsageError
from mphil.model.bundle import Bundle
from mphil.model.bundle.held_out import HeldOut
from mphil.model.predictor.predictions import Floats, Predictions
from mphil.trust.conformal import Conformal
from mphil.trust.shift import DensityRatio, effective_size, fingerprint_features, weighted_sets

LEAST_ROWS = 20
"""New rows below which nothing can be said about how they are drawn."""

NO_SUPPORT = "no held-out rows are like it, so the weighted set holds every class"


def with_coverage(bundle: Bundle, coverage: float) -> Bundle:
    """The bundle with conformal sets that hold the true class in another share of cases.

    Raises:
        UsageError: the share is none, or the bundle keeps no labelled held-out rows.
    """
    if not 0 < coverage < 1:
        raise UsageError(f"--coverage is a share between 0 and 1, such as 0.8, not {coverage:g}")
    held, conformal = _held_out(bundle)
    alpha = round(1 - coverage, 12)
    task = bundle.config.task
    fitted = Conformal.fit(held.probability, held.labels, task, alpha=alpha, per_class=conformal.per_class)
    return replace(bundle, trust=replace(bundle.trust, conformal=fitted))


@dataclass(frozen=True, eq=False)
class Shift:
    """What is known about rows that are drawn differently from the held-out ones.

    Attributes:
        held: the n held-out rows.
        conformal: the sets without a shift, which say what is promised.
        ratio: how much more frequent rows like a given one are now.
        weights: (n,) the ratio at the held-out rows.
    """

    held: HeldOut
    conformal: Conformal
    ratio: DensityRatio
    weights: Floats

    @classmethod
    def fit(cls, bundle: Bundle, fingerprints: NDArray[np.uint8], distance: Floats) -> Shift:
        """From the new rows; their labels are not needed.

        Args:
            bundle: the model.
            fingerprints: (m, bytes) of the new rows.
            distance: (m,) how far from training they are.

        Raises:
            UsageError: there are too few rows, or the bundle keeps no labelled held-out rows.
        """
        held, conformal = _held_out(bundle)
        if bundle.config.molecules is None:
            raise UsageError("sets are weighted by fingerprints of molecules, and this bundle takes graphs")
        if len(distance) < LEAST_ROWS:
            raise UsageError(f"{len(distance)} molecules do not show how they are drawn; {LEAST_ROWS} or more do")
        known, new = fingerprint_features(held.fingerprints), fingerprint_features(fingerprints)
        ratio = DensityRatio.fit(known, held.distance, new, distance)
        return cls(held, conformal, ratio, ratio(known, held.distance))

    @property
    def effective_rows(self) -> float:
        """How many of the held-out rows are left, as it were: few when the new rows are unlike most of them."""
        return effective_size(self.weights)

    def apply(self, answers: Predictions, fingerprints: NDArray[np.uint8]) -> Predictions:
        """Answers about m molecules with weighted sets beside the plain ones."""
        rows = np.flatnonzero(answers.answered)
        own = self.ratio(fingerprint_features(fingerprints[rows]), answers.ood_score[rows])
        found, unsupported = weighted_sets(
            self.held.probability,
            self.held.labels,
            self.weights,
            answers.probability[rows],
            own,
            answers.task,
            alpha=self.conformal.alpha,
            per_class=self.conformal.per_class,
        )
        sets = np.zeros((len(answers), *found.shape[1:]), bool)
        sets[rows] = found
        message = list(answers.message)
        for row in rows[unsupported.any(1)].tolist():
            message[row] = NO_SUPPORT
        return replace(answers, weighted_sets=sets, message=message)


def _held_out(bundle: Bundle) -> tuple[HeldOut, Conformal]:
    if bundle.held_out is None or bundle.trust.conformal is None:
        raise UsageError("this bundle keeps no labelled held-out rows to make sets from; train it again")
    return bundle.held_out, bundle.trust.conformal
