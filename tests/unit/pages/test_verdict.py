from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mphil.pages.view import Choice, score, tie_margin, verdict

from .conftest import method

NBSP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("erm", "mphil", "outcome", "winner", "words"),
    [
        (
            (0.95, 0.60),
            (0.94, 0.92),
            "kept",
            "mphil",
            "MPHIL kept working under the shift: 92.0 % on OOD test against 60.0 %",
        ),
        ((0.95, 0.93), (0.94, 0.60), "kept", "erm", "ERM, not MPHIL, kept working"),
        ((0.95, 0.60), (0.94, 0.75), "better", "mphil", "MPHIL held up better under the shift, 75.0 %"),
        ((0.95, 0.75), (0.94, 0.60), "better", "erm", "but lost 20.0 points from ID test"),
        ((0.95, 0.75), (0.94, 0.76), "tie", "", "No winner under the shift: MPHIL 76.0 % and ERM 75.0 %"),
        ((0.93, 0.92), (0.94, 0.91), "tie", "", "Both methods kept working under the shift: ERM 92.0 %"),
        ((0.88, 0.85), (0.96, 0.95), "kept", "mphil", "Both methods kept working under the shift, MPHIL ahead"),
        ((0.95, 0.51), (0.94, 0.50), "failed", "", "Neither method kept working under the shift"),
        ((0.95, 0.30), (0.94, 0.20), "failed", "", "where guessing gives 50.0 %"),
    ],
)
def test_headline_says_what_the_numbers_say(view, erm, mphil, outcome, winner, words):
    result = verdict(replace(view, methods=[method("erm", *erm), method("mphil", *mphil)]))
    assert (result.outcome, result.winner) == (outcome, winner)
    assert words.replace(" %", NBSP + "%") in result.sentence
    assert result.sentence.endswith(".")


def test_the_same_difference_wins_or_ties_by_the_size_of_the_test(view):
    view = replace(view, methods=[method("erm", 0.9, 0.70), method("mphil", 0.9, 0.73)])
    outcomes = {}
    for graphs in (100, 100_000):
        part = replace(view.data.parts[1], graphs=graphs)
        outcomes[graphs] = verdict(replace(view, data=replace(view.data, parts=[part]))).outcome
    assert outcomes == {100: "tie", 100_000: "better"}


def test_ranking_metrics_count_the_smaller_class(view):
    view = replace(view, methods=[method("erm", 0.9, 0.70), method("mphil", 0.9, 0.78)])
    assert verdict(view).outcome == "better"
    assert verdict(replace(view, metric="roc_auc")).outcome == "tie"


def test_margin_is_two_standard_errors_and_at_least_a_point():
    assert tie_margin(0.5, 0.5, 100) == pytest.approx(2 * math.sqrt(0.5 * 0.5 / 100 + 0.5 * 0.5 / 100))
    assert tie_margin(1.0, 1.0, 10) == 0.01
    assert tie_margin(0.9, 0.8, None) == 0.01


def test_a_method_without_scores_is_left_out(view):
    blank = Choice(1, {"id_test": None, "ood_test": math.nan})
    mute = method("erm", 0.9, 0.9, choices={"ood_val": blank, "id_val": blank})
    assert verdict(replace(view, methods=[mute])).outcome == "unknown"
    alone = verdict(replace(view, methods=[mute, method("mphil", 0.9, 0.7)]))
    assert alone.sentence.startswith("MPHIL lost 20.0 points under the shift")


def test_a_third_method_is_judged_too(view):
    three = [method("erm", 0.9, 0.6), method("irm", 0.9, 0.89), method("mphil", 0.9, 0.7)]
    sentence = verdict(replace(view, methods=three)).sentence
    assert sentence.startswith("IRM, not MPHIL, kept working")
    assert sentence.endswith("for MPHIL.")


def test_score():
    assert [score(0.91234), score(None), score(math.nan)] == [f"91.2{NBSP}%", "–", "–"]
