"""Checkpoints under kill -9, flipped bits and missing files; optimisers that go on as if nothing had happened."""

import copy
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from mphil.errors import IntegrityError
from mphil.training.checkpoint import MANIFEST, Checkpoints, flatten_optimizer, restore_optimizer

WRITER = Path(__file__).with_name("checkpoint_writer.py")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoint")


@pytest.fixture
def written(checkpoints):
    groups = {"state": {"weight": torch.arange(6.0).reshape(2, 3)}, "best-ood_val": {"weight": torch.ones(2)}}
    checkpoints.write(groups, {"step": 5, "scores": [0.1, None, 1e-5], "note": "Ångström"})
    return checkpoints


def tensor_files(checkpoints):
    return sorted(checkpoints.folder.glob("*.safetensors"))


def test_what_is_written_is_read(written):
    assert written.exists()
    assert written.groups() == ["state", "best-ood_val"]
    assert written.meta() == {"step": 5, "scores": [0.1, None, 1e-5], "note": "Ångström"}
    assert torch.equal(written.load("state")["weight"], torch.arange(6.0).reshape(2, 3))
    assert torch.equal(written.load("best-ood_val")["weight"], torch.ones(2))


@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=5), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_tensor_survives_bit_for_bit(tmp_path_factory, kinds, data):
    seed = data.draw(st.integers(0, 2**32))
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"t{i}": torch.randint(0, 2, shape, generator=generator).to(dtype) for i, (dtype, shape) in enumerate(kinds)
    }
    checkpoints = Checkpoints(tmp_path_factory.mktemp("any"))
    checkpoints.write({"state": tensors}, {})
    loaded = checkpoints.load("state")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)


def test_strided_and_shared_tensors_and_special_values(checkpoints):
    matrix = torch.tensor([[float("nan"), float("inf")], [-0.0, 1e-45]])
    checkpoints.write({"state": {"a": matrix.T, "b": matrix, "c": matrix.requires_grad_()[0]}}, {})
    loaded = checkpoints.load("state")
    assert torch.equal(loaded["a"].contiguous().view(torch.int32), matrix.detach().T.contiguous().view(torch.int32))
    assert not any(tensor.requires_grad for tensor in loaded.values())


def test_groups_not_given_are_kept_and_old_files_removed(written):
    best = written.folder / json.loads((written.folder / MANIFEST).read_text())["files"]["best-ood_val"]["file"]
    stamp = best.stat().st_mtime_ns
    stray = written.folder / "notes.safetensors"
    stray.write_text("not ours")
    (written.folder / ".checkpoint.json.draft-0123456789ab").write_text("half")
    written.write({"state": {"weight": torch.zeros(3)}}, {"step": 6})
    assert written.meta() == {"step": 6}
    assert torch.equal(written.load("state")["weight"], torch.zeros(3))
    assert best.stat().st_mtime_ns == stamp
    assert len(list(written.folder.iterdir())) == 4, "manifest, two groups and the stray file"
    assert stray.exists()


def test_equal_contents_have_equal_names(written):
    before = [path.name for path in tensor_files(written)]
    written.write({"state": written.load("state")}, {"step": 6})
    assert [path.name for path in tensor_files(written)] == before


def test_keys_of_meta_become_strings(checkpoints):
    checkpoints.write({}, {"by_epoch": {1: "a", 10: "b", 2: "c"}})
    assert checkpoints.meta() == {"by_epoch": {"1": "a", "10": "b", "2": "c"}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), torch.ones(1)])
def test_what_json_cannot_hold_changes_nothing(written, value):
    with pytest.raises((ValueError, TypeError)):
        written.write({"state": {"weight": torch.zeros(1)}}, {"step": value})
    assert written.meta()["step"] == 5
    assert len(written.load("state")["weight"]) == 2


@pytest.mark.parametrize("group", ["", "../up", "a/b", ".hidden", "a b"])
def test_group_names_are_file_names(checkpoints, group):
    with pytest.raises(ValueError, match="cannot be a file name"):
        checkpoints.write({group: {}}, {})
    assert not checkpoints.exists()


def test_nothing_written_yet(checkpoints):
    assert not checkpoints.exists()
    with pytest.raises(IntegrityError, match="cannot be read"):
        checkpoints.meta()


def test_full_disk_keeps_the_old_checkpoint(written, monkeypatch):
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            written.write(
                {"state": {"weight": torch.zeros(1)}, "best-ood_val": {"weight": torch.zeros(1)}}, {"step": 6}
            )
    assert written.meta()["step"] == 5
    assert torch.equal(written.load("best-ood_val")["weight"], torch.ones(2))
    written.write({}, {"step": 7})
    assert len(tensor_files(written)) == 2, "what the failed attempt wrote is gone"


def sampled_positions(path, n=60):
    size = path.stat().st_size
    return sorted({*range(min(12, size)), size - 1, *random.Random(0).sample(range(size), min(n, size))})


def assert_damage_is_found(checkpoints, path):
    with pytest.raises(IntegrityError) as caught:
        [checkpoints.load(group) for group in checkpoints.groups()]
    assert path.name in str(caught.value)
    assert "train again" in str(caught.value) or "another --out" in str(caught.value)


@pytest.mark.parametrize("which", ["manifest", "tensors"])
def test_every_flipped_byte_is_found(written, which):
    path = written.folder / MANIFEST if which == "manifest" else tensor_files(written)[1]
    sound = path.read_bytes()
    positions = range(len(sound)) if which == "manifest" else sampled_positions(path)
    for position in positions:
        damaged = bytearray(sound)
        damaged[position] ^= (1 << (position % 8), 0x20, 0xFF)[position % 3]
        path.write_bytes(damaged)
        assert_damage_is_found(written, path)
    path.write_bytes(sound)
    assert written.load("state")


@pytest.mark.parametrize("which", ["manifest", "tensors"])
def test_every_truncation_and_addition_is_found(written, which):
    path = written.folder / MANIFEST if which == "manifest" else tensor_files(written)[1]
    sound = path.read_bytes()
    for length in sampled_positions(path, 20):
        path.write_bytes(sound[:length])
        assert_damage_is_found(written, path)
    path.write_bytes(sound + b"\n")
    assert_damage_is_found(written, path)


def test_missing_tensors_are_found_and_damage_is_never_overwritten(written):
    path = tensor_files(written)[1]
    path.unlink()
    assert_damage_is_found(written, path)
    manifest = written.folder / MANIFEST
    manifest.write_text("{}")
    with pytest.raises(IntegrityError):
        written.write({"state": {}}, {"step": 6})
    assert manifest.read_text() == "{}"


def signed(body):
    """A manifest with a right checksum: what someone else, or another version, could have written."""
    text = json.dumps(body, indent=1)
    return json.dumps({**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=1) + "\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version 99, this mphil reads 1"),
        ({"files": {"state": {"file": "../../secret", "sha256": "", "bytes": 1}}}, "no checkpoint's"),
        ({"files": {"state": {"file": "state-0123456789abcdef.safetensors"}}}, "no checkpoint's"),
        ({"files": []}, "no checkpoint's"),
        ({"meta": 3}, "no checkpoint's"),
    ],
)
def test_manifests_of_others(written, change, message):
    body = json.loads((written.folder / MANIFEST).read_text())
    del body["sha256"]
    (written.folder / MANIFEST).write_text(signed(body))
    assert written.meta()["step"] == 5, "the test signs as the library does"
    (written.folder / MANIFEST).write_text(signed(body | change))
    with pytest.raises(IntegrityError, match=message):
        written.meta()


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "3", "{}", '{"version": 1}', '{"version": 1, "sha256": 0, "a": NaN}']
)
def test_manifests_that_are_none(written, text):
    (written.folder / MANIFEST).write_text(text)
    assert_damage_is_found(written, written.folder / MANIFEST)


class Writer:
    """The other process of `checkpoint_writer.py`."""

    def __init__(self, folder):
        command = [sys.executable, str(WRITER), str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, step):
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def exit_code(self):
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=10)


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    writer = Writer(tmp_path_factory.mktemp("killed"))
    writer.folder = Path(writer.process.args[-1])
    yield writer
    writer.close()


def assert_complete(folder):
    """Whatever was written last is there in full: tensors of the step that the manifest tells. Gives the step."""
    checkpoints = Checkpoints(folder)
    if not checkpoints.exists():
        return 0
    meta, state, best = checkpoints.meta(), checkpoints.load("state"), checkpoints.load("best")
    assert state["step"] == meta["step"]
    assert (state["weight"] == meta["step"]).all()
    assert (best["weight"] == meta["best"]).all()
    assert meta["step"] - 3 < meta["best"] <= meta["step"]
    return meta["step"]


def test_end_at_every_step_on_the_disk(writer):
    step, ends = 0, 0
    while True:
        ends += 1
        writer.start(ends)
        code = writer.exit_code()
        now = assert_complete(writer.folder)
        assert now >= step
        step = now
        if code == 0:
            break
        assert code == 9
    assert ends > 12, "two checkpoints take more steps on the disk than that"


def test_kill_at_any_moment(writer):
    moments = random.Random(1)
    step = assert_complete(writer.folder)
    first = step
    for _ in range(12):
        child = writer.start(0)
        time.sleep(moments.uniform(0.0, 0.15))
        os.kill(child, signal.SIGKILL)
        assert writer.exit_code() == -signal.SIGKILL
        now = assert_complete(writer.folder)
        assert now >= step
        step = now
    assert step > first, "no checkpoint was completed: the test saw nothing"
    Checkpoints(writer.folder).write({}, Checkpoints(writer.folder).meta())
    assert len(list(writer.folder.iterdir())) == 3, "the next checkpoint removes what the killed left"


OPTIMIZERS = {
    "adam": lambda groups: torch.optim.Adam(groups, lr=1e-2, betas=(0.8, 0.95)),
    "adam fused": lambda groups: torch.optim.Adam(groups, lr=1e-2, fused=True),
    "adam amsgrad": lambda groups: torch.optim.Adam(groups, lr=1e-2, amsgrad=True, weight_decay=0.1),
    "adam tensor rate": lambda groups: torch.optim.Adam(groups, lr=torch.tensor(1e-2), capturable=False, foreach=False),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1e-2),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1e-2),
    "sgd momentum": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9, nesterov=True),
}


def training(kind, seed=0):
    """A small network with two parameter groups, one of which has a learning rate of its own."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    # Parameters that no gradient ever reaches have no state, and must not gain any.
    model.idle = nn.Parameter(torch.ones(2))
    groups = [{"params": [*model[0].parameters(), model.idle]}, {"params": model[2].parameters(), "lr": 3e-3}]
    return model, OPTIMIZERS[kind](groups)


def train(model, optimizer, steps):
    for step in steps:
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.97


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("before", [0, 4])
def test_training_goes_on_bit_for_bit(checkpoints, kind, before):
    whole, optimizer = training(kind)
    train(whole, optimizer, range(9))

    first, optimizer = training(kind)
    train(first, optimizer, range(before))
    tensors, meta = flatten_optimizer(optimizer)
    checkpoints.write({"model": first.state_dict(), "optimizer": tensors}, {"optimizer": meta})

    second, other = training(kind, seed=1)
    second.load_state_dict(checkpoints.load("model"))
    restore_optimizer(other, checkpoints.load("optimizer"), checkpoints.meta()["optimizer"])
    assert_same(other.state_dict(), optimizer.state_dict())
    train(second, other, range(before, 9))
    assert_same(second.state_dict(), whole.state_dict())


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


def test_restoring_shares_no_memory():
    model, optimizer = training("adam")
    train(model, optimizer, range(2))
    tensors, meta = flatten_optimizer(optimizer)
    copies = copy.deepcopy(tensors)
    other_model, other = training("adam")
    restore_optimizer(other, tensors, meta)
    train(other_model, other, range(3))
    assert_same(tensors, copies)


def test_state_of_another_model_is_refused():
    tensors, meta = flatten_optimizer(training("adam")[1])
    other = torch.optim.Adam(nn.Linear(2, 2).parameters())
    with pytest.raises(IntegrityError, match="other parameters"):
        restore_optimizer(other, tensors, meta)
