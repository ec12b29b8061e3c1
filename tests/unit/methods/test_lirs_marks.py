"""Marked nodes, graph by graph."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.methods.lirs import marked, rank_in_graph, top_nodes
from tests.graphs import random_store, whole


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 99))
def test_the_best_nodes_of_every_graph(graphs, slots, seed):
    batch = whole(random_store(graphs=graphs, seed=seed))
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (len(batch.batch),), generator=draw).float()
    marks = top_nodes(scores, batch, slots)
    rank = rank_in_graph(scores, batch)
    chosen = set()
    for g in range(graphs):
        own = [v for v in range(len(scores)) if batch.batch[v] == g]
        order = sorted(own, key=lambda v: -scores[v])
        assert [int(rank[v]) for v in order] == list(range(len(own)))
        kept = order[:slots]
        assert marks[g].tolist() == [v - own[0] + 1 for v in kept] + [0] * (slots - len(kept))
        chosen |= set(kept)
    assert set(marked(marks, batch).nonzero().flatten().tolist()) == chosen, "all of them, not one a graph"


def test_a_graph_without_marks():
    batch = whole(random_store(graphs=3))
    marks = top_nodes(torch.rand(len(batch.batch)), batch, 2)
    marks[1] = 0
    found = marked(marks, batch)
    assert not found[batch.batch == 1].any()
    assert found[batch.batch == 0].any()
    assert not marked(torch.zeros_like(marks), batch).any()
