"""What cannot be trained is refused at once, with what was seen and what to do."""

import time
from importlib.metadata import version

import pytest

from mphil.training.process import lock_run
from tests.command import call
from tests.products import binary_table, molecules, write_table

SMILES = molecules()


@pytest.fixture
def few(tmp_path):
    return write_table(tmp_path / "few.csv", {"smiles": SMILES[:20], "active": [0, 1] * 10})


def refused(code, *arguments):
    started = time.process_time()
    ended = call("train", *arguments)
    assert time.process_time() - started < 5, "no time is spent on training"
    assert (ended.code, ended.out) == (code, "")
    assert len(ended.err.splitlines()) == 1
    return ended.err


def test_twenty_rows(few, tmp_path):
    assert "20 rows, and 50 are needed" in refused(3, few, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("word", "label"), [(1, "1"), ("active", "active"), ("aktiv", "aktiv")])
def test_one_class(tmp_path, word, label):
    table = write_table(tmp_path / "a.csv", {"smiles": SMILES, "hit": [word] * len(SMILES)})
    told = refused(3, table, "--target", "hit", "--out", tmp_path / "out")
    assert f"all 108 labels of 'hit' are {label}: nothing can be learned" in told
    assert "--target" in told


def test_no_side_of_the_threshold(tmp_path):
    table = write_table(tmp_path / "a.csv", {"smiles": SMILES, "p": [5 + i / 100 for i in range(len(SMILES))]})
    assert "all 108 labels of 'p' are inactive" in refused(3, table, "--target", "p", "--threshold", "9")


def test_a_wrong_column(few):
    assert "did you mean active" in refused(2, few, "--target", "activ")


def test_a_folder_in_use(tmp_path):
    table, out = binary_table(tmp_path / "a.csv"), tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert "out is not empty (thesis.txt); choose another --out" in refused(2, table, "--out", out)
    (out / "thesis.txt").unlink()
    (out / "product.json").write_text('{"format": 1, "method": "erm"}')
    assert "holds a training of erm, not of mphil" in refused(2, table, "--out", out)
    with lock_run(out):
        assert "is in use by process" in refused(4, table, "--method", "erm", "--out", out)
    assert "is a file; choose another --out" in refused(2, table, "--out", table)


def test_the_folder_is_looked_at_before_the_table(tmp_path):
    (tmp_path / "broken.csv").write_bytes(b"\0\1")
    (tmp_path / "other").write_text("")
    assert "is not empty" in refused(2, tmp_path / "broken.csv", "--out", tmp_path)


def test_version():
    ended = call("--version")
    assert (ended.code, ended.out.strip()) == (0, f"mphil {version('mphil')}")


@pytest.mark.parametrize("verb", ["train", "check"])
def test_help_says_what_happens_without_an_option(verb):
    told = " ".join(call(verb, "--help").out.replace("│", " ").split())
    for default in ("(default: detected)", "[default: standardise]"):
        assert default in told
