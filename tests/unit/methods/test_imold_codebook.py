"""The codebook against its averages, kept one number at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.methods import imold as module
from mphil.methods.imold import Codebook
from tests.unit.methods.stepping import same


def book(size, width, seed=0, **options):
    torch.manual_seed(seed)
    return Codebook(size, width, **options).double()


def points(n, width, seed=0):
    return torch.randn(n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def written_nearest(vector, words):
    distances = [sum((a - b) ** 2 for a, b in zip(vector, word, strict=True)) for word in words]
    return distances.index(min(distances))


class Written:
    """Counts and sums that follow a stream of batches, in plain Python."""

    def __init__(self, words, decay, smoothing):
        self.words, self.sums, self.counts = words, [list(word) for word in words], [0.0] * len(words)
        self.decay, self.smoothing = decay, smoothing

    def step(self, vectors):
        chosen = [written_nearest(vector, self.words) for vector in vectors]
        for k in range(len(self.words)):
            mine = [vector for vector, word in zip(vectors, chosen, strict=True) if word == k]
            self.counts[k] = self.decay * self.counts[k] + (1 - self.decay) * len(mine)
            for j in range(len(self.sums[k])):
                total = sum(vector[j] for vector in mine)
                self.sums[k][j] = self.decay * self.sums[k][j] + (1 - self.decay) * total
        total = sum(self.counts)
        for k, sums in enumerate(self.sums):
            share = (self.counts[k] + self.smoothing) / (total + len(self.words) * self.smoothing)
            self.words[k] = [value / (share * total) for value in sums]
        return chosen


@settings(max_examples=15, derandomize=True)
@given(
    size=st.integers(1, 6),
    width=st.integers(1, 4),
    n=st.integers(1, 12),
    decay=st.sampled_from([0.5, 0.9]),
    smoothing=st.sampled_from([1e-5, 0.1]),
    seed=st.integers(0, 99),
)
def test_words_follow_the_moving_averages_over_several_batches(size, width, n, decay, smoothing, seed):
    found = book(size, width, seed, decay=decay, smoothing=smoothing)
    written = Written(found.words.tolist(), decay, smoothing)
    for step in range(3):
        vectors = points(n, width, seed + step)
        before = found.words.clone()
        quantised = found(vectors)
        assert quantised.word.tolist() == written.step(vectors.tolist())
        torch.testing.assert_close(quantised.vectors, before[quantised.word], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found.words, torch.tensor(written.words, dtype=torch.float64), rtol=1e-9, atol=1e-9)
        same(found.counts, written.counts)


def test_a_word_settles_on_the_mean_of_its_points():
    found = book(2, 3)
    left, right = points(50, 3) * 0.1 - 5, points(50, 3, seed=1) * 0.1 + 5
    found.words = torch.stack([left[0], right[0]])
    for _ in range(200):
        found(torch.cat([left, right]))
    torch.testing.assert_close(found.words, torch.stack([left.mean(0), right.mean(0)]), rtol=1e-4, atol=1e-4)


def test_nothing_moves_in_evaluation_mode():
    found = book(5, 3).eval()
    before = {name: value.clone() for name, value in found.state_dict().items()}
    found(points(9, 3))
    assert all(torch.equal(value, before[name]) for name, value in found.state_dict().items())
    found.train()(points(9, 3))
    assert not any(torch.equal(value, before[name]) for name, value in found.state_dict().items())


def test_gradients_pass_the_quantisation_straight_through():
    found, vectors = book(5, 3).eval(), points(7, 3).requires_grad_()
    weight = points(7, 3, seed=2)
    (slope,) = torch.autograd.grad((found(vectors).vectors * weight).sum(), vectors)
    assert torch.equal(slope, weight)


def test_commitment_is_the_mean_squared_distance_and_pulls_vectors_to_their_words():
    found, vectors = book(5, 3).eval(), points(7, 3).requires_grad_()
    quantised = found(vectors)
    gaps = vectors.detach() - found.words[quantised.word]
    same(quantised.commitment, sum(value**2 for row in gaps.tolist() for value in row) / 21)
    (slope,) = torch.autograd.grad(quantised.commitment, vectors)
    same(slope, (2 / 21 * gaps).tolist())


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_cutting_the_vectors_into_chunks_changes_nothing(monkeypatch, at_once):
    found, vectors = book(5, 3), points(7, 3)
    expected = [written_nearest(vector, found.words.tolist()) for vector in vectors.tolist()]
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    assert found.nearest(vectors).tolist() == expected


def test_an_unused_word_leaves_and_fades_but_stays_finite():
    found = Codebook(4, 2, decay=0.5)
    found.words = torch.tensor([[0.0, 0.0], [9.0, 9.0], [9.0, -9.0], [-9.0, 9.0]])
    near = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)) * 0.1
    found(near)
    assert found.counts.nonzero().tolist() == [[0]]
    assert (found.words[1:].norm(dim=1) > 100).all()
    for _ in range(200):
        found(near)
    assert found.words.isfinite().all()
    assert (found.words.norm(dim=1) < 1).all()
