"""Weights that encoders start from."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.toys import small_benchmark

import mphil
from mphil.benchmarks.own_data import ENCODER
from mphil.chem.schema import GOOD
from mphil.config import EncoderConfig
from mphil.errors import IntegrityError, UsageError
from mphil.graphs.features import Features
from mphil.methods import build_method
from mphil.nn.encoders import build_encoder
from mphil.task import Task
from mphil.training.recipe import MOLECULES, SHAPE, Misfit, check_start, read_start, start_digest, start_from
from mphil.training.run import fingerprint, stored_run
from mphil.training.settings import resolve


@pytest.fixture(scope="module")
def data():
    return small_benchmark()


@pytest.fixture
def encoder(data):
    return EncoderConfig(layers=2, width=8, node=data.store.node_features, edge=data.store.edge_features)


@pytest.fixture
def file(encoder, tmp_path):
    torch.manual_seed(7)
    return written(build_encoder(encoder), encoder, tmp_path / "weights.safetensors")


def written(network, encoder, path):
    shape = encoder.model_dump(mode="json", include=set(SHAPE))
    save_file(dict(network.state_dict()), path, {"encoder": json.dumps(shape)})
    return str(path)


def settings(start, data, **train):
    wanted = {"method": {"name": "erm"}, "encoder": {"layers": 2, "width": 8}, "train": {"epochs": 1, "start": start}}
    return resolve({**wanted, "train": wanted["train"] | train}, data)[0]


@pytest.mark.parametrize("name", ["erm", "mphil", "mphil+", "gsat"])
def test_encoders_of_all_methods_get_the_weights(name, data, encoder, file):
    method = build_method(name, data.task, encoder, {})
    start_from(method, encoder, file)
    weights = read_start(encoder, file)
    held = [module for module in method.modules() if module.state_dict().keys() == weights.keys()]
    assert held
    for module in held:
        for key, value in module.state_dict().items():
            assert torch.equal(value, weights[key])


def test_an_encoder_of_another_depth_keeps_its_own(data, encoder, file):
    method = build_method("mphil+", data.task, encoder, {"keep": 0.5, "gate_layers": 1})
    before = {name: value.clone() for name, value in method.gate_encoder.state_dict().items()}
    start_from(method, encoder, file)
    assert all(torch.equal(value, before[name]) for name, value in method.gate_encoder.state_dict().items())


def test_a_run_starts_there(data, encoder, file):
    """With a learning rate of almost nothing, the encoder stays at the weights; without a start it is elsewhere."""
    weights = read_start(encoder, file)
    options = {"epochs": 1, "batch_size": 15, "lr": 1e-12, "schedule": "constant"}
    config = {"layers": 2, "width": 8}
    run = mphil.train(data, "erm", encoder=config, train=options | {"start": file})
    for name, value in run.method.encoder.named_parameters():
        assert torch.allclose(value, weights[name], atol=1e-6)
    other = mphil.train(data, "erm", encoder=config, train=options)
    assert any(
        not torch.allclose(value, weights[name], atol=1e-3) for name, value in other.method.encoder.named_parameters()
    )


def test_the_identity_of_a_run_has_the_content(data, encoder, file, tmp_path):
    torch.manual_seed(8)
    other = written(build_encoder(encoder), encoder, tmp_path / "other.safetensors")
    copied = tmp_path / "copied.safetensors"
    copied.write_bytes((tmp_path / "weights.safetensors").read_bytes())
    prints = [fingerprint(settings(start, data), data) for start in (file, str(copied), other, "")]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
    assert start_digest(file) != start_digest(other)


def test_a_run_is_read_and_resumed_with_the_weights_it_started_from_alone(tmp_path):
    data = mphil.benchmark("good-motif-basis", graphs=300)
    encoder = EncoderConfig(layers=2, width=8, node=data.store.node_features, edge=data.store.edge_features)
    file, folder = tmp_path / "weights", tmp_path / "run"
    options = {"encoder": {"layers": 2, "width": 8}, "train": {"epochs": 1, "batch_size": 60, "start": str(file)}}
    written(build_encoder(encoder), encoder, file)
    content = file.read_bytes()
    mphil.train(data, "erm", out=folder, **options)
    written(build_encoder(encoder), encoder, file)
    with pytest.raises(IntegrityError, match=r"the weights in train.start or the numerics of mphil are not those"):
        stored_run(folder)
    with pytest.raises(IntegrityError, match=r"numerics of mphil, or other weights in train.start=.*weights\)"):
        mphil.train(data, "erm", out=folder, resume=True, **options)
    file.unlink()
    with pytest.raises(IntegrityError, match=r"started from cannot be read \(.*No such file.*put the file back"):
        stored_run(folder)
    file.write_bytes(content)
    assert stored_run(folder)[0].train.start == str(file)


def test_the_file_may_be_gone_once_a_run_has_begun(data, file, tmp_path):
    class Remove(mphil.Callback):
        def on_step(self, *given):
            Path(file).unlink(missing_ok=True)

    options = {"epochs": 1, "batch_size": 15, "start": file}
    run = mphil.train(data, "erm", encoder={"layers": 2, "width": 8}, train=options, callbacks=[Remove()])
    assert not Path(file).exists()
    assert run.result["fingerprint"]


def test_a_file_is_found_from_any_folder(data, file, monkeypatch):
    monkeypatch.chdir(Path(file).parent)
    assert settings(Path(file).name, data).train.start == file
    assert [settings(start, data).train.start for start in ("", MOLECULES)] == ["", MOLECULES]


class TestRefusals:
    @pytest.mark.parametrize("name", ["dir", "ciga-v2"])
    def test_a_method_without_such_an_encoder(self, name, data, encoder, tmp_path):
        encoder = encoder.model_copy(update={"layers": 4})
        file = written(build_encoder(encoder), encoder, tmp_path / "deep")
        method = build_method(name, data.task, encoder, {})
        message = f"no encoder of {name} has the shape of these weights; leave out train.start, or use another method"
        for refused in (start_from, check_start):
            with pytest.raises(Misfit, match=message):
                refused(method, encoder, file)

    def test_a_file_that_describes_itself_wrongly(self, data, encoder, tmp_path):
        narrow = build_encoder(encoder.model_copy(update={"width": 4}))
        method = build_method("erm", data.task, encoder, {})
        with pytest.raises(Misfit, match="no encoder of erm has the shape"):
            start_from(method, encoder, written(narrow, encoder, tmp_path / "wrong"))

    @pytest.mark.parametrize("described", ["[1]", "7", "null", "{"])
    def test_settings_that_are_none(self, encoder, tmp_path, described):
        save_file({"a": torch.zeros(2)}, tmp_path / "odd", {"encoder": described})
        with pytest.raises(UsageError, match="not a file of pretrained weights .*; give molecules or a file"):
            read_start(encoder, str(tmp_path / "odd"))

    def test_a_name_that_no_file_can_have(self, encoder):
        with pytest.raises(UsageError, match="train.start=.*null"):
            read_start(encoder, "a\0b")

    def test_no_file(self, encoder, tmp_path):
        with pytest.raises(UsageError, match=r"train.start=.*No such file.*give molecules or a file"):
            read_start(encoder, str(tmp_path / "none"))

    @pytest.mark.parametrize("content", [b"", b"abc", b"\x10" + bytes(7) + b"{}" + bytes(14), b"\xff" * 50])
    def test_another_file(self, encoder, tmp_path, content):
        path = tmp_path / "other"
        path.write_bytes(content)
        with pytest.raises(UsageError, match="not a file of pretrained weights"):
            read_start(encoder, str(path))

    def test_weights_without_their_settings(self, encoder, tmp_path):
        save_file({"a": torch.zeros(2)}, tmp_path / "bare")
        with pytest.raises(UsageError, match="not a file of pretrained weights"):
            read_start(encoder, str(tmp_path / "bare"))

    def test_another_width(self, encoder, file):
        with pytest.raises(UsageError, match=r"its weights need encoder.width=8; set that, or leave out train.start"):
            read_start(encoder.model_copy(update={"width": 16}), file)

    def test_graphs_that_are_no_molecules(self, data):
        with pytest.raises(UsageError, match="nodes of this data carry something else; leave out train.start"):
            read_start(EncoderConfig(node=data.store.node_features, edge=data.store.edge_features), MOLECULES)


def test_the_packaged_weights_fit_the_encoder_for_tables():
    encoder = EncoderConfig(
        **ENCODER,
        node=Features(GOOD.kind, GOOD.atom_sizes, GOOD.name),
        edge=Features(GOOD.kind, GOOD.bond_sizes, GOOD.name),
    )
    method = build_method("erm", Task("binary", 1, "roc_auc"), encoder, {})
    start_from(method, encoder, MOLECULES)
    assert all(torch.isfinite(value).all() for value in method.state_dict().values())


def test_the_packaged_weights_have_a_record():
    records = Path(__file__).parents[3] / "benchmarks" / "results" / "pretraining.jsonl"
    assert json.loads(records.read_text().splitlines()[-1])["weights"] == start_digest(MOLECULES)
