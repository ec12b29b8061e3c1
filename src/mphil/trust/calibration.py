"""Probabilities that mean what they say: of a hundred predictions of 70 %, seventy should come true.

A model's own probabilities are usually too sure of themselves. A calibration is learned on held-out graphs and bends
the probabilities to what was observed there. It holds for graphs like the held-out ones; under a shift it may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict

from mphil.errors import UnknownName, UsageError
from mphil.task import Kind, Task, as_labels
from mphil.trust.values import Floats, as_rows, class_logits, restore, softmax

if TYPE_CHECKING:
    from torch import Tensor

How = Literal["temperature", "platt", "isotonic", "none"]
HOW: tuple[How, ...] = get_args(How)
TEMPERATURES = (0.01, 100.0)
"""The range in which a temperature is looked for."""
PRIOR = 0.2
"""Standard deviation, before a label is seen, of the slope around 1 and of the offset around 0 in Platt's scaling;
chosen on validation parts by benchmarks/calibration.py."""
_ROUNDS = 60
_SEVERAL = "platt calibrates yes-or-no tasks, not several classes; use temperature"


@dataclass(frozen=True)
class Curve:
    """A function that never falls: straight between its knots, level before the first and after the last.

    Attributes:
        x: where the knots are, rising.
        y: probabilities there, not falling.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y):
            raise UsageError(f"a curve needs as many heights as places, not {len(self.y)} for {len(self.x)}")
        if (np.diff(self.x) <= 0).any() or (np.diff(self.y) < 0).any() or not 0 <= self.y[0] <= self.y[-1] <= 1:
            raise UsageError("the places of a curve must rise, and its heights go from 0 to 1 without falling")

    def __call__(self, values: Floats) -> Floats:
        return np.interp(values, self.x, self.y)


@dataclass(frozen=True)
class Calibration:
    """From logits to calibrated probabilities.

    Attributes:
        method: `temperature` divides the logits of a task by one number, which leaves every ranking and every predicted
            class as it was. `platt`, for yes-or-no tasks, also adds a number: rankings stay, and a task whose
            probabilities are too high or too low on the whole is mended. `isotonic` replaces each output by a curve
            that never falls: it can mend any shape, needs more labels (hundreds), and makes ties. `none` gives the
            model's own probabilities.
        kind: kind of the task.
        outputs: logits of a graph.
        temperatures: one for each task; None = left as it is, since its held-out labels are not of two classes.
        curves: one for each output; None = left as it is, for the same reason.
        offsets: of `platt`, one for each task, added to its logit after the division; None likewise.

    Example:
        >>> task = Task("binary", 1, "roc_auc")
        >>> logits, labels = [[4.0], [4.0], [4.0], [-4.0]], [[1.0], [1.0], [0.0], [0.0]]
        >>> calibration = Calibration.fit(logits, labels, task)
        >>> calibration.temperatures[0] > 1, calibration.apply([[4.0]])[0, 0].round(2)
        (True, np.float64(0.62))
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    method: How
    kind: Kind
    outputs: int
    temperatures: tuple[float | None, ...] = ()
    curves: tuple[Curve | None, ...] = ()
    offsets: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "regression" and self.method != "none":
            raise UsageError("a regression has no probabilities to calibrate; use none")
        if self.kind == "multiclass" and self.method == "platt":
            raise UsageError(_SEVERAL)
        tasks = Task(self.kind, self.outputs, "rmse" if self.kind == "regression" else "accuracy").n_tasks
        wanted = {
            "temperature": (tasks, 0, 0),
            "platt": (tasks, 0, tasks),
            "isotonic": (0, self.outputs, 0),
            "none": (0, 0, 0),
        }[self.method]
        if (len(self.temperatures), len(self.curves), len(self.offsets)) != wanted:
            raise UsageError(f"{self.method} calibration of {self.outputs} outputs lacks its values or has too many")
        if self.offsets and [t is None for t in self.temperatures] != [b is None for b in self.offsets]:
            raise UsageError("a task has a temperature and an offset, or neither")
        if any(temperature is not None and temperature <= 0 for temperature in self.temperatures):
            raise UsageError("a temperature must be above 0")

    @classmethod
    def fit(
        cls, logits: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task, method: How = "temperature"
    ) -> Calibration:
        """Learn from held-out graphs.

        Args:
            logits: (n, outputs) of the model.
            y: (n, tasks) labels, NaN = missing.
            task: what is asked.
            method: `temperature`, `platt` (yes-or-no tasks alone), `isotonic` or `none`.
        """
        if method not in HOW:
            raise UnknownName("calibration", method, HOW)
        outputs = as_rows(logits, task.n_outputs, "logits")
        labels = as_labels(y, task, len(outputs))
        if method == "none":
            return cls(method, task.kind, task.n_outputs)
        if method == "platt":
            if task.kind == "multiclass":
                raise UsageError(_SEVERAL)
            lines = [_line(*column) for column in zip(outputs.T, labels.T, strict=True)]
            temperatures = tuple(None if line is None else 1 / line[0] for line in lines)
            offsets = tuple(None if line is None else line[1] for line in lines)
            return cls(method, task.kind, task.n_outputs, temperatures=temperatures, offsets=offsets)
        by_class = class_logits(outputs, task.kind)
        if method == "temperature":
            columns = zip(by_class.swapaxes(0, 1), labels.T, strict=True)
            return cls(method, task.kind, task.n_outputs, temperatures=tuple(_temperature(*c) for c in columns))
        if task.kind == "multiclass":
            places, known = softmax(by_class)[:, 0], ~np.isnan(labels[:, 0])
            hits = np.where(known[:, None], labels == np.arange(task.n_classes), np.nan)
        else:
            places, hits = outputs, labels
        return cls(method, task.kind, task.n_outputs, curves=tuple(map(_curve, places.T, hits.T)))

    @property
    def left(self) -> tuple[int, ...]:
        """Tasks (of a multi-class problem: classes, when isotonic) that could not be fitted and stay as they are."""
        fitted = self.curves if self.method == "isotonic" else self.temperatures
        return tuple(number for number, value in enumerate(fitted) if value is None)

    def apply(self, logits: ArrayLike | Tensor) -> Floats:
        """Probabilities of the classes, or of the positive label of each task: (n, outputs) -> (n, outputs).

        Outputs of a regression stay as they are.
        """
        outputs = as_rows(logits, self.outputs, "logits")
        if self.kind == "regression":
            return outputs
        by_class = class_logits(outputs, self.kind)
        if self.temperatures:
            by_class = by_class / np.array([[1.0 if t is None else t] for t in self.temperatures])
        if self.offsets:
            by_class = by_class + class_logits(np.array([[b or 0.0 for b in self.offsets]]), self.kind)
        chances = softmax(by_class)
        own = chances[:, 0] if self.kind == "multiclass" else chances[..., 1]
        if self.method != "isotonic":
            return own
        places = own if self.kind == "multiclass" else outputs
        bent = [own[:, c] if curve is None else curve(places[:, c]) for c, curve in enumerate(self.curves)]
        found = np.stack(bent, axis=1)
        return found / found.sum(1, keepdims=True) if self.kind == "multiclass" else found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """What `to_dict` gave, checked."""
        return restore(cls, values)


def _temperature(logits: Floats, labels: Floats) -> float | None:
    r"""The temperature of least cross-entropy for class logits (n, C) and labels (n,); None without two classes.

    The targets are Platt's: with :math:`N_c` labels of class c, the true class counts
    :math:`(N_c + 1) / (N_c + C)` and each other one :math:`1 / (N_c + C)`, so that few labels that happen to be all
    right do not make the model certain. The loss is convex in :math:`1/T`; its slope is brought to 0 by halving.
    """
    known = ~np.isnan(labels)
    classes, true = logits.shape[1], labels[known].astype(np.int64)
    counts = np.bincount(true, minlength=classes)
    if (counts > 0).sum() < 2:
        return None
    centred = logits[known] - logits[known].mean(1, keepdims=True)
    target = np.repeat(1 / (counts[true] + classes)[:, None], classes, axis=1)
    target[np.arange(len(true)), true] *= counts[true] + 1
    wanted = (target * centred).sum(1).mean()

    def slope(coldness: float) -> float:
        return float((softmax(coldness * centred) * centred).sum(1).mean() - wanted)

    low, high = (1.0, 1 / TEMPERATURES[0]) if slope(1.0) < 0 else (1 / TEMPERATURES[1], 1.0)
    if slope(1.0) == 0:  # logits that say nothing, at any temperature
        return 1.0
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return float(1 / (low * high) ** 0.5)


def _line(logits: Floats, labels: Floats) -> tuple[float, float] | None:
    r"""Slope and offset of least cross-entropy for logits (n,) and labels (n,); None without two classes.

    Minimises :math:`\sum_i \log(1 + e^{u_i}) - y_i u_i + \frac{(a - 1)^2 + b^2}{2 s^2}` with :math:`u_i = a z_i + b`
    and :math:`s` = `PRIOR`: Platt's scaling (1999), shrunk to the logits as they are. The loss is convex; the slope
    stays above 0, so that rankings stay.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    known = ~np.isnan(labels)
    z, y = logits[known], labels[known]
    if len(np.unique(y)) < 2:
        return None

    def loss(line: Floats) -> tuple[float, Floats]:
        slope, offset = line
        said = slope * z + offset
        total = (np.logaddexp(0, said) - y * said).sum() + ((slope - 1) ** 2 + offset**2) / (2 * PRIOR**2)
        excess = expit(said) - y
        rise = np.array([(excess * z).sum() + (slope - 1) / PRIOR**2, excess.sum() + offset / PRIOR**2])
        return float(total), rise

    bounds = [(1 / TEMPERATURES[1], 1 / TEMPERATURES[0]), (None, None)]
    found = minimize(
        loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-8}
    )
    return float(found.x[0]), float(found.x[1])


def _curve(places: Floats, hits: Floats) -> Curve | None:
    """The rising curve nearest to the hits (n,) of 0, 1 and NaN at places (n,); None unless both 0 and 1 occur.

    Rows at one place count together. No height is below :math:`1/(n + 2)` or above :math:`(n + 1)/(n + 2)`: n labels
    cannot tell what is rarer from what never happens.
    """
    from scipy.optimize import isotonic_regression

    known = ~np.isnan(hits)
    n, hit = int(known.sum()), hits[known]
    if not 0 < hit.sum() < n:
        return None
    x, place, weight = np.unique(places[known], return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=hit) / weight
    y = np.clip(isotonic_regression(share, weights=weight).x, 1 / (n + 2), (n + 1) / (n + 2))
    # Inside a level stretch knots say nothing.
    flat = np.concatenate([[False], (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:]), [False]])[: len(y)]
    return Curve(tuple(x[~flat].tolist()), tuple(y[~flat].tolist()))
