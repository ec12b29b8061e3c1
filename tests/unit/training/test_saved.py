"""What a folder gives back: the same scores, predictions in order, and no quiet surprises."""

import csv
import io
import json
import shutil

import pytest
import torch
from tests.toys import SMALL, small_benchmark

import mphil
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.training.run import evaluate_run, load_run, stored_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    data = mphil.benchmark("good-motif-basis", graphs=200)
    return mphil.train(data, "mphil", out=tmp_path_factory.mktemp("runs") / "first", **SMALL)


@pytest.fixture
def copied(finished, tmp_path):
    """The run in a folder that may be damaged."""
    return shutil.copytree(finished.folder, tmp_path / "copy")


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def change_config(folder, change):
    stored = json.loads((folder / "config.json").read_text())
    change(stored)
    (folder / "config.json").write_text(json.dumps(stored))


class TestLoading:
    @pytest.mark.parametrize("rule", ["ood_val", "id_val"])
    def test_scores_are_those_of_the_result(self, finished, rule):
        assert evaluate_run(finished.folder, rule) == (finished.scores[rule], "accuracy")

    def test_settings_data_and_method_come_back(self, finished):
        config, data, method = load_run(finished.folder)
        assert config == finished.config
        assert data.store.digest() == finished.benchmark.store.digest()
        assert not method.training
        weights = finished.method.state_dict()
        assert all(torch.equal(weights[name], tensor) for name, tensor in method.state_dict().items())

    def test_threads_of_the_caller_change_no_score(self, finished):
        torch.set_num_threads(2)
        try:
            assert evaluate_run(finished.folder)[0] == finished.scores["ood_val"]
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)

    def test_unknown_rule(self, finished):
        with pytest.raises(UnknownName, match="unknown selection rule 'ood_vall'; did you mean ood_val"):
            load_run(finished.folder, "ood_vall")

    def test_before_the_first_epoch(self, copied):
        shutil.rmtree(copied / "checkpoint")
        with pytest.raises(UsageError, match="no epoch was chosen on ood_val yet; go on with `mphil resume"):
            load_run(copied)

    def test_a_rule_whose_part_is_empty(self, tmp_path):
        mphil.train("good-motif-basis-no-shift", "erm", benchmark={"graphs": 200}, out=tmp_path / "r", **SMALL)
        _, data = stored_run(tmp_path / "r")
        empty = [rule for rule in ("ood_val", "id_val") if not data.split.sizes[rule]]
        for rule in empty:
            with pytest.raises(UsageError, match=f"has no {rule} part to choose an epoch on"):
                evaluate_run(tmp_path / "r", rule)
        assert empty

    @pytest.mark.parametrize(
        "change",
        [
            lambda stored: stored["config"]["train"].update(lr=0.5),
            lambda stored: stored["config"]["benchmark"]["args"].update(graphs=210),
            lambda stored: stored.update(fingerprint="0"),
        ],
    )
    def test_settings_that_were_changed(self, copied, change):
        change_config(copied, change)
        with pytest.raises(IntegrityError, match="not those of the run"):
            load_run(copied)

    @pytest.mark.parametrize("change", [{"name": "good-motif-bass"}, {"args": {"grafs": 3}}])
    def test_a_benchmark_that_is_none(self, copied, change):
        change_config(copied, lambda stored: stored["config"]["benchmark"].update(change))
        with pytest.raises(IntegrityError, match="cannot be built again"):
            load_run(copied)

    def test_a_run_on_data_made_by_hand(self, tmp_path):
        mphil.train(small_benchmark(), "erm", out=tmp_path / "r", **SMALL)
        with pytest.raises(IntegrityError, match="cannot be built again"):
            stored_run(tmp_path / "r")

    def test_damaged_weights(self, copied):
        path = next((copied / "checkpoint").glob("best-ood_val-*"))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(IntegrityError, match="does not match its checksum"):
            load_run(copied)
        assert path.read_bytes() == data
