"""The nearest of many, block by block, against one pair at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit.DataStructs import CreateFromBinaryText, TanimotoSimilarity

from mphil.errors import DataError, UsageError
from mphil.nn.fast.library import Status, status
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


compiled = pytest.mark.skipif(status().library is None, reason=status().reason)
WAYS = (pytest.param("compiled", marks=compiled), "pairs", "planes")


def search(way, *given):
    """Search in one of three ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "PAYS", 0 if way == "compiled" else 10**9)
        patch.setattr(neighbours, "FEW", 10**9 if way == "pairs" else 0)
        patch.setattr(neighbours, "BLOCK", 3)
        if way == "compiled":
            patch.setattr(neighbours, "_counted", None)
        return most_similar(*given)


@pytest.mark.parametrize("way", WAYS)
@given(
    st.integers(0, 10**6), st.integers(0, 6), st.integers(1, 9), st.integers(1, 11), st.sampled_from([0.02, 0.3, 0.9])
)
@settings(max_examples=25)
def test_all_ways_of_counting_against_a_loop(way, seed, n, m, width, density):
    generator = np.random.default_rng(seed)
    rows, references = (
        np.packbits(generator.random((size, 8 * width)) < density, axis=1).reshape(size, width) for size in (n, m)
    )
    index, similarity = search(way, rows, references)
    assert list(zip(index.tolist(), similarity.tolist(), strict=True)) == loop_nearest(rows, references)


@pytest.mark.parametrize("way", WAYS)
def test_more_than_255_common_bits(way):
    everything, half = np.full((1, 256), 255, np.uint8), np.full((1, 256), 15, np.uint8)
    index, similarity = search(way, everything, np.concatenate([half, everything]))
    assert (index.tolist(), similarity.tolist()) == ([1], [1.0])
    assert search(way, everything, half)[1].tolist() == [0.5]


def test_rdkit_agrees():
    generator = np.random.default_rng(0)
    rows = np.packbits(generator.random((20, 2048)) < 0.02, axis=1)
    rows[3] = 0
    vectors = [CreateFromBinaryText(row.tobytes()) for row in rows]
    _, similarity = most_similar(rows[:10], rows[10:])
    expected = [max(TanimotoSimilarity(one, other) for other in vectors[10:]) for one in vectors[:10]]
    assert similarity == pytest.approx(expected)
    assert most_similar(rows[3:4], rows[3:4])[1].tolist() == [TanimotoSimilarity(vectors[3], vectors[3])] == [0.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("filler", [0, 2, 511, 512, 600])
def test_the_first_of_equals_over_blocks(way, filler):
    references = np.array([[1], *[[8]] * filler, [3], *[[8]] * filler, [3], [3]], np.uint8)
    assert search(way, np.array([[3]], np.uint8), references)[0].tolist() == [1 + filler]


@compiled
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.1, 0.6]))
@settings(max_examples=10)
def test_compiled_and_plain_are_equal_to_the_bit(seed, density):
    generator = np.random.default_rng(seed)
    rows, references = (np.packbits(generator.random((size, 2048)) < density, axis=1) for size in (40, 1100))
    references[1000:1040] = rows ^ (np.packbits(generator.random((40, 2048)) < 0.01, axis=1))
    for one, other in zip(search("compiled", rows, references), search("planes", rows, references), strict=True):
        assert one.tobytes() == other.tobytes()


@compiled
def test_references_of_a_mapped_file_are_read_in_place(tmp_path):
    generator = np.random.default_rng(2)
    known = np.packbits(generator.random((700, 2048)) < 0.03, axis=1)
    (tmp_path / "bits").write_bytes(b"head!" + known.tobytes())
    mapped = np.memmap(tmp_path / "bits", np.uint8, "r", offset=5, shape=known.shape)
    assert neighbours._words(mapped).base is not None
    assert search("compiled", known[::7], mapped)[0].tolist() == list(range(0, 700, 7))


def test_without_compiled_loops(monkeypatch):
    monkeypatch.setattr(neighbours, "status", lambda: Status(None, "none here"))
    rows = np.array([[3], [1], [2], [7]], np.uint8)
    assert most_similar(rows, rows)[0].tolist() == [0, 1, 2, 3]


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
