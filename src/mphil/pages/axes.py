"""Axes of charts: where numbers lie in pixels, and which of them are written beside an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Values = Sequence[float | None]
Range = tuple[float, float]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) inside [low, high], about `count` and at least two.

    Example:
        >>> nice_ticks(0, 1)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not low < high:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last <= first:  # an axis with one number on it has no scale
        return nice_ticks(low, high, 2 * max(count, 1))
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


@dataclass(frozen=True)
class Frame:
    """The plotting area in pixels and the numbers its edges stand for; with `log`, equal factors are equal heights."""

    left: float
    top: float
    right: float
    bottom: float
    x_range: Range
    y_range: Range
    log: bool = False

    def x(self, value: float) -> float:
        return _scale(value, self.x_range, (self.left, self.right))

    def y(self, value: float) -> float:
        if self.log:
            low, high = map(math.log, self.y_range)
            return _scale(math.log(max(value, self.y_range[0])), (low, high), (self.bottom, self.top))
        return _scale(value, self.y_range, (self.bottom, self.top))

    @property
    def y_ticks(self) -> list[float]:
        if not self.log:
            return nice_ticks(*self.y_range)
        return [step for step in steps(*self.y_range) if self.y_range[0] <= step <= self.y_range[1]]


def _scale(value: float, source: Range, target: Range) -> float:
    length = source[1] - source[0]
    return target[0] + (target[1] - target[0]) * ((value - source[0]) / length if length else 0.5)


def span(places: Sequence[float]) -> Range:
    """From the first place to the last."""
    return (min(places), max(places)) if places else (0.0, 1.0)


def steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from not above `low` to not below `high`."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 2)
    every = [round(m * 10.0**power, max(0, -power)) for power in powers for m in (1, 2, 5)]
    first = max(step for step in every if step <= low)
    return [step for step in every if first <= step <= min(s for s in every if s >= high)]


def stepped(values: Sequence[float]) -> Range:
    """The range of the values, widened to steps of a logarithmic axis."""
    found = steps(min(values, default=1.0), max(values, default=1.0))
    return (found[0], found[-1]) if len(found) > 1 else (found[0] / 2, found[0] * 2)


def rounded(values: Values) -> Range:
    """The range of the values, widened to round numbers."""
    numbers = [v for v in values if v is not None]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    ticks = nice_ticks(low, high)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def whole_ticks(ends: Range) -> list[float]:
    """Whole numbers where there are at least two: an axis with one number on it has no scale."""
    ticks = nice_ticks(*ends)
    whole = [tick for tick in ticks if tick == int(tick)]
    return whole if len(whole) > 1 else ticks
