"""Clusters of similar molecules, against the definition."""

import numpy as np
from rdkit.Chem import MolFromSmiles
from rdkit.DataStructs import CreateFromBinaryText, TanimotoSimilarity

from mphil.chem.butina import similar_groups
from mphil.chem.fingerprint import morgan_fingerprints
from mphil.trust.neighbours import most_similar
from tests.products import molecules


def similarity(fingerprints):
    vectors = [CreateFromBinaryText(row.tobytes()) for row in fingerprints]
    return np.array([[TanimotoSimilarity(one, other) for other in vectors] for one in vectors])


def reference(alike, similar):
    """Butina as the paper says: count neighbours once, then take molecules by that count."""
    neighbours = alike >= similar
    centre = np.full(len(alike), -1)
    for place in np.argsort(-neighbours.sum(1), kind="stable"):
        if centre[place] < 0:
            centre[neighbours[place] & (centre < 0)] = place
    return centre


def test_against_the_definition():
    fingerprints = morgan_fingerprints([MolFromSmiles(smiles) for smiles in molecules()])
    alike = similarity(fingerprints)
    for similar in (0.3, 0.4, 0.7):
        found = similar_groups(fingerprints, most_similar, similar=similar)
        assert found.tolist() == reference(alike, similar).tolist()
        assert 1 < len(np.unique(found)) < len(found)


def test_the_rest_joins_the_most_similar_centre():
    fingerprints = morgan_fingerprints([MolFromSmiles(smiles) for smiles in molecules()])
    alike = similarity(fingerprints)
    found = similar_groups(fingerprints, most_similar, most=40)
    assert found[:40].tolist() == reference(alike[:40, :40], 0.4).tolist()
    centres = np.unique(found[:40])
    for place in range(40, len(found)):
        best = centres[alike[place, centres].argmax()]
        assert found[place] == (best if alike[place, best] >= 0.4 else place)


def test_no_molecule():
    assert similar_groups(np.empty((0, 256), np.uint8), most_similar).tolist() == []


def test_many_molecules_are_looked_up_at_once():
    bits = np.random.default_rng(0).integers(0, 256, (20_000, 8), np.uint8)
    asked = []

    def nearest(rows, references):
        asked.append((len(rows), len(references)))
        return np.zeros(len(rows), np.int64), np.ones(len(rows))

    found = similar_groups(bits, nearest, most=50)
    assert asked == [(20_000 - 50, len(np.unique(found[:50])))]
    assert (found[50:] == found[:50].min()).all()
