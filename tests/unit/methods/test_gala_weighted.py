"""The classifier of weighted edges, step by step."""

from __future__ import annotations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods.gala import WeightedClassifier
from mphil.nn.masks import subgraph
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import gradient_size


def built(keep, sees):
    store = random_store(edges="categorical")
    torch.manual_seed(0)
    model = WeightedClassifier(TASKS["multiclass"], small_encoder(store), keep, sees).double().eval()
    return model, whole(store, torch.float64)


@pytest.mark.parametrize("sees", ["raw", "features"])
@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_the_second_network_sees_the_graph_through_the_weights_of_the_first(keep, sees):
    model, batch = built(keep, sees)
    nodes = model.encoder(batch)
    weights = model.scorer(nodes, batch).sigmoid()
    edges = batch.edge_index.T.tolist()
    kept = torch.zeros(len(edges), dtype=torch.bool)
    for g in range(len(batch.y)):
        own = sorted((e for e, (u, _) in enumerate(edges) if batch.batch[u] == g), key=lambda e: -weights[e])
        kept[own[: -int(-keep * len(own) // 1)]] = True
    part, rows = subgraph(batch, kept) if keep < 1 else (batch, torch.arange(len(nodes)))
    assert kept.sum() == batch.edge_index.shape[1] if keep == 1 else 0 < kept.sum() < len(edges)
    out = model.classifier(part, x=nodes[rows] if sees == "features" else None, edge_weight=weights[kept])
    expected = torch.zeros(len(batch.y), out.shape[1], dtype=out.dtype)
    for g in range(len(batch.y)):
        own = out[part.batch == g]
        expected[g] = own.mean(0) if len(own) else 0.0
    torch.testing.assert_close(model.embed(batch), expected)


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_scores_learn_from_the_classifier(keep):
    model, batch = built(keep, "raw")
    model.head(model.embed(batch)).square().sum().backward()
    for network in (model.encoder, model.scorer, model.classifier, model.head):
        assert gradient_size(network) > 0


@pytest.mark.parametrize("keep", [0.0, -1.0, 1.5])
def test_a_share_is_a_share(keep):
    with pytest.raises(UsageError, match="share"):
        built(keep, "raw")
