"""Graphs cut in two by the scores of their edges."""

from __future__ import annotations

import pytest
import torch

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.nn.encoders import build_encoder
from mphil.nn.rationale import Extractor, cut, node_importance, split_layers, unmoved_statistics
from tests.graphs import random_store, small_encoder, whole
from tests.unit.nn.test_scorers import joined


def test_every_edge_is_in_one_part_with_what_it_weighs_there():
    batch = joined([(0, 1), (1, 0), (1, 2), (2, 1), (4, 5), (5, 4)], [3, 1, 2])
    weight = torch.tensor([0.9, 0.2, 0.6, 0.3, 0.8, 0.7], requires_grad=True)
    kept = torch.tensor([True, False, True, False, False, False])
    first, second = cut(batch, weight, kept)
    torch.testing.assert_close(first.edge_weight, torch.tensor([0.9, 0.6]))
    torch.testing.assert_close(second.edge_weight, torch.tensor([0.8, 0.7, 0.2, 0.3]))
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert second.nodes.tolist() == [0, 1, 2, 3, 4, 5]
    assert first.graphs.ptr.numel() == second.graphs.ptr.numel() == 4
    (first.edge_weight.sum() + 2 * second.edge_weight.sum()).backward()
    assert weight.grad.tolist() == [1, -2, 1, -2, -2, -2]


def test_the_extractor_keeps_the_best_edges_of_each_graph():
    store = random_store()
    batch = whole(store)
    torch.manual_seed(0)
    extractor = Extractor(small_encoder(store), 0.4)
    nodes, weight, kept = extractor(batch)
    torch.testing.assert_close(nodes, extractor.encoder(batch))
    torch.testing.assert_close(weight, extractor.scorer(nodes, batch).sigmoid())
    for g in range(len(store)):
        own = batch.batch[batch.edge_index[0]] == g
        count = -(-int(own.sum()) * 2 // 5)
        assert kept[own].sum() == count
        if 0 < count < own.sum():
            assert weight[own & kept].min() >= weight[own & ~kept].max()


def test_importance_counts_edges_that_are_not_kept_as_nothing():
    batch = joined([(0, 1), (1, 0), (1, 2), (2, 1)], [4])
    found = node_importance(torch.tensor([0.8, 0.4, 0.6, 0.2]), torch.tensor([True, True, True, False]), batch)
    torch.testing.assert_close(found, torch.tensor([0.6, 0.45, 0.3, 0.0]))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_that_keeps_nothing_or_more_than_all_is_refused(share):
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        Extractor(EncoderConfig(width=4), share)


@pytest.mark.parametrize(
    ("kind", "layers", "rest", "rest_kind"),
    [("gin", 3, 1, "gin"), ("vgin", 3, 1, "gin"), ("vgin", 5, 3, "vgin"), ("gin", 1, 1, "gin"), ("vgin", 4, 2, "gin")],
)
def test_two_layers_score_and_the_others_classify(kind, layers, rest, rest_kind):
    first, second = split_layers(EncoderConfig(kind=kind, layers=layers, width=4, dropout=0.5))
    assert (first.kind, first.layers, first.dropout) == ("gin", 2, 0.0)
    assert (second.kind, second.layers, second.dropout) == (rest_kind, rest, 0.5)
    EncoderConfig.model_validate(second.model_dump())


def test_statistics_stay_and_everything_else_is_as_in_training():
    store = random_store(nodes="categorical", edges="categorical")
    batch = whole(store)
    encoder = build_encoder(small_encoder(store, layers=3, kind="vgin"))
    running = {name: value.clone() for name, value in encoder.named_buffers() if "running" in name}
    with unmoved_statistics(encoder):
        inside = encoder(batch)
    assert running
    assert all(torch.equal(value, encoder.get_buffer(name)) for name, value in running.items())
    torch.testing.assert_close(inside, encoder(batch))
    assert not any(torch.equal(value, encoder.get_buffer(name)) for name, value in running.items())
    with pytest.raises(ZeroDivisionError), unmoved_statistics(encoder):
        raise ZeroDivisionError
    assert {norm.momentum for norm in encoder.norms} == {0.1}
