import pytest

from mphil.errors import UnknownName
from mphil.training.selection import best_epoch, last_scores


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


def test_the_lowest_of_errors_is_best():
    records = history(id_val=[0.5, 0.2, 0.2, 0.6])
    assert best_epoch(records, "id_val", lower=True) == 11
    assert best_epoch(records, "id_val", window=2, lower=True) == 12


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


class TestWindow:
    def test_the_mean_of_the_last_epochs_decides_and_the_last_of_them_is_chosen(self):
        records = history(id_val=[0.9, 0.1, 0.6, 0.7, 0.6, 0.1])
        assert [best_epoch(records, "id_val", window) for window in (1, 2, 3, 6)] == [10, 13, 14, 15]

    def test_without_a_full_window_nothing_is_chosen(self):
        assert best_epoch(history(id_val=[0.9, 0.8]), "id_val", window=3) is None

    def test_a_window_with_an_undefined_score_has_none(self):
        records = history(id_val=[0.9, None, 0.5, 0.4, None, 0.8])
        assert best_epoch(records, "id_val", window=2) == 13

    def test_the_earliest_of_equals_whatever_the_order_in_the_window(self):
        assert best_epoch(history(id_val=[0.1, 0.2, 0.7, 0.1, 0.2]), "id_val", window=3) == 12

    def test_no_epoch_before_the_minimum(self):
        records = history(id_val=[0.9, 0.8, 0.1, 0.5])
        assert best_epoch(records, "id_val", min_epochs=12) == 13
        assert best_epoch(records, "id_val", 2, 12) == 12
        assert best_epoch(records, "id_val", min_epochs=14) is None
        assert best_epoch(records, "last", 3, 99) == 13


class TestLastScores:
    def test_mean_of_up_to_five(self):
        records = history(id_val=[9, 1, 2, 3, 4, 5], ood_val=[None, 1, 1, None, 1, 1])
        assert last_scores(records) == {"id_val": 3, "ood_val": None}
        assert last_scores(records[:2]) == {"id_val": 5, "ood_val": None}
        assert last_scores(records, 2) == {"id_val": 4.5, "ood_val": 1}

    def test_no_epochs(self):
        assert last_scores([]) == {}
