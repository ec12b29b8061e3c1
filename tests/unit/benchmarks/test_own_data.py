"""Anybody's data through the same door as the benchmarks."""

import json
from pathlib import Path

import pytest
import torch
from rdkit import Chem
from tests.command import call
from tests.graphs import TASKS

import mphil
from mphil.errors import DataError, UnknownName, UsageError
from mphil.graphs.split import PARTS
from mphil.testing import random_graphs

RINGS = ("c1ccccc1", "c1ccncc1", "C1CCCCC1", "C1CCOCC1", "c1ccsc1", "c1cc[nH]c1", "C1CC1", "c1ccc2ccccc2c1", "C1CCNC1")
TAILS = ("O", "N", "CO", "CN", "CC(=O)O", "C(=O)N", "CCO", "CCN", "CCCO", "OC", "N#CC", "ClC")


def rows(labels=lambda i, j: (i + j) % 2):
    return [(f"{tail}{ring}", labels(i, j)) for i, ring in enumerate(RINGS) for j, tail in enumerate(TAILS)]


def write(path, lines, header="smiles,active"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return str(path)


@pytest.fixture
def table(tmp_path):
    lines = [f"{smiles},{label},b{n % 4}" for n, (smiles, label) in enumerate(rows())]
    lines.insert(5, "C C,1,b0")
    lines.insert(9, "Cc1ccccc1,,b1")
    return write(tmp_path / "my.csv", lines, "smiles,active,batch")


def test_rows_keep_their_number_label_and_molecule(table):
    data = mphil.benchmark("own-data", path=table, targets=["active"])
    lines = Path(table).read_text().splitlines()[1:]
    assert len(data.store) == len(lines) - 1
    assert data.split.provenance["unusable_rows"] == [5]
    for position, row in enumerate(data.store.index.tolist()):
        smiles, label, _ = lines[row].split(",")
        assert data.store.smiles[position] == Chem.CanonSmiles(smiles)
        found = float(data.store.y[position, 0])
        assert (str(int(found)) if found == found else "") == label
    assert (data.task.kind, data.task.metric, data.classes) == ("binary", "roc_auc", ("0", "1"))
    assert all(data.split.sizes[part] for part in PARTS)


def test_scaffolds_stay_on_one_side_of_the_shift(table):
    data = mphil.benchmark("own-data", path=table)
    domain = data.store.extras["domain_id"]
    outside = [set(domain[data.split[part]].tolist()) for part in ("ood_val", "ood_test")]
    inside = set(domain[torch.cat([data.split[part] for part in ("train", "id_val", "id_test")])].tolist())
    assert not inside & outside[0]
    assert not inside & outside[1]
    assert not outside[0] & outside[1]
    assert len(data.store.env[data.split.train].unique()) > 1


@pytest.mark.parametrize("split", ["size", "random", "batch"])
def test_other_splits(table, split):
    data = mphil.benchmark("own-data", path=table, split=split)
    assert data.split.provenance["split"] == split
    assert sum(data.split.sizes.values()) == len(data.store)


def test_several_columns_with_gaps_are_several_tasks(tmp_path):
    lines = [f"{smiles},{label if n % 3 else ''},{1 - label}" for n, (smiles, label) in enumerate(rows())]
    data = mphil.benchmark("own-data", path=write(tmp_path / "a.csv", lines, "smiles,one,two"))
    assert (data.task.kind, data.task.n_tasks) == ("multitask", 2)
    assert int(data.store.y[:, 0].isnan().sum()) == len(lines) // 3


def test_text_classes(tmp_path):
    lines = [f"{s},{('low', 'mid', 'top')[y]}" for s, y in rows(lambda i, j: (i + j) % 3)]
    data = mphil.benchmark("own-data", path=write(tmp_path / "a.csv", lines), targets=["active"])
    assert (data.task.kind, data.classes) == ("multiclass", ("low", "mid", "top"))


def test_a_folder_of_graphs(tmp_path):
    store = random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(60)])
    store.save(tmp_path / "graphs")
    data = mphil.benchmark("own-data", path=str(tmp_path / "graphs"))
    assert data.split.provenance["split"] == "size"
    assert torch.equal(data.store.y, store.y)
    small = data.store.n_nodes[data.split.ood_test].float().mean()
    assert small < data.store.n_nodes[data.split.train].float().mean()
    with pytest.raises(UsageError, match="graphs have no columns"):
        mphil.benchmark("own-data", path=str(tmp_path / "graphs"), smiles="smiles")


def test_no_labels(tmp_path):
    path = write(tmp_path / "a.csv", [f"{smiles}," for smiles, _ in rows()])
    with pytest.raises(DataError, match="no column looks like a label; name it with --target"):
        mphil.benchmark("own-data", path=path)


class TestMeasurements:
    @pytest.fixture
    def measured(self, tmp_path):
        lines = [f"{smiles},{n / 7:.3f},{label},{n % 3},5.5" for n, (smiles, label) in enumerate(rows())]
        return write(tmp_path / "a.csv", lines, "smiles,pIC50,active,grade,flat")

    def test_a_measured_column_is_a_regression_in_its_unit(self, measured):
        data = mphil.benchmark("own-data", path=measured, targets=["pIC50"])
        assert (data.task.kind, data.task.metric, data.classes) == ("regression", "rmse", ())
        y = data.store.y[data.split.train].double()
        assert data.task.means[0] == pytest.approx(y.mean().item())
        assert data.task.scales[0] == pytest.approx(y.std(correction=0).item())
        labels = data.statistics()["parts"]["train"]["labels"]
        assert labels[0]["count"] == len(y)
        assert labels[0]["highest"] == pytest.approx(y.max().item())

    def test_several_columns_as_numbers(self, measured):
        data = mphil.benchmark("own-data", path=measured, targets=["pIC50", "grade"], task="regression")
        assert (data.task.kind, data.task.n_outputs, data.task.metric) == ("regression", 2, "r2")
        assert len(data.task.means) == 2

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"targets": ["pIC50"], "task": "classification"}, DataError, "'pIC50' is a measurement, not a class"),
            ({"targets": ["pIC50", "active"]}, DataError, "'pIC50' is measured and 'active' has classes, and they can"),
            ({"targets": ["flat"], "task": "regression"}, DataError, "all measurements of 'flat' are alike"),
            ({"targets": ["pIC50"], "task": "ranking"}, UnknownName, "unknown task 'ranking'"),
            ({"targets": ["pIC50"], "task": "regression", "threshold": 3.0}, UsageError, "give one of them"),
        ],
    )
    def test_refused(self, measured, options, error, message):
        with pytest.raises(error, match=message):
            mphil.benchmark("own-data", path=measured, **options)


def test_an_empty_target_and_a_mixture(tmp_path):
    lines = [f"{smiles},{label},,{n % 3}" for n, (smiles, label) in enumerate(rows())]
    path = write(tmp_path / "a.csv", lines, "smiles,one,none,three")
    with pytest.raises(DataError, match="'none' has no label at all"):
        mphil.benchmark("own-data", path=path, targets=["none"])
    with pytest.raises(DataError, match="'three' has more than two classes"):
        mphil.benchmark("own-data", path=path, targets=["one", "three"])


def test_wrong_names(table, tmp_path):
    with pytest.raises(UsageError, match="no file given"):
        mphil.benchmark("own-data")
    with pytest.raises(UnknownName, match="activ"):
        mphil.benchmark("own-data", path=table, targets=["activ"])
    with pytest.raises(UnknownName, match="scafold"):
        mphil.benchmark("own-data", path=table, split="scafold")
    with pytest.raises(DataError, match="none of the 2 rows can be used"):
        mphil.benchmark("own-data", path=write(tmp_path / "b.csv", ["C C,1", "X,0"]), smiles="smiles")


def test_the_command_trains_on_a_file_and_takes_it_up_again(table, tmp_path):
    small = ["--set", "train.epochs=1", "--set", "encoder.width=8", "--set", "train.batch_size=20"]
    place = ["--out", str(tmp_path / "run"), "--method", "erm", "--fast", "--no-baselines", "--json"]
    done = call("train", table, "--split", "batch", *place, *small)
    assert done.code == 0, done.err
    result = json.loads(done.out)["result"]
    assert result["config"]["benchmark"]["args"]["split"] == "batch"
    assert call("evaluate", str(tmp_path / "run" / "erm")).code == 0
    assert call("resume", str(tmp_path / "run" / "erm")).code == 0
    for wrong, message in (
        (["train", table, "--benchmark", "good-motif-basis"], "give one of them"),
        (["train", "--benchmark", "good-motif-basis", "--split", "size"], "--split goes with a file"),
        (["train", str(tmp_path / "absent.csv")], "no such file"),
    ):
        refused = call(*wrong)
        assert refused.code == 2
        assert message in refused.err
