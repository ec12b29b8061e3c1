"""The nearest of many, block by block, against one pair at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit.DataStructs import CreateFromBinaryText, TanimotoSimilarity

from mphil.errors import DataError, UsageError
from mphil.trust import neighbours
from mphil.trust.neighbours import cosine_to_nearest, most_similar


def loop_nearest(fingerprints, references):
    """Nearest reference and similarity, bit by bit."""
    found = []
    for row in fingerprints:
        best, at = -1.0, -1
        for number, reference in enumerate(references):
            one, other = np.unpackbits(row).tolist(), np.unpackbits(reference).tolist()
            both = sum(a and b for a, b in zip(one, other, strict=True))
            either = sum(a or b for a, b in zip(one, other, strict=True))
            similarity = both / either if either else 0.0
            if similarity > best:
                best, at = similarity, number
        found.append((at, best))
    return found


@pytest.mark.parametrize("few", [0, 1000])
@given(
    st.integers(0, 10**6), st.integers(0, 6), st.integers(1, 9), st.integers(1, 11), st.sampled_from([0.02, 0.3, 0.9])
)
@settings(max_examples=25)
def test_both_ways_of_counting_against_a_loop(few, seed, n, m, width, density):
    generator = np.random.default_rng(seed)
    rows, references = (
        np.packbits(generator.random((size, 8 * width)) < density, axis=1).reshape(size, width) for size in (n, m)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "FEW", few)
        patch.setattr(neighbours, "BLOCK", 3)
        index, similarity = most_similar(rows, references)
    assert list(zip(index.tolist(), similarity.tolist(), strict=True)) == loop_nearest(rows, references)


@pytest.mark.parametrize("few", [0, 1000])
def test_more_than_255_common_bits(monkeypatch, few):
    monkeypatch.setattr(neighbours, "FEW", few)
    everything, half = np.full((1, 256), 255, np.uint8), np.full((1, 256), 15, np.uint8)
    index, similarity = most_similar(everything, np.concatenate([half, everything]))
    assert (index.tolist(), similarity.tolist()) == ([1], [1.0])
    assert most_similar(everything, half)[1].tolist() == [0.5]


def test_rdkit_agrees():
    generator = np.random.default_rng(0)
    rows = np.packbits(generator.random((20, 2048)) < 0.02, axis=1)
    rows[3] = 0
    vectors = [CreateFromBinaryText(row.tobytes()) for row in rows]
    _, similarity = most_similar(rows[:10], rows[10:])
    expected = [max(TanimotoSimilarity(one, other) for other in vectors[10:]) for one in vectors[:10]]
    assert similarity == pytest.approx(expected)
    assert most_similar(rows[3:4], rows[3:4])[1].tolist() == [TanimotoSimilarity(vectors[3], vectors[3])] == [0.0]


def test_the_first_of_equals_over_blocks(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK", 2)
    references = np.array([[1], [3], [3], [3]], np.uint8)
    assert most_similar(np.array([[3]], np.uint8), references)[0].tolist() == [1]


def test_many_rows_at_once():
    generator = np.random.default_rng(1)
    references = np.packbits(generator.random((9000, 2048)) < 0.015, axis=1)
    chosen = generator.permutation(9000)[:300]
    index, similarity = most_similar(references[chosen], references)
    assert (index == chosen).all()
    assert (similarity == 1).all()


@pytest.mark.parametrize(
    ("rows", "references", "message"),
    [
        (np.zeros((1, 4), np.uint8), np.zeros((0, 4), np.uint8), "no reference"),
        (np.zeros((1, 4), np.uint8), np.zeros((1, 5), np.uint8), "4 bytes, the references 5"),
        (np.zeros((1, 4)), np.zeros((1, 4), np.uint8), "fingerprints are float64"),
        (np.zeros(4, np.uint8), np.zeros((1, 4), np.uint8), r"shape \(4,\)"),
    ],
)
def test_unusable_fingerprints_are_refused(rows, references, message):
    with pytest.raises(DataError, match=message):
        most_similar(rows, references)


@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 8), st.integers(1, 10))
@settings(max_examples=40)
def test_cosines_against_a_loop(seed, n, m, k):
    generator = np.random.default_rng(seed)
    points, references = generator.normal(size=(n, 3)), generator.normal(size=(m, 3))
    points[:1], references[-1:] = 0, 7 * references[-1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "PAIRS", 2 * m)
        found = cosine_to_nearest(points, references, k)
    for point, value in zip(points, found, strict=True):
        cosines = sorted(
            (float(point @ other) / (np.linalg.norm(point) * np.linalg.norm(other) or 1) for other in references),
            reverse=True,
        )
        assert value == pytest.approx(cosines[min(k, m) - 1], abs=1e-6)


@pytest.mark.parametrize(
    ("points", "references", "k", "error", "message"),
    [
        ([[1.0]], [[1.0]], 0, UsageError, "neighbours must be 1 or more, not 0"),
        ([[1.0]], np.zeros((0, 1)), 1, DataError, "no reference"),
        ([[1.0]], [[1.0, 2.0]], 1, DataError, "1 columns, the references 2"),
        ([[np.nan]], [[1.0]], 1, DataError, "embeddings: nan in row 0"),
    ],
)
def test_unusable_embeddings_are_refused(points, references, k, error, message):
    with pytest.raises(error, match=message):
        cosine_to_nearest(points, references, k)
