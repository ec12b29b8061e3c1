"""The sections of a card about what its verdicts and sets turned out to be worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mphil.pages.template import Grid, Section
from mphil.pages.text import MISSING
from mphil.pages.verdict import METRIC_NAMES
from mphil.pages.view import PART_NAMES

Values = Mapping[str, Any]

SPACE = "\N{NO-BREAK SPACE}"
FEW = 20
"""Labels below which a share of errors says little."""


def verdict_section(metrics: Values) -> Section | None:
    """How often the model was wrong in domain, borderline and out of domain; None where that was not measured."""
    measured = metrics["trust"].get("verdicts")
    if not measured:
        return None
    kind = METRIC_NAMES[metrics["metric"]]
    groups = {
        PART_NAMES.get(part, "Both tests"): [_verdict(word, found) for word, found in words.items()]
        for part, words in measured.items()
    }
    header = ["Verdict", "Rows", "Labels", "Wrong", kind[0].upper() + kind[1:]]
    grid = Grid("Errors by verdict, on the test parts", header, groups)
    return Section("worth", "What the verdicts are worth", [_lesson(measured["both"])], tables=[grid])


def _verdict(word: str, found: Values) -> list[str]:
    error, score = found["error"], found["score"]
    shown = MISSING if score is None else f"{score:.3f}"
    return [word, f"{found['rows']:,}", f"{found['labels']:,}", _percent(error), shown]


def _lesson(words: Values) -> str:
    """What the errors of both tests together say, in sentences."""
    inside, outside = words["in domain"], words["out of domain"]
    if inside["labels"] < FEW or outside["labels"] < FEW:
        fewer = "out of domain" if outside["labels"] < FEW else "in domain"
        return (
            f"Fewer than {FEW} labelled test rows are {fewer}: whether the verdict warns of errors is not known from "
            "this file."
        )
    told = (
        f"In domain {_percent(inside['error'])} of the answers were wrong, out of domain {_percent(outside['error'])}."
    )
    gap = outside["error"] - inside["error"]
    noise = (
        2 * sum(one["error"] * (1 - one["error"]) / one["labels"] for one in (inside, outside)) ** 0.5
    )  # two standard errors of the difference
    if gap > noise:
        return f"{told} The verdict warns of errors."
    if gap < -noise:
        return f"{told} Here the verdict does not warn of errors: rows out of domain were answered better."
    return f"{told} The difference is no more than chance: do not read “in domain” as “right”."


def weighted_section(metrics: Values, trust: Values) -> Section | None:
    """Plain and weighted sets side by side; None where they were not measured."""
    measured = {part: found for part, found in (metrics["trust"].get("weighted") or {}).items() if found}
    if not measured or trust["conformal"] is None:
        return None
    promise = 100 * (1 - trust["conformal"]["alpha"])
    rows = []
    for part, found in measured.items():
        plain = metrics["trust"]["parts"][part]["coverage"]
        rows.append(
            [
                PART_NAMES[part],
                _percent(plain["covered"]),
                _percent(found["covered"]),
                _number(plain["size"]),
                _number(found["size"]),
                _percent(found["unsupported"]),
                f"{found['effective_rows']:.0f}",
            ]
        )
    header = ["Part", "Covered, plain", "Weighted", "Size, plain", "Weighted", "No support", "Effective rows"]
    text = (
        "Weighted sets count a held-out row as often as rows like it occur in the part, by a logistic regression on "
        "fingerprints and on the distance from training. Where the held-out rows have nothing like a row, its set "
        "holds every class. Effective rows: how many equally weighted held-out rows are worth as much. "
        "The option --weighted of mphil predict gives such sets for your rows."
    )
    caption = f"Sets that hold the true class, without and with weights for the shift; {promise:.0f}{SPACE}% is the aim"
    return Section("weighted", "Sets under the shift", [text], tables=[Grid(caption, header, rows)])


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f}{SPACE}%"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"
