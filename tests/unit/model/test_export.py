"""Exported models are asked as a stranger would ask them: the file, plain tensors, nothing of ours."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch_geometric.data import Batch, Data

from mphil.errors import DataError, UnknownName, UsageError
from mphil.model.bundle import write_bundle
from mphil.model.estimator import MPHILClassifier
from mphil.model.export import Export, export_model, format_of, largest_differences, sample
from mphil.model.predictor import Predictor
from mphil.model.tracing import TensorModel
from mphil.trust.calibration import Calibration
from tests.bundles import bundle_of, trained
from tests.command import call
from tests.graphs import random_store

ROOT = Path(__file__).parents[3]
BATCHES = {
    "one": ["CCO"],
    "lone atom": ["C"],
    "no bond at all": ["C", "[Na+].[Cl-]", "O"],
    "some": ["CCO", "C", "c1ccncc1"],
    "many": ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "O=C1CCCN1"] * 13,
}


@pytest.fixture(scope="module")
def predictors():
    return {name: Predictor(bundle_of(trained(name))) for name in ("erm", "mphil")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def erm(predictors, folder) -> Export:
    return export_model(predictors["erm"], folder / "erm.pt2")


@pytest.fixture(scope="module")
def mphil_(predictors, folder) -> Export:
    return export_model(predictors["mphil"], folder / "mphil.pt2")


def joined(predictor, smiles) -> dict[str, torch.Tensor]:
    """The tensors of molecules, put into a batch by PyG."""
    batch = Batch.from_data_list(predictor.read(smiles).store.to_pyg())
    return {"x": batch.x, "edge_index": batch.edge_index, "ptr": batch.ptr, "edge_attr": batch.edge_attr}


def torch_model(path):
    module = torch.export.load(path).module()
    return lambda inputs: [value.detach().numpy() for value in module(*inputs.values())]


def onnx_model(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["x", "edge_index", "ptr", "edge_attr"]
    outputs = ["logits", "embedding"]
    return lambda inputs: session.run(outputs, {name: value.numpy() for name, value in inputs.items()})


def agree(predictor, ask):
    for smiles in BATCHES.values():
        original = predictor.outputs(predictor.read(smiles).store)
        logits, embedding = ask(joined(predictor, smiles))
        np.testing.assert_allclose(logits, original.logits, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(embedding, original.embedding, atol=1e-5, rtol=1e-5)


def test_torch_file_says_what_erm_says(predictors, erm):
    agree(predictors["erm"], torch_model(erm.path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoder",
    [{"kind": "gcn"}, {"readout": "attention"}, {"readout": "max"}, {"kind": "gat"}],
    ids=lambda encoder: "-".join(encoder.values()),
)
def test_files_say_what_other_encoders_and_readouts_say(encoder, tmp_path):
    predictor = Predictor(bundle_of(trained("erm", encoder=encoder)))
    agree(predictor, torch_model(export_model(predictor, tmp_path / "model.pt2").path))
    agree(predictor, onnx_model(export_model(predictor, tmp_path / "model.onnx").path))


def test_torch_file_says_what_mphil_says(predictors, mphil_):
    agree(predictors["mphil"], torch_model(mphil_.path))


@pytest.mark.slow
def test_onnx_file_says_what_erm_says(predictors, folder):
    made = export_model(predictors["erm"], folder / "erm.onnx")
    assert made.facts["kind"] == "onnx"
    agree(predictors["erm"], onnx_model(made.path))
    assert str(ROOT).encode() not in made.path.read_bytes()


@pytest.mark.slow
def test_onnx_file_says_what_mphil_says(predictors, folder):
    made = export_model(predictors["mphil"], folder / "mphil.onnx")
    agree(predictors["mphil"], onnx_model(made.path))


def test_graphs_whose_edges_carry_nothing(folder):
    graphs = random_store("multiclass", graphs=60, nodes="constant").to_pyg()
    model = MPHILClassifier("erm", epochs=1, width=8, layers=2).fit(graphs, [int(graph.y) for graph in graphs])
    made = export_model(model.predictor_, folder / "graphs.pt2")
    assert [one["name"] for one in made.facts["inputs"]] == ["x", "edge_index", "ptr"]
    assert "random graphs" in made.facts["check"]["graphs"]
    triangle = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]))
    batch = Batch.from_data_list([triangle, Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long))])
    logits, _ = torch.export.load(made.path).module()(batch.x, batch.edge_index, batch.ptr)
    shares = model.bundle_.trust.calibration.apply(logits.detach().double().numpy())
    np.testing.assert_allclose(model.predict_proba(batch.to_data_list()), shares, atol=1e-5)


def test_the_description_is_enough_to_use_the_file(predictors, erm):
    facts = json.loads(erm.about.read_text())
    assert facts == json.loads(json.dumps(erm.facts))
    assert erm.about.name == "erm.pt2.json"
    assert facts["sha256"] == hashlib.sha256(erm.path.read_bytes()).hexdigest()
    assert facts["inputs"][0] | {"codes": None} == {"name": "x", "type": "int64", "shape": ["nodes", 9], "codes": None}
    assert facts["inputs"][2] == {"name": "ptr", "type": "int64", "shape": ["graphs + 1"]}
    assert (facts["outputs"], facts["method"], facts["task"]) == (["logits", "embedding"], "erm", "binary")
    assert Calibration.from_dict(facts["calibration"]) == predictors["erm"].bundle.trust.calibration
    assert 0 <= erm.difference == max(facts["check"]["largest_difference"].values()) < 1e-5


def test_files_do_not_tell_where_they_were_made(mphil_):
    with zipfile.ZipFile(mphil_.path) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert contents
    assert not any(str(ROOT).encode() in one for one in contents)


def test_nothing_is_written_that_disagrees(predictors, folder):
    class Drifting(Predictor):
        def network(self, store):
            found = super().network(store)
            found.logits[-1] += 2e-4 * max(1, abs(float(found.logits[-1, 0])))
            return found

    with pytest.raises(DataError, match="the torch model differs from the original by 0.0002"):
        export_model(Drifting(predictors["erm"].bundle), folder / "drift.pt2")
    assert not list(folder.glob("drift*"))


def test_a_number_that_is_none_does_not_pass(predictors):
    predictor = predictors["erm"]
    model = TensorModel(predictor.method, predictor.bundle.config.encoder)

    def ask(inputs):
        logits, embedding = (value.detach().numpy() for value in model(*inputs))
        return [logits, np.full_like(embedding, np.nan)]

    found = largest_differences(predictor, model, ask, sample(predictor).stores)
    assert found["logits"] < 1e-5
    assert found["embedding"] == np.inf


def test_a_method_that_cannot_be_traced_says_so(folder, capfd):
    predictor = Predictor(bundle_of(trained("gsat", epochs=1)))
    with pytest.raises(UsageError, match=r"torch.export cannot follow gsat: .+"):
        export_model(predictor, folder / "gsat.pt2")
    assert not list(folder.glob("gsat*"))
    assert capfd.readouterr().err == ""


def test_missing_packages_are_named(predictors, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"onnxruntime is missing: install the extra, pip install 'mphil\[export\]'"):
        export_model(predictors["erm"], folder / "missing.onnx")


def test_the_format_goes_by_the_name(folder, predictors):
    assert [format_of(Path(name)) for name in ("a.pt2", "b.ONNX")] == ["torch", "onnx"]
    with pytest.raises(UsageError, match=r"model.bin: name it .pt2 for torch.export or .onnx"):
        format_of(Path("model.bin"))
    with pytest.raises(UnknownName, match="unknown export format 'tensorflow'"):
        export_model(predictors["erm"], folder / "x.pt2", "tensorflow")
    with pytest.raises(UsageError, match="is a folder"):
        export_model(predictors["erm"], folder, "torch")


def test_the_command(predictors, folder):
    write_bundle(folder / "bundle", predictors["erm"].bundle)
    ended = call("export", folder / "bundle", "--out", folder / "new" / "model.bin", "--format", "torch")
    assert (ended.code, ended.err) == (0, "")
    assert "largest difference from the original:" in ended.out
    assert (folder / "new" / "model.bin.json").is_file()
    refused = call("export", folder / "bundle", "--out", folder / "model.bin")
    assert (refused.code, "name it .pt2" in refused.err) == (2, True)
    nothing = call("export", folder / "none", "--out", folder / "model.pt2")
    assert (nothing.code, "no bundle here" in nothing.err) == (2, True)
