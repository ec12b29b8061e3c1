"""A training on a file that is continued from what its folder records; kills are in `tests/fault/test_tool.py`."""

import json
import shutil

import pytest

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.model.product import finished_product, prepare, prepare_again, train_product
from tests.command import call
from tests.products import SET, TINY, binary_table, make, molecules, write_table

ERM = {"method": {"name": "erm"}, **TINY}


@pytest.fixture
def begun(tmp_path):
    """A table, and the folder of a training that was interrupted before its bundle was written."""
    table = binary_table(tmp_path / "a.csv")
    made = make(table, tmp_path / "out", method="erm", split="random", id="name")
    shutil.rmtree(made.path)
    record = json.loads((made.folder / "product.json").read_text())
    (made.folder / "product.json").write_text(json.dumps({**record, "finished": False}))
    return table, made.folder


def test_everything_that_was_told_is_told_again(begun):
    table, out = begun
    prepared, told = prepare_again(out)
    wanted = {"benchmark": {"path": str(table), "split": "random", "id": "name"}, **ERM}
    assert (prepared.wanted, told) == (wanted, {"members": 0, "baselines": False})
    assert prepared.config == prepare(wanted).config
    made = train_product(prepared, out, **told)
    assert made.bundle.references.names is not None, "the column of names is no setting of a run, and is kept"


def test_a_finished_one_says_so(product, tmp_path):
    out = shutil.copytree(product.folder, tmp_path / "out")
    before = (out / "bundle" / "manifest.json").stat().st_mtime_ns
    ended = call("resume", out)
    assert ended.code == 0, ended.err
    assert f"{out} is finished; there is nothing to continue" in ended.out
    assert "next: mphil predict" in ended.out
    assert "mphil explain" in ended.out
    found = json.loads(call("resume", out, "--json").out)
    assert found["result"] == json.loads((out / "mphil" / "result.json").read_text())
    assert (out / "bundle" / "manifest.json").stat().st_mtime_ns == before


def test_an_interrupted_one_is_finished_by_the_command(begun):
    _, out = begun
    assert finished_product(out) is None
    ended = call("resume", out)
    assert ended.code == 0, ended.err
    assert "a.csv: 108 rows, 106 molecules; 2 rows excluded" in ended.out
    assert finished_product(out).bundle.config.method.name == "erm"


def test_trees_too(tmp_path):
    table = binary_table(tmp_path / "a.csv")
    assert call("train", table, "--method", "forest", "--out", tmp_path / "out").code == 0
    found = json.loads(call("resume", tmp_path / "out", "--json").out)
    assert (found["result"], list(found["scores"])) == (None, ["random forest"])


def test_files_that_changed_or_went_are_refused_by_name(tmp_path):
    table = write_table(tmp_path / "a.csv", {"smiles": molecules(), "active": [i % 2 for i in range(108)]})
    test = write_table(tmp_path / "test.csv", {"smiles": ["CCO", "CCN", "CCCO"] * 9, "active": [0, 1, 0] * 9})
    parts = write_table(tmp_path / "p.csv", {"smiles": molecules(), "part": ["train", "train", "val", "val"] * 27})
    wanted = {"benchmark": {"path": str(table), "test": str(test), "split": str(parts)}, **ERM}
    out = tmp_path / "out"
    train_product(prepare(wanted), out, baselines=False)
    record = json.loads((out / "product.json").read_text())
    (out / "product.json").write_text(json.dumps({**record, "finished": False}))
    for path in (table, test, parts):
        before = path.read_bytes()
        path.write_bytes(before + b"CCO,1\n")
        with pytest.raises(IntegrityError, match=f"{path.name} has changed since .* restore it, or train into another"):
            prepare_again(out)
        path.unlink()
        with pytest.raises(DataError, match=f"{path.name}, of which .* is gone; put it back, or train into another"):
            prepare_again(out)
        path.write_bytes(before)
    assert prepare_again(out)[0].config.method.name == "erm"


def test_records_that_say_too_little_or_are_damaged(begun):
    _, out = begun
    (out / "product.json").write_text('{"format": 1, "method": "erm"}')
    with pytest.raises(UsageError, match="does not say how it was made; give its `mphil train FILE` command again"):
        prepare_again(out)
    (out / "product.json").write_text('{"format": 1, "method": "erm", "wanted": {}}')
    with pytest.raises(IntegrityError, match=r"product.json cannot be read"):
        prepare_again(out)


def test_a_training_that_is_refused_leaves_the_record(begun):
    table, out = begun
    before = json.loads((out / "product.json").read_text())
    ended = call("train", table, "--method", "erm", "--fast", "--out", out, *[w for s in SET for w in ("--set", s)])
    assert ended.code == 4, ended.err
    assert json.loads((out / "product.json").read_text()) == before
