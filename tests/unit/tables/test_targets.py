"""Columns of labels as they stand in tables: names of classes, thresholds, and what was assumed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.tables.cell_values import Coded, Measured
from mphil.tables.targets import Threshold, read_cells


def column(*cells):
    coded = Coded()
    coded.extend(cells)
    return coded


def labels(target):
    return [None if math.isnan(label) else int(label) for label in target.y]


def test_classes_keep_their_names():
    target, notes = read_cells("t", column("active", "Inactive", "active", "inactive", "Inactive", "n.d.", ""))
    assert (target.kind, target.classes) == ("binary", ("Inactive", "active"))
    assert labels(target) == [1, 0, 1, 0, 0, None, None]
    assert notes == ("target 't': 1 cell ('n.d.') read as missing",)
    assert read_cells("t", column("yes", "no"))[0].classes == ("no", "yes")
    assert read_cells("t", column("1.0", "0", "1"))[0].classes == ("0", "1")
    assert read_cells("t", column("1,0", "0,0"))[0].classes == ("0", "1")
    assert read_cells("t", column("low", "high", "mid"))[0].classes == ("high", "low", "mid")


def test_spellings_of_a_class_are_one_class():
    target, notes = read_cells("t", column("Low", "High", "low", "Low", "very  High", "very high", "very high", "n/a"))
    assert (target.kind, target.classes) == ("multiclass", ("High", "Low", "very high"))
    assert labels(target) == [1, 0, 1, 1, 2, 2, 2, None]
    assert notes[1] == "target 't': 2 labels in another spelling, read 'low' as 'Low', 'very  High' as 'very high'"
    assert len(read_cells("t", column("Low", "High", "mid"))[1]) == 0


def test_a_threshold():
    cells = ("6,5", "6,49", ">7", ">5", "<5", "<8", "n.d.", "1.000,0", "oops", *["6,1"] * 20)
    target, notes = read_cells("pIC50", column(*cells), Threshold(6.5))
    assert (target.kind, target.classes, target.strange) == ("binary", ("inactive", "active"), (8,))
    assert labels(target)[:9] == [1, 0, 1, None, 0, None, None, 1, None]
    assert notes == (
        "target 'pIC50': 1 cell ('n.d.') read as missing",
        "target 'pIC50': 23 numbers with a decimal comma, such as '6,5' read as 6.5",
        "target 'pIC50': 4 numbers with < or >, such as '>7'",
        "target 'pIC50': active is >= 6.5: 3 active, 22 inactive; 2 with < or > that could be either have no label",
    )


@given(st.floats(-10, 10), st.sampled_from(["", "<", ">"]), st.floats(-10, 10), st.booleans())
def test_a_label_holds_for_every_value_that_a_bound_allows(value, bound, cut, below):
    label = Threshold(cut, below).label(Measured(value, bound))
    inside = {"": [value], "<": [value - 1e-6, value - 30], ">": [value + 1e-6, value + 30]}[bound]
    truth = {float(one <= cut if below else one >= cut) for one in inside}
    if not math.isnan(label):
        assert truth == {label}
    else:
        assert bound


def test_many_repeated_numbers_are_a_measurement():
    quarters = [str(4 + step / 4) for step in range(20)] * 10
    target, notes = read_cells("pIC50", column(*quarters))
    assert (target.kind, target.classes, target.range) == ("continuous", (), (4.0, 8.75))
    assert target.y.tolist() == list(map(float, quarters))
    assert notes == (
        "target 'pIC50' is a measurement, so this is a regression: its values go from 4 to 8.75; "
        "--threshold 6.5 would make classes of it",
    )
    percent, _ = read_cells("inhibition", column(*[str(number) for number in range(40)] * 5))
    assert percent.kind == "continuous"
    grades, notes = read_cells("grade", column(*["1", "2", "3", "4"] * 5))
    assert (grades.kind, grades.classes) == ("multiclass", ("1", "2", "3", "4"))
    assert notes == (
        "target 'grade': 4 different whole numbers are taken as classes; --task regression takes them as measurements",
    )


def test_concentrations_are_better_learned_as_logarithms():
    cells = [f"{10 ** (step / 8):.4g}" for step in range(40)]
    _, notes = read_cells("IC50 (nM)", column(*cells))
    assert notes[0] == (
        "target 'IC50 (nM)' spans more than 4 powers of ten, and the largest values decide what is learned; a column "
        "of its logarithm, such as pIC50, is learned better"
    )
    assert len(read_cells("pIC50", column(*[str(4 + step / 10) for step in range(40)]))[1]) == 1


def test_measurements_as_people_write_them():
    target, notes = read_cells("c", column("1,5", ">10", "n.d.", "2,25", "<0,1", "1,5", ""))
    assert target.kind == "continuous"
    assert [None if math.isnan(value) else value for value in target.y] == [1.5, 10.0, None, 2.25, 0.1, 1.5, None]
    assert "target 'c': these 2 are taken as measured numbers, '>10' as 10" in notes
    assert any("3 numbers with a decimal comma" in note for note in notes)


def test_the_owner_says_what_is_learned():
    grades = column(*["1", "2", "3"] * 5)
    target, notes = read_cells("grade", grades, wanted="regression")
    assert (target.kind, target.y.tolist(), notes) == ("continuous", [1.0, 2.0, 3.0] * 5, ())
    assert read_cells("grade", grades, wanted="classification")[1] == ()
    assert read_cells("yes", column("0", "1", "0"), wanted="regression")[0].y.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(DataError, match="'p' is a measurement, not a class: its values go from 0.5 to 2.5; --thresh"):
        read_cells("p", column("0.5", "1.5", "2.5"), wanted="classification")
    with pytest.raises(DataError, match="--task regression goes with a column of numbers; 't' holds 'active'"):
        read_cells("t", column("active", "inactive"), wanted="regression")


def test_text_among_measurements_is_strange():
    target, _ = read_cells("p", column(*[str(n / 7) for n in range(30)], "oops"))
    assert (target.kind, target.strange) == ("continuous", (30,))


def test_the_direction_of_a_concentration():
    assert "--active-below" in read_cells("IC50_nM", column(*map(str, np.arange(1, 99) / 7)))[1][0]
    assert "--active-below" not in read_cells("logD", column(*map(str, np.arange(1, 99) / 7)))[1][0]


def test_a_threshold_for_text():
    with pytest.raises(DataError, match="--threshold goes with a column of numbers; 't' holds 'active'"):
        read_cells("t", column("active", "inactive"), Threshold(1))
