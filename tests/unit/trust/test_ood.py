"""Scores of distance from training against loops, and the words made of them."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.covariance import ledoit_wolf

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.methods import build_method
from mphil.task import Task
from mphil.trust.ood import (
    VERDICTS,
    Bands,
    Gaussian,
    energy,
    knn,
    mahalanobis,
    max_probability,
    prototypes,
    shrunk_covariance,
    tanimoto,
)
from tests.graphs import TASKS, random_store, small_encoder, whole

NAN = math.nan
BINARY = Task("binary", 1, "roc_auc")
THREE = Task("multiclass", 3, "accuracy")
PAIR = Task("multitask", 2, "roc_auc")
LOGITS = arrays.arrays(float, st.tuples(st.integers(0, 5), st.just(3)), elements=st.floats(-60, 60))
few = settings(max_examples=40)


@given(LOGITS)
@few
def test_scores_of_class_logits_against_a_loop(logits):
    energies, doubts = energy(logits, THREE), max_probability(logits, THREE)
    assert energies.shape == doubts.shape == (len(logits),)
    for row, first, second in zip(logits.tolist(), energies, doubts, strict=True):
        total = sum(math.exp(v) for v in row)
        assert first == pytest.approx(-math.log(total), abs=1e-9)
        assert second == pytest.approx(sum(sorted(math.exp(v) / total for v in row)[:-1]), rel=1e-9, abs=1e-300)


@given(LOGITS)
@few
def test_scores_of_yes_or_no_logits_are_means_over_tasks(logits):
    pairs = logits[:, :2]
    energies, doubts = energy(pairs, PAIR), max_probability(pairs, PAIR)
    for row, first, second in zip(pairs.tolist(), energies, doubts, strict=True):
        assert first == pytest.approx(sum(-math.log(math.exp(v / 2) + math.exp(-v / 2)) for v in row) / 2, abs=1e-9)
        assert second == pytest.approx(sum(1 / (1 + math.exp(abs(v))) for v in row) / 2, rel=1e-9)


@given(LOGITS)
@few
def test_which_label_is_called_positive_does_not_matter(logits):
    for score in (energy, max_probability):
        assert (score(-logits[:, :2], PAIR) == score(logits[:, :2], PAIR)).all()


def test_a_sure_prediction_is_told_from_a_surer_one():
    doubts = max_probability([[40.0], [50.0], [60.0]], BINARY)
    assert (np.diff(doubts) < 0).all()


def test_knn_and_tanimoto_are_one_minus_the_similarity():
    assert knn([[3.0, 4.0]], [[1.0, 0.0], [0.0, 5.0], [-1.0, 0.0]], neighbours=2) == pytest.approx([1 - 0.6])
    bits = np.array([[0b111], [0b100]], np.uint8)
    assert tanimoto(bits, np.array([[0b110]], np.uint8)) == pytest.approx([1 / 3, 1 / 2])


def test_prototypes_are_the_methods_own_score():
    torch.manual_seed(0)
    store = random_store("multiclass")
    method = build_method("mphil", TASKS["multiclass"], small_encoder(store), {"prototypes": 2}).eval()
    with torch.no_grad():
        found = prototypes(method.ood_score(whole(store)))
        points, bank = method.embed(whole(store)).tolist(), method.bank()[0].tolist()
    for score, point in zip(found, points, strict=True):
        likelihoods = []
        for slots in bank:
            terms = [math.exp(sum(a * b for a, b in zip(slot, point, strict=True)) / 0.1) for slot in slots]
            likelihoods.append(math.log(sum(terms) / len(terms)))
        assert score == pytest.approx(-max(likelihoods), abs=1e-3)
    with pytest.raises(DataError, match="scores of the method: NaN in row 0"):
        prototypes([NAN])


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 5))
@few
def test_the_shrunk_covariance_equals_scikit_learn(seed, n, size):
    rows = np.random.default_rng(seed).normal(size=(n, size)) * np.arange(1, size + 1)
    expected, _ = ledoit_wolf(rows, assume_centered=True)
    assert shrunk_covariance(rows) == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_the_shrunk_covariance_against_a_loop():
    rows = np.random.default_rng(0).normal(size=(60, 3)) * [1, 2, 3]
    n, size = rows.shape
    plain = sum(np.outer(row, row) for row in rows) / n
    ball = np.trace(plain) / size * np.eye(size)
    spread = sum(((np.outer(row, row) - plain) ** 2).sum() for row in rows) / n**2
    share = min(1, spread / ((plain - ball) ** 2).sum())
    assert 0 < share < 1
    assert shrunk_covariance(rows) == pytest.approx((1 - share) * plain + share * ball)


def loop_mahalanobis(points, references, labels):
    """Nearest class under a covariance shared by all classes, with an inverse."""
    groups = {c: references[labels == c] for c in set(labels.tolist())}
    centred = np.concatenate([rows - rows.mean(0) for rows in groups.values()])
    precision = np.linalg.inv(shrunk_covariance(centred))
    return [min((p - g.mean(0)) @ precision @ (p - g.mean(0)) for g in groups.values()) for p in points]


def test_mahalanobis_against_a_loop():
    generator = np.random.default_rng(0)
    references, points = generator.normal(size=(40, 4)), 2 * generator.normal(size=(7, 4))
    labels = np.where(np.arange(40) < 25, 0.0, 2.0)  # nobody has class 1
    references[labels == 2] += 3
    found = mahalanobis(points, Gaussian.fit(references, labels[:, None], THREE))
    assert found == pytest.approx(loop_mahalanobis(points, references, labels))


def test_graphs_without_labels_are_left_out_unless_none_has_any():
    generator = np.random.default_rng(1)
    references, labels = generator.normal(size=(20, 2)), np.array([0.0, 1.0] * 8 + [NAN] * 4)
    known = Gaussian.fit(references[:16], labels[:16, None], BINARY)
    assert (Gaussian.fit(references, labels[:, None], BINARY).means == known.means).all()
    alone = Gaussian.fit(references, np.full((20, 1), NAN), BINARY)
    assert alone.means == pytest.approx(references.mean(0, keepdims=True))
    several = Gaussian.fit(references, np.stack([labels, labels], 1), PAIR)
    assert several.means.shape == (1, 2)


@pytest.mark.parametrize(
    "references",
    [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [1.0, 5.0]], [[0.0, 0.0]] * 30 + [[0.0, 1.0]] * 30],
)
def test_few_graphs_and_flat_ones_have_a_distance(references):
    gaussian = Gaussian.fit(references, np.zeros((len(references), 1)), BINARY)
    centre = np.mean(references, axis=0)
    near, far, further = mahalanobis(centre + np.outer([0, 1, 2], [1, 0]), gaussian)
    assert near == pytest.approx(0, abs=1e-6)
    assert near < far < further < math.inf


def test_no_training_graph_no_distribution():
    with pytest.raises(DataError, match="no training graph"):
        Gaussian.fit(np.zeros((0, 2)), np.zeros((0, 1)), BINARY)


@given(
    arrays.arrays(float, st.integers(2, 120), elements=st.floats(-5, 5)), st.sampled_from([(0.05, 0.01), (0.3, 0.1)])
)
@few
def test_bands_flag_no_more_than_they_promise(scores, shares):
    """Each of the n + 1 scores is the new one equally often; when there are few, the largest alone is flagged."""
    flagged = [0, 0]
    for row in range(len(scores)):
        bands = Bands.fit(np.delete(scores, row), borderline=shares[0], out=shares[1])
        place = VERDICTS.index(str(bands.verdict(scores[[row]])[0]))
        flagged = [flagged[0] + (place > 0), flagged[1] + (place > 1)]
    for count, share in zip(flagged, shares, strict=True):
        assert count <= max(1, share * len(scores) + 1e-9)


def test_verdicts_written_out():
    bands = Bands.fit(np.arange(1, 200.0))
    assert (bands.borderline, bands.out) == (190, 198)
    found = bands.verdict([-math.inf, 190, 190.5, 198, 198.1, math.inf])
    words = ["in domain", "in domain", "borderline", "borderline", "out of domain", "out of domain"]
    assert found.tolist() == words
    assert bands.verdict([]).tolist() == []


def test_equal_scores_are_all_in_domain():
    bands = Bands.fit([0.3] * 7)
    assert bands.verdict([0.3, 0.2, 0.31]).tolist() == ["in domain", "in domain", "out of domain"]
    assert Bands.fit([1.0]).to_dict() == {"borderline": 1.0, "out": 1.0}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Bands.fit([]), DataError, "no held-out graph"),
        (lambda: Bands.fit([NAN]), DataError, "NaN in row 0"),
        (lambda: Bands.fit([1.0, 2.0]).verdict([NAN]), DataError, "NaN in row 0"),
        (lambda: Bands.fit([1.0], out=0.0), UsageError, "out must be between 0 and 1"),
        (lambda: Bands.fit(np.arange(50.0), borderline=0.1, out=0.5), UsageError, "must not be above"),
        (lambda: Bands(2.0, 1.0), UsageError, "must not be above"),
    ],
)
def test_what_makes_no_bands_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_bands_come_back_from_json_unless_spoiled():
    bands = Bands.fit(np.linspace(0, 1, 37) ** 3)
    assert Bands.from_dict(json.loads(json.dumps(bands.to_dict(), allow_nan=False))) == bands
    for values in ({}, {"borderline": 1.0}, {"borderline": 2.0, "out": 1.0}, {"borderline": NAN, "out": 1.0}):
        with pytest.raises(IntegrityError, match="stored bands cannot be used"):
            Bands.from_dict(values)
