"""What a folder gives back: the same scores, predictions in order, and no quiet surprises."""

import csv
import io
import json
import shutil

import pytest
import torch
from tests.toys import SMALL, measured_benchmark, small_benchmark

import mphil
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.graphs.loader import Loader
from mphil.training.prediction import predict_logits
from mphil.training.saved import evaluate_run, load_run, predict_run, prediction_table, stored_run


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
            with pytest.raises(UsageError, match=f"has no {rule} part"):
                predict_run(tmp_path / "r", rule, "ood_val", tmp_path / "p.csv")
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


class TestPredictions:
    def test_one_row_per_graph_in_order(self, finished, tmp_path):
        assert predict_run(finished.folder, "ood_test", "ood_val", tmp_path / "p.csv") == 20
        rows, data = read((tmp_path / "p.csv").read_text()), finished.benchmark
        graphs = data.split.ood_test
        assert list(rows[0]) == ["graph", "label", "prediction", "probability_0", "probability_1", "probability_2"]
        assert [int(row["graph"]) for row in rows] == graphs.tolist()
        assert [int(row["label"]) for row in rows] == data.store.y[graphs, 0].long().tolist()
        chances = torch.tensor([[float(row[f"probability_{c}"]) for c in range(3)] for row in rows])
        logits = predict_logits(finished.method, Loader(data.store, graphs, 7))
        torch.testing.assert_close(chances, logits.softmax(1))
        assert [int(row["prediction"]) for row in rows] == logits.argmax(1).tolist()
        right = sum(row["prediction"] == row["label"] for row in rows)
        assert right / 20 == pytest.approx(finished.scores["ood_val"]["ood_test"])

    def test_molecules_have_their_smiles(self, tmp_path):
        sections = SMALL | {"benchmark": {"graphs": 200}}
        run = mphil.train("decoy-scaffold", "erm", out=tmp_path / "r", **sections)
        predict_run(tmp_path / "r", "id_test", "id_val", tmp_path / "p.csv")
        rows, store = read((tmp_path / "p.csv").read_text()), run.benchmark.store
        assert list(rows[0]) == ["graph", "smiles", "label", "prediction", "probability"]
        graphs = run.benchmark.split.id_test.tolist()
        assert [row["smiles"] for row in rows] == [store.smiles[graph] for graph in graphs]
        assert all((float(row["probability"]) > 0.5) == (row["prediction"] == "1") for row in rows)

    def test_several_tasks_with_missing_labels(self):
        data = small_benchmark("multitask", missing=0.3)
        graphs = torch.tensor([7, 3, 90])
        logits = torch.tensor([[0.0, 2.0, -3.0, 1.0], [1.0, -1.0, 1.0, -1.0], [9.0, 9.0, 9.0, 9.0]])
        rows = read(prediction_table(data, graphs, logits))
        columns = [f"{kind}_{t}" for t in range(4) for kind in ("label", "prediction", "probability")]
        assert list(rows[0]) == ["graph", *columns]
        assert [row["graph"] for row in rows] == ["7", "3", "90"]
        for row, graph, outputs in zip(rows, graphs.tolist(), logits.tolist(), strict=True):
            for t, output in enumerate(outputs):
                label = data.store.y[graph, t]
                assert row[f"label_{t}"] == ("" if label.isnan() else str(int(label)))
                assert row[f"prediction_{t}"] == str(int(output > 0))
                assert float(row[f"probability_{t}"]) == pytest.approx(1 / (1 + 2.718281828459045**-output))
        assert data.store.y[graphs].isnan().any()

    def test_a_regression_is_written_in_its_unit(self):
        data = measured_benchmark(2, missing=0.5)
        graphs, outputs = torch.tensor([7, 3]), torch.tensor([[0.0, 1.0], [-1.0, 0.5]])
        rows = read(prediction_table(data, graphs, outputs))
        assert list(rows[0]) == ["graph", "label_0", "predicted_0", "label_1", "predicted_1"]
        expected = data.task.to_units(outputs.double().numpy())
        for row, labels, values in zip(rows, data.store.y[graphs].tolist(), expected.tolist(), strict=True):
            assert [float(row["predicted_0"]), float(row["predicted_1"])] == pytest.approx(values)
            assert [row[f"label_{t}"] for t in range(2)] == ["" if y != y else str(y) for y in labels]

    def test_unknown_part(self, finished, tmp_path):
        with pytest.raises(UnknownName, match="unknown part 'ood_tset'; did you mean ood_test"):
            predict_run(finished.folder, "ood_tset", "ood_val", tmp_path / "p.csv")
        assert not (tmp_path / "p.csv").exists()
