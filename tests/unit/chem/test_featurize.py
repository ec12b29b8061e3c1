import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import BondType, HybridizationType
from torch_geometric.utils import from_smiles

from mphil.chem.featurize import GOOD, featurize
from mphil.chem.parse import parse_smiles

SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)[O-]",
    "N[C@@H](CS)C(=O)O",
    "F/C=C/Br",
    "F/C=C\\Br",
    "C#Cc1cc[nH]c1",
    "[Na+].[Cl-]",
    "[CH3]",
    "FS(F)(F)(F)(F)F",
    "FP(F)(F)(F)F",
    "C[N+](C)(C)CC(=O)[O-]",
    "O",
    "[Fe]",
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
]


def test_codes_written_out_by_hand():
    arrays = featurize([parse_smiles("C[O-]"), parse_smiles("C=N")])
    assert arrays.x.tolist() == [
        [6, 0, 4, 5, 3, 0, 4, 0, 0],
        [8, 0, 1, 4, 0, 0, 4, 0, 0],
        [6, 0, 3, 5, 2, 0, 3, 0, 0],
        [7, 0, 2, 5, 1, 0, 3, 0, 0],
    ]
    assert arrays.edge_attr.tolist() == [[1, 0, 0]] * 2 + [[2, 0, 0]] * 2
    assert arrays.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert arrays.n_nodes.tolist() == [2, 2]
    assert arrays.n_edges.tolist() == [2, 2]
    assert arrays.x.dtype == arrays.edge_attr.dtype == np.uint8


@pytest.mark.parametrize("smiles", SMILES)
def test_agrees_with_the_featuriser_of_pyg(smiles):
    """PyG has more chirality and bond codes and puts stereo "any" second; otherwise the codes mean the same."""
    theirs = from_smiles(smiles)
    ours = featurize([parse_smiles(smiles)])
    expected = theirs.x.numpy().copy()
    expected[:, 1] = expected[:, 1].clip(max=3)
    np.testing.assert_array_equal(ours.x, expected)
    bonds = theirs.edge_attr.numpy().copy()
    bonds[:, 0] = np.select([bonds[:, 0] == 12, bonds[:, 0] <= 3], [4, bonds[:, 0]], 0)
    bonds[:, 1] = np.array([0, 5, 1, 2, 3, 4])[bonds[:, 1]]
    order = np.lexsort(ours.edge_index[::-1])
    np.testing.assert_array_equal(ours.edge_index[:, order], theirs.edge_index.numpy())
    np.testing.assert_array_equal(ours.edge_attr[order], bonds)


@pytest.mark.parametrize(
    ("column", "raw", "code"),
    [
        (GOOD.atom[2], 12, 10),
        (GOOD.atom[3], -6, 11),
        (GOOD.atom[3], 7, 11),
        (GOOD.atom[4], 9, 8),
        (GOOD.atom[6], HybridizationType.SP2D, 7),
        (GOOD.atom[1], Chem.ChiralType.CHI_OCTAHEDRAL, 3),
        (GOOD.bond[0], BondType.DATIVE, 0),
        (GOOD.bond[0], BondType.QUADRUPLE, 0),
        (GOOD.bond[1], Chem.BondStereo.STEREOATROPCW, 5),
    ],
)
def test_values_outside_the_vocabulary(column, raw, code):
    assert column.encode([raw]).tolist() == [code]


@given(st.lists(st.sampled_from(SMILES), max_size=5))
@settings(max_examples=20, deadline=None)
def test_many_molecules_are_single_ones_end_to_end(smiles):
    mols = [parse_smiles(s) for s in smiles]
    together = featurize(mols)
    alone = [featurize([mol]) for mol in mols]
    assert together.x.shape == (sum(len(a.x) for a in alone), 9)
    assert together.edge_attr.shape == (together.edge_index.shape[1], 3)
    assert together.n_nodes.tolist() == [len(a.x) for a in alone]
    assert together.n_edges.tolist() == [len(a.edge_attr) for a in alone]
    for name, axis in (("x", 0), ("edge_attr", 0), ("edge_index", 1)):
        if alone:
            expected = np.concatenate([getattr(a, name) for a in alone], axis=axis)
            np.testing.assert_array_equal(getattr(together, name), expected)


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_renumbered_atoms_give_renumbered_rows(random):
    mol = parse_smiles("C[C@H](N)C(=O)Oc1ccc2ncccc2c1")
    order = list(range(mol.GetNumAtoms()))
    random.shuffle(order)
    before, after = featurize([mol]), featurize([Chem.RenumberAtoms(mol, order)])
    # Chirality tags speak of the order of the neighbours, so they may turn; everything else must not.
    columns = [0, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_array_equal(after.x[:, columns], before.x[order][:, columns])


def test_the_two_directions_of_a_bond_are_neighbours():
    arrays = featurize([parse_smiles(s) for s in SMILES])
    np.testing.assert_array_equal(arrays.edge_index[:, ::2], arrays.edge_index[::-1, 1::2])
    np.testing.assert_array_equal(arrays.edge_attr[::2], arrays.edge_attr[1::2])
