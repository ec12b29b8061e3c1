"""What networks read of whole molecules: the numbers, where they come from, and runs that use them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mphil
from mphil.chem import describe
from mphil.chem.parse import parse_smiles
from mphil.errors import UsageError
from mphil.graphs.store import DERIVED, GraphBatch, GraphStore
from mphil.methods import Progress, build_method
from mphil.methods.base import Parts
from mphil.nn import descriptors
from mphil.nn.descriptors import Descriptors
from mphil.tables.from_smiles import molecule_store, with_descriptors
from mphil.task import Task
from tests.graphs import small_encoder
from tests.products import molecules

SMILES = molecules()[:40]
TASK = Task("binary", 1, "roc_auc")
METHODS = {"erm": {}, "mphil+": {"pooled": True}}


@pytest.fixture(scope="module")
def store():
    found, _ = molecule_store(SMILES, [int("N" in one) for one in SMILES])
    return with_descriptors(found)


def batch_of(counts, numbers):
    return GraphBatch(
        counts=torch.tensor(counts, dtype=torch.uint8), descriptors=torch.tensor(numbers, dtype=torch.float32)
    )


def test_sizes_are_those_of_the_features_of_trees():
    assert (descriptors.COUNTS, descriptors.NUMBERS) == (describe.COUNTS, describe.DESCRIPTORS)


def test_a_store_gives_them_to_every_batch_and_neither_saves_nor_hashes_them(store, tmp_path):
    plain, _ = molecule_store(SMILES, [int("N" in one) for one in SMILES])
    assert plain.digest() == store.digest()
    store.save(tmp_path / "store")
    assert not set(DERIVED) & GraphStore.load(tmp_path / "store").extras.keys()
    rows = torch.tensor([3, 0, 7])
    batch, mols = store.batch(rows), [parse_smiles(SMILES[i]) for i in rows]
    np.testing.assert_array_equal(batch.counts.numpy(), describe.morgan_counts(mols))
    np.testing.assert_array_equal(batch.descriptors.numpy(), describe.descriptors(mols))
    assert "counts" not in plain.batch(rows)
    assert with_descriptors(store) is store


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**31))
def test_input_is_as_written(parts, seed):
    """Against NumPy in double precision, whatever the batches that the statistics come from."""
    draw = np.random.default_rng(seed)
    counts = draw.poisson(0.3, (30, descriptors.COUNTS)).astype(np.uint8)
    numbers = (draw.normal(size=(30, descriptors.NUMBERS)) * 100 + 1000).astype(np.float32)
    numbers[:, 5] = 7.0
    block = Descriptors(4)
    pieces = np.array_split(np.arange(30), parts)
    block.fit([batch_of(counts[rows], numbers[rows]) for rows in pieces])
    common = (counts > 0).sum(0) >= descriptors.RARE
    spread = numbers.astype(np.float64).std(0)
    spread[5] = 1.0
    standard = ((numbers - numbers.astype(np.float64).mean(0)) / spread).clip(-4, 4)
    expected = np.concatenate([np.log1p(counts) * common, standard], 1)
    seen = []
    block.layers.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    block.eval()(batch_of(counts, numbers))
    np.testing.assert_allclose(seen[0].numpy(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", METHODS)
def test_logits_are_a_linear_map_of_graph_and_descriptors(name, store):
    torch.manual_seed(0)
    plain = build_method(name, TASK, small_encoder(store), METHODS[name]).eval()
    whole = build_method(name, TASK, small_encoder(store), METHODS[name] | {"descriptors": True}).eval()
    assert (plain.takes_descriptors, whole.takes_descriptors) == (False, True)
    whole.load_state_dict({k: v for k, v in plain.state_dict().items() if not k.startswith("head")}, strict=False)
    batch = store.batch(torch.arange(len(store)))
    with torch.no_grad():
        both = torch.cat([plain.embed(batch), whole.descriptors(batch)], 1)
        torch.testing.assert_close(whole.predict(batch), whole.head(both))
    whole.loss(batch, Progress()).total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in whole.descriptors.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_descriptors_belong_to_no_node(name, store):
    """They may turn a decision, and with it what speaks for it; they do not move one node against another."""
    torch.manual_seed(0)
    plain = build_method(name, TASK, small_encoder(store), METHODS[name]).eval()
    whole = build_method(name, TASK, small_encoder(store), METHODS[name] | {"descriptors": True}).eval()
    whole.load_state_dict({k: v for k, v in plain.state_dict().items() if not k.startswith("head")}, strict=False)
    batch = store.batch(torch.arange(len(store)))
    with torch.no_grad():
        told = plain.head.weight.shape[1]
        whole.head.weight[:, :told], whole.head.weight[:, told:] = plain.head.weight, 50.0
        whole.head.bias.fill_(-float((whole.predict(batch) - whole.head.bias).mean()))
        signs = plain.predict(batch).sign(), whole.predict(batch).sign()
    assert not torch.equal(*signs)
    before, after = (
        one.node_importance(batch) * sign[batch.batch, 0] for one, sign in zip((plain, whole), signs, strict=True)
    )
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_prediction_does_not_depend_on_the_batch(name, store):
    method = build_method(name, TASK, small_encoder(store), METHODS[name] | {"descriptors": True})
    method.prepare(Parts([store.batch(torch.arange(len(store)))]))
    with torch.no_grad():
        together = method.eval().predict(store.batch(torch.arange(12)))
        alone = torch.cat([method.predict(store.batch(torch.tensor([i]))) for i in range(12)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_graphs_that_are_no_molecules_are_refused():
    data = mphil.benchmark("good-motif-basis", graphs=300)
    with pytest.raises(UsageError, match=r"descriptors are of molecules.*method\.descriptors=false"):
        mphil.train(data, {"name": "erm", "descriptors": True}, train={"epochs": 1})
    method = build_method("erm", data.task, small_encoder(data.store), {"descriptors": True})
    with pytest.raises(UsageError, match="these graphs carry none"):
        method.predict(data.store.batch(torch.arange(3)))


def test_a_run_resumes_with_the_same_bits_and_is_another_one_without(tmp_path):
    data = mphil.benchmark("decoy-scaffold", graphs=200)

    class Cut(mphil.Callback):
        def on_epoch(self, history, progress):
            if len(history) == 1:
                raise KeyboardInterrupt

    def run(folder, *, wanted=True, **options):
        settings = {"train": {"epochs": 3, "batch_size": 32}, "encoder": {"width": 8, "layers": 1}}
        return mphil.train(data, {"name": "mphil+", "descriptors": wanted}, out=folder, **settings, **options)

    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", callbacks=[Cut()])
    again = run(tmp_path / "cut", resume=True)
    state = whole.method.state_dict()
    assert all(torch.equal(state[name], value) for name, value in again.method.state_dict().items())
    assert again.scores == whole.scores
    plain = run(tmp_path / "plain", wanted=False)
    assert plain.result["fingerprint"] != whole.result["fingerprint"]
    assert plain.result["data_digest"] == whole.result["data_digest"]
    assert math.isfinite(again.scores["id_val"]["ood_test"])
