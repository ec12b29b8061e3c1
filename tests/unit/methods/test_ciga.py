"""CIGA v1 and v2 against their definitions, and what the public versions get wrong."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.methods import Progress
from mphil.methods.ciga import CIGAv1, CIGAv2
from mphil.nn import rationale
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import gradient_size, known_labels, label_loss, make, mean, risk, same

KINDS = sorted(TASKS)
VARIANTS = [("features", "features"), ("raw", "features"), ("features", "representation")]
START = Progress()


def parts(method, batch):
    """Features of all nodes, the representations of both parts, and the nodes of the first."""
    nodes, weight, kept = method.extractor(batch)
    cause, rest = rationale.cut(batch, weight, kept)
    return nodes, method.represent(cause, nodes), method.represent(rest, nodes), cause.nodes.tolist()


def written_contrast(u, y):
    """Over all tasks and all anchors that share their label with another graph."""
    u = [[value / sum(x * x for x in row) ** 0.5 for value in row] for row in u.tolist()]
    terms = []
    for t in range(y.shape[1]):
        known = [i for i, task in known_labels(y) if task == t]
        for i in known:
            others = [j for j in known if j != i]
            positives = [j for j in others if y[i, t] == y[j, t]]
            closeness = {j: sum(a * b for a, b in zip(u[i], u[j], strict=True)) for j in others}
            total = log(sum(exp(value) for value in closeness.values())) if others else 0.0
            terms += [mean([total - closeness[p] for p in positives])] if positives else []
    return mean(terms)


@pytest.mark.parametrize(("classify", "contrast_on"), VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_of_the_first_version(kind, classify, contrast_on):
    method, batch = make(
        CIGAv1, kind, missing=0.3, share=0.6, contrast=4.0, classify=classify, contrast_on=contrast_on, width=3
    )
    nodes, z, _, of_cause = parts(method, batch)
    u = z
    if contrast_on == "features":
        u = torch.zeros_like(z)
        for v in of_cause:
            u[batch.batch[v]] += nodes[v]
    losses = method.loss(batch, START)
    assert set(losses) == {"classification", "contrast"}
    same(losses["classification"], risk(method.head(z), batch.y, method.task))
    same(losses["contrast"], 4.0 * written_contrast(u, batch.y))
    assert losses["contrast"] > 0


def gin_parameters(width, layers, encoder):
    """Of a GIN on embedded nodes: per layer two linear maps, two normalisations, and the embedding of edge codes."""
    codes = sum(encoder.edge.sizes)
    return layers * (width * 2 * width + 2 * width + 4 * width + 2 * width * width + width + 2 * width + codes * width)


@pytest.mark.parametrize(("cls", "heads"), [(CIGAv1, 1), (CIGAv2, 2)])
@pytest.mark.parametrize("classify", ["features", "raw"])
def test_full_networks_are_the_published_ones(cls, heads, classify):
    width, store = 128, random_store("binary", nodes="categorical", edges="categorical")
    encoder = small_encoder(store, layers=4, width=width, readout="sum")
    method = cls(TASKS["binary"], encoder, networks="full", classify=classify)
    embeddings = (2 if classify == "raw" else 1) * sum(encoder.node.sizes) * width
    scorer = (2 * width) * (4 * width) + 4 * width + 4 * width + 1
    head = width * 2 * width + 2 * width + 2 * width + 1
    expected = 2 * gin_parameters(width, 4, encoder) + embeddings + scorer + heads * head
    assert sum(p.numel() for p in method.parameters()) == expected
    divided = cls(TASKS["binary"], encoder, classify="features")
    assert expected > 2 * sum(p.numel() for p in divided.parameters())


@pytest.mark.parametrize("classify", ["features", "raw"])
def test_full_networks_have_the_same_loss(classify):
    method, batch = make(CIGAv1, "binary", missing=0.3, share=0.6, contrast=4.0, classify=classify, networks="full")
    nodes, z, _, of_cause = parts(method, batch)
    u = torch.zeros_like(nodes[: len(z)])
    for v in of_cause:
        u[batch.batch[v]] += nodes[v]
    losses = method.loss(batch, START)
    same(losses["classification"], risk(method.head(z), batch.y, method.task))
    same(losses["contrast"], 4.0 * written_contrast(u, batch.y))


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_version_adds_the_hinge(kind):
    method, batch = make(CIGAv2, kind, missing=0.3, share=0.6, hinge=2.0)
    with torch.no_grad():
        # So that some labels are told better by the rest, and some worse.
        method.head.weight.mul_(3)
        method.rest_head.weight.mul_(3)
    _, z, of_rest, _ = parts(method, batch)
    logits, rest_logits = method.head(z), method.rest_head(of_rest)
    worse = []
    for i, t in known_labels(batch.y):
        cause, rest = (label_loss(rows[i], batch.y[i], t, method.task) for rows in (logits, rest_logits))
        worse += [rest] if rest > cause else []
    assert 0 < len(worse) < len(known_labels(batch.y))
    losses = method.loss(batch, START)
    same(losses["hinge"], 2.0 * mean(worse))
    first, _ = make(CIGAv1, kind, missing=0.3, share=0.6)
    first.load_state_dict(method.state_dict(), strict=False)
    for term, value in first.loss(batch, START).items():
        same(losses[term], value.item())


def test_features_are_summed_over_the_nodes_of_the_part():
    # The authors' code gathers the first rows of the batch: after renumbering, the old numbers are gone.
    method, batch = make(CIGAv1, "multiclass", share=0.3)
    nodes, _, _, of_cause = parts(method, batch)
    assert of_cause != list(range(len(of_cause)))
    given = nodes.detach().requires_grad_()
    _, weight, kept = method.extractor(batch)
    cause, _ = rationale.cut(batch, weight, kept)
    losses, _ = method.invariance(cause, given, batch.y)
    losses["contrast"].backward()
    moved = given.grad.abs().sum(1) > 0
    assert set(moved.nonzero().flatten().tolist()) <= set(of_cause)
    assert max(moved.nonzero().flatten().tolist()) > len(of_cause)


@pytest.mark.parametrize("term", ["classification", "contrast", "hinge"])
def test_every_term_trains_the_extractor(term):
    method, batch = make(CIGAv2, "multiclass", training=True)
    method.loss(batch, START)[term].backward()
    assert gradient_size(method.extractor.encoder) > 0
    # What is contrasted are features, which the weights of edges do not touch.
    assert (gradient_size(method.extractor.scorer) > 0) == (term != "contrast")
    assert (gradient_size(method.rest_head) > 0) == (term == "hinge")


def test_weights_are_squashed_once():
    method, batch = make(CIGAv1, "multiclass", share=1.0)
    nodes, weight, kept = method.extractor(batch)
    torch.testing.assert_close(weight, method.extractor.scorer(nodes, batch).sigmoid())
    cause, rest = rationale.cut(batch, weight, kept)
    assert torch.equal(cause.edge_weight, weight)
    assert rest.edge_weight.numel() == 0


def test_the_rest_leaves_the_statistics_of_prediction_alone():
    second, batch = make(CIGAv2, "multiclass", training=True)
    first, _ = make(CIGAv1, "multiclass", training=True)
    first.load_state_dict(second.state_dict(), strict=False)
    first.loss(batch, START)
    second.loss(batch, START)
    for name, value in first.named_buffers():
        if "running" in name:
            assert torch.equal(value, second.get_buffer(name)), name


@pytest.mark.parametrize("kind", KINDS)
def test_no_label_at_all_costs_nothing(kind):
    method, batch = make(CIGAv2, kind)
    batch.y.fill_(torch.nan)
    losses = method.loss(batch, START)
    losses.total.backward()
    assert losses.total == 0
    assert gradient_size(method) == 0


def test_a_graph_without_label_counts_as_if_it_were_not_there():
    method, _ = make(CIGAv2, "binary")
    store = random_store("binary", nodes="categorical", edges="categorical")
    store.y[[1, 4]] = torch.nan
    batch = whole(store)
    small = store.batch(torch.tensor([i for i in range(len(store)) if i not in (1, 4)]))
    for term, value in method.loss(batch, START).items():
        same(value, method.loss(small, START)[term].item())
