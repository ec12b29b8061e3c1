"""Record files: whole lines only, whatever happens to their writers."""

import json
import multiprocessing
import resource

import pytest

from mphil.lab.records import RecordFile, parse, read_folder, render
from mphil.provenance import NUMERICS
from tests.unit.lab.made import cells, record, refused

CELLS = cells()


@pytest.fixture
def file(tmp_path):
    return RecordFile(tmp_path / "results" / "tiny.jsonl")


def numbered(number):
    return record(CELLS[0]) | {"cell": f"{number:04d}"}


class TestAppend:
    def test_what_is_appended_is_read(self, file):
        assert file.append(record(CELLS[0]))
        assert file.append(refused(CELLS[1]))
        assert file.read() == ([record(CELLS[0]), refused(CELLS[1])], [])

    def test_a_record_says_where_it_comes_from(self):
        made = record(CELLS[0])
        assert made["numerics"] == NUMERICS
        assert made.keys() >= {"commit", "dirty"}

    def test_other_numerics_are_left_out_and_counted(self, file):
        first = record(CELLS[0])
        file.append(first)
        for number, numerics in enumerate([None, None, NUMERICS + 1]):
            other = numbered(number) | {"numerics": numerics}
            file.append({key: value for key, value in other.items() if value is not None})
        left_out = [
            f"tiny.jsonl: 2 records of numerics 0 (before they had a number), 1 record of numerics {NUMERICS + 1} "
            f"left out; this is numerics {NUMERICS}"
        ]
        assert file.read() == read_folder(file.path.parent) == ([first], left_out)
        assert file.cells() == {first["cell"]}

    def test_numerics_are_a_number(self):
        with pytest.raises(ValueError, match="'one' is no version of the numerics"):
            parse(json.dumps(record(CELLS[0]) | {"numerics": "one"}).encode())

    def test_a_cell_counts_once(self, file):
        assert file.append(record(CELLS[0]))
        before = file.path.read_bytes()
        assert not file.append(record(CELLS[0], 0.9))
        assert file.path.read_bytes() == before

    def test_no_number_that_json_does_not_have(self, file):
        with pytest.raises(ValueError, match="JSON"):
            file.append(record(CELLS[0], float("nan")))
        assert not file.path.exists()

    def test_two_writers(self, file):
        """Four processes write the same fifty cells: every line is whole, every cell is there once."""
        context = multiprocessing.get_context("fork")
        writers = [context.Process(target=_write_all, args=(file, start)) for start in (0, 13, 26, 39)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        found, problems = file.read()
        assert [writer.exitcode for writer in writers] == [0] * 4
        assert problems == []
        assert sorted(r["cell"] for r in found) == [f"{n:04d}" for n in range(50)]


def _write_all(file, start):
    for number in range(50):
        file.append(numbered((start + number) % 50))


class TestTorn:
    @pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
    def test_the_torn_line_goes_and_the_cell_can_come_again(self, file, share, caplog):
        file.append(numbered(1))
        line = json.dumps(numbered(2)).encode()
        with file.path.open("ab") as stream:
            stream.write(line[: int(share * len(line))])
        assert file.cells() == {"0001"}
        assert len(file.read()[1]) == 1
        assert file.append(numbered(2))
        assert file.read() == ([numbered(1), numbered(2)], [])
        assert "the last line was torn" in caplog.text

    def test_a_whole_line_without_its_end_is_kept(self, file):
        file.append(numbered(1))
        file.path.write_bytes(file.path.read_bytes().rstrip(b"\n"))
        assert not file.append(numbered(1))
        assert file.append(numbered(2))
        assert file.read() == ([numbered(1), numbered(2)], [])

    def test_a_full_disk_leaves_the_file_as_it_was(self, file):
        """A limit on the size of files stands for a disk without space."""
        file.append(numbered(1))
        before = file.path.read_bytes()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
        try:
            with pytest.raises(OSError, match=r"(No space|File too large).*tiny\.jsonl"):
                file.append(numbered(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert file.path.read_bytes() == before
        assert file.append(numbered(2))

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match="exists|Not a directory"):
            RecordFile(tmp_path / "file" / "x.jsonl").append(numbered(1))


class TestReading:
    def test_broken_lines_are_named_with_their_place(self, file):
        file.append(numbered(1))
        file.append(numbered(2))
        lines = file.path.read_bytes().splitlines()
        file.path.write_bytes(b"\n".join([lines[0], b'{"cell": ', b"[1]", b'{"kind": "run"}', b"", lines[1]]) + b"\n")
        found, problems = file.read()
        assert [r["cell"] for r in found] == ["0001", "0002"]
        assert [problem.partition(" not")[0] for problem in problems] == [f"tiny.jsonl:{n}:" for n in (2, 3, 4, 5)]
        assert "it lacks cell, setting" in problems[2]

    def test_no_file_is_no_record(self, tmp_path):
        assert RecordFile(tmp_path / "none.jsonl").read() == ([], [])
        assert read_folder(tmp_path / "none") == ([], [])

    def test_a_folder(self, tmp_path):
        RecordFile(tmp_path / "a.jsonl").append(numbered(1))
        RecordFile(tmp_path / "b.jsonl").append(numbered(1))
        RecordFile(tmp_path / "b.jsonl").append(numbered(2))
        RecordFile(tmp_path / "a.failed.jsonl").append(numbered(3))
        (tmp_path / "compare-x.jsonl").write_text('{"command": "mphil train", "benchmark": "x"}\n')
        found, problems = read_folder(tmp_path)
        assert sorted(r["cell"] for r in found) == ["0001", "0002"]
        assert problems == ["b.jsonl: cell 0001 has two records that agree; the first is taken"]

    def test_records_that_disagree_are_named(self, tmp_path):
        RecordFile(tmp_path / "a.jsonl").append(record(CELLS[0], 0.5))
        RecordFile(tmp_path / "b.jsonl").append(record(CELLS[0], 0.6))
        found, problems = read_folder(tmp_path)
        assert found == [record(CELLS[0], 0.5)]
        assert "two records that disagree" in problems[0]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"last": None}, "no scores"),
            ({"selections": []}, "no scores"),
            ({"last": {"epoch": 1, "scores": {"ood_test": "0.5"}}}, "'0.5' is no score"),
            ({"last": {"epoch": 1, "scores": {"ood_test": True}}}, "'True' is no score"),
        ],
    )
    def test_scores_are_numbers(self, change, said):
        with pytest.raises(ValueError, match=said):
            parse(json.dumps(numbered(1) | change).encode())

    @pytest.mark.parametrize("key", ["seed", "last", "seconds", "config", "budget", "split_digest", "metric", "row"])
    def test_what_a_report_needs_is_asked_for(self, key):
        lacking = {name: value for name, value in numbered(1).items() if name != key}
        with pytest.raises(ValueError, match=f"it lacks {key}"):
            parse(json.dumps(lacking).encode())

    def test_parse_says_what_is_wrong(self):
        with pytest.raises(ValueError, match="broken JSON: 'nonsense'"):
            parse(b"nonsense")


class TestChecksum:
    """A line says what it holds: another digit of a score is no other score."""

    def test_every_flipped_bit_is_noticed(self):
        line = render(record(cells()[0]))
        whole = parse(line)
        for place in range(len(line) - 1):
            for bit in range(8):
                spoilt = bytearray(line)
                spoilt[place] ^= 1 << bit
                with pytest.raises(ValueError, match="."):
                    parse(bytes(spoilt))
        assert parse(line) == whole == record(cells()[0])

    def test_lines_of_before_have_none(self):
        assert parse(json.dumps(record(cells()[0])).encode()) == record(cells()[0])
