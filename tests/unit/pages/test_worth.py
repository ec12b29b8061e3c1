from __future__ import annotations

import pytest

from mphil.pages.card_sections import verdict_section, weighted_section


def words(inside: tuple[int, float | None], outside: tuple[int, float | None]) -> dict:
    def one(labels: int, error: float | None) -> dict:
        return {"rows": labels, "labels": labels, "error": error, "score": None if error is None else 1 - error}

    return {"in domain": one(*inside), "borderline": one(0, None), "out of domain": one(*outside)}


def metrics(both: dict) -> dict:
    return {"metric": "roc_auc", "trust": {"verdicts": {"id_test": both, "both": both}}}


@pytest.mark.parametrize(
    ("inside", "outside", "told"),
    [
        ((400, 0.1), (200, 0.3), "The verdict warns of errors."),
        ((400, 0.1), (40, 0.15), "no more than chance"),
        ((400, 0.4), (200, 0.1), "does not warn of errors"),
        ((400, 0.1), (3, 0.3), "Fewer than 20 labelled test rows are out of domain"),
        ((5, 0.1), (300, 0.3), "Fewer than 20 labelled test rows are in domain"),
    ],
)
def test_the_lesson(inside, outside, told):
    section = verdict_section(metrics(words(inside, outside)))
    assert told in section.texts[0]
    assert list(section.tables[0].groups) == ["ID test", "Both tests"]


def test_what_was_not_measured_is_no_section():
    assert verdict_section({"metric": "roc_auc", "trust": {}}) is None
    assert weighted_section({"trust": {"weighted": {"id_test": None}}}, {"conformal": {"alpha": 0.1}}) is None
    assert weighted_section({"trust": {}}, {"conformal": None}) is None


def test_plain_and_weighted_sets_side_by_side():
    weighted = {"labels": 9, "covered": 0.875, "size": 1.5, "unsupported": 0.25, "effective_rows": 31.4}
    parts = {"ood_test": {"coverage": {"covered": 0.75, "size": 1.2}}}
    section = weighted_section(
        {"trust": {"weighted": {"ood_test": weighted}, "parts": parts}}, {"conformal": {"alpha": 0.1}}
    )
    (row,) = section.tables[0].rows
    assert " ".join(row).replace("\N{NO-BREAK SPACE}", " ") == "OOD test 75.0 % 87.5 % 1.20 1.50 25.0 % 31"
