import pytest

from mphil.errors import UnknownName
from mphil.evaluate.selection import best_epoch


def history(**columns):
    length = len(next(iter(columns.values())))
    return [{"epoch": 10 + i, "scores": {part: column[i] for part, column in columns.items()}} for i in range(length)]


def test_each_rule_reads_its_own_part():
    records = history(id_val=[0.5, 0.9, 0.7], ood_val=[0.8, 0.1, 0.2])
    assert best_epoch(records, "id_val") == 11
    assert best_epoch(records, "ood_val") == 10
    assert best_epoch(records, "last") == 12


def test_the_earliest_of_equals_wins():
    assert best_epoch(history(id_val=[0.1, 0.9, 0.9]), "id_val") == 11


def test_undefined_scores_are_passed_over_even_for_zero():
    assert best_epoch(history(id_val=[None, 0.0, None]), "id_val") == 11


def test_nothing_to_choose_from():
    assert best_epoch(history(id_val=[0.1], ood_val=[None]), "ood_val") is None
    assert best_epoch(history(id_val=[0.1]), "ood_val") is None
    assert best_epoch([], "id_val") is None
    assert best_epoch([], "last") is None


def test_unknown_rule_offers_the_nearest():
    with pytest.raises(UnknownName, match="did you mean ood_val"):
        best_epoch([], "ood_test_val")
