"""A sweep: what has no record is run once, what fails disturbs nobody, what is cut goes on."""

import pytest

from mphil.lab.records import RecordFile, read_folder
from mphil.lab.sweep import SweepCallback, SweepProgress, Tally, describe, duration, sweep, unique
from tests.unit.lab.made import Inline, cells, record, tiny

ROWS = """
[[variants]]
name = "second"
method = "erm"
settings.train = { lr = 0.01 }

[[variants]]
name = "third"
method = "erm"
settings.train = { lr = 0.02 }
"""
CELLS = cells(ROWS)


def engine(folder, **scripted):
    return Inline(folder / "runs", dict.fromkeys(("erm", "second", "third"), "run") | scripted)


def recorded(folder):
    return sorted((r["row"], r["seed"]) for r in read_folder(folder)[0])


class TestSweep:
    def test_everything_is_run_once(self, tmp_path):
        first = sweep(CELLS, engine(tmp_path), tmp_path)
        assert (first.total, first.run, first.before) == (6, 6, 0)
        again = engine(tmp_path)
        second = sweep(CELLS, again, tmp_path)
        assert (second.run, second.before, again.started) == (0, 6, [])
        assert len(recorded(tmp_path)) == 6

    def test_rows_that_are_the_same_run_are_run_once(self, tmp_path):
        double = cells('[[variants]]\nname = "second"\nmethod = "erm"')
        assert len(double) == 4
        assert [cell.row for cell in unique(double)] == ["erm", "erm"]
        assert sweep(double, engine(tmp_path), tmp_path).total == 2

    def test_a_record_of_another_suite_counts(self, tmp_path):
        for cell in CELLS[:2]:
            RecordFile(tmp_path / "other.jsonl").append(record(cell) | {"suite": "other"})
        tally = sweep(CELLS, engine(tmp_path), tmp_path)
        assert (tally.before, tally.run) == (2, 4)

    def test_a_failure_disturbs_nobody_and_is_tried_again(self, tmp_path):
        tally = sweep(CELLS, engine(tmp_path, second="failed"), tmp_path)
        assert (tally.run, [r["error"] for r in tally.failed]) == (4, ["it broke", "it broke"])
        assert [r["row"] for r in RecordFile(tmp_path / "tiny.failed.jsonl").read()[0]] == ["second", "second"]
        assert ("second", 0) not in recorded(tmp_path)
        again = sweep(CELLS, engine(tmp_path), tmp_path)
        assert (again.run, again.before, again.failed) == (2, 4, [])
        assert len(recorded(tmp_path)) == 6

    def test_a_refusal_is_a_record(self, tmp_path):
        tally = sweep(CELLS, engine(tmp_path, third="refused"), tmp_path)
        assert (tally.run, tally.refused) == (4, 2)
        assert sweep(CELLS, engine(tmp_path), tmp_path).before == 6

    def test_a_busy_cell_is_left_to_who_has_it(self, tmp_path):
        tally = sweep(CELLS, engine(tmp_path, third="busy"), tmp_path)
        assert [cell.row for cell in tally.busy] == ["third", "third"]
        assert len(recorded(tmp_path)) == 4

    def test_what_another_sweep_records_in_the_meantime_is_not_run(self, tmp_path):
        class Meanwhile(SweepCallback):
            def ended(self, outcome, tally):
                RecordFile(tmp_path / "tiny.jsonl").append(record(CELLS[4]))

        mine = engine(tmp_path)
        tally = sweep(CELLS, mine, tmp_path, Meanwhile())
        assert CELLS[4].id not in mine.started
        assert (tally.run, tally.before, tally.ended) == (5, 1, 6)

    def test_what_another_sweep_records_while_our_worker_waits_is_no_failure(self, tmp_path):
        class Late(Inline):
            def _outcome(self, cell):
                RecordFile(tmp_path / "tiny.jsonl").append(record(cell))
                return super()._outcome(cell)

        tally = sweep(CELLS[:1], Late(tmp_path / "runs", {"erm": "failed"}), tmp_path)
        assert (tally.failed, tally.busy) == ([], CELLS[:1])
        assert not (tmp_path / "tiny.failed.jsonl").exists()

    def test_an_interrupt_loses_nothing(self, tmp_path):
        class Stop(SweepCallback):
            def ended(self, outcome, tally):
                if tally.run == 3:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweep(CELLS, engine(tmp_path), tmp_path, Stop())
        assert len(recorded(tmp_path)) == 3
        assert sweep(CELLS, engine(tmp_path), tmp_path).before == 3

    def test_files_of_a_run_go_when_its_record_is_safe(self, tmp_path):
        for cell in CELLS:
            (tmp_path / "runs" / cell.id).mkdir(parents=True)
        RecordFile(tmp_path / "tiny.jsonl").append(record(CELLS[0]))  # a sweep was killed before it could clear up
        sweep(CELLS, engine(tmp_path, second="failed"), tmp_path)
        left = {cell.row for cell in CELLS if (tmp_path / "runs" / cell.id).exists()}
        assert left == {"second"}
        sweep(CELLS, engine(tmp_path), tmp_path, keep=True)
        assert {cell.row for cell in CELLS if (tmp_path / "runs" / cell.id).exists()} == {"second"}


class TestProgress:
    def test_plain_lines_with_the_time_left(self, tmp_path, capsys):
        with SweepProgress("tiny") as progress:
            sweep(CELLS[:2], engine(tmp_path, second="failed"), tmp_path, progress)
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "2 cells, 0 of them recorded before"
        assert lines[1] == "start  erm on good-motif-basis, seed 0"
        assert lines[2].startswith("[1/2] erm on good-motif-basis, seed 0: OOD validation 60.0, 8 s; ")
        assert lines[4] == "[2/2] second on good-motif-basis, seed 0: failed: it broke; all done"

    def test_time_left_is_that_of_the_present_speed(self):
        tally = Tally(total=10, before=2, run=3, refused=1, seconds=8.0)
        assert tally.seconds_left == pytest.approx(8.0)
        assert Tally(total=10, before=2).seconds_left is None

    @pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (100, "2 min"), (7290, "2 h 2 min")])
    def test_durations(self, seconds, text):
        assert duration(seconds) == text

    def test_no_score(self, tmp_path):
        (outcome,) = Inline(tmp_path, {"erm": "run"}).run(CELLS[:1])
        outcome.record["selections"]["ood_val"]["scores"]["ood_val"] = None
        assert describe(outcome) == "no OOD validation score, 8 s"


def test_the_suite_of_these_tests_is_what_they_think():
    assert len(CELLS) == len(tiny(ROWS).rows()) * 2 == 6
