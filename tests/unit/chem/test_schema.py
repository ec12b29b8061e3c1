"""Features of atoms and bonds, and their arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import BondStereo, BondType, HybridizationType
from torch_geometric.utils import from_smiles

from mphil.chem.parse import parse_lenient, parse_smiles
from mphil.chem.schema import DRUGOOD, GOOD, SCHEMAS, featurize

MOLECULES = [
    "C[C@H](F)C(=O)[O-]",
    "N[C@@H](CS)C(=O)O",
    "F/C=C/c1cc[nH]c1",
    "F/C=C\\Br",
    "[Na+].CS(=O)C#N",
    "C[Si](C)(C)[CH2]",
    "FP(F)(F)(F)F",
    "FS(F)(F)(F)(F)F",
    "[NH3]->[Fe]",
    "C$C",
    "[PH5]",
    "[2H]C([2H])[2H]",
    "Clc1cc(I)c(B(O)O)c([As](C)C)c1[Se]C",
    "O",
]

GOOD_ATOMS = {
    "C[C@H](F)C(=O)[O-]": [
        [6, 0, 4, 5, 3, 0, 4, 0, 0],
        [6, 2, 4, 5, 1, 0, 4, 0, 0],
        [9, 0, 1, 5, 0, 0, 4, 0, 0],
        [6, 0, 3, 5, 0, 0, 3, 0, 0],
        [8, 0, 1, 5, 0, 0, 3, 0, 0],
        [8, 0, 1, 4, 0, 0, 3, 0, 0],
    ],
    "F/C=C/C#N": [
        [9, 0, 1, 5, 0, 0, 4, 0, 0],
        [6, 0, 3, 5, 1, 0, 3, 0, 0],
        [6, 0, 3, 5, 1, 0, 3, 0, 0],
        [6, 0, 2, 5, 0, 0, 2, 0, 0],
        [7, 0, 1, 5, 0, 0, 2, 0, 0],
    ],
    "[CH2]c1ccc[nH]1": [
        [6, 0, 3, 5, 2, 1, 4, 0, 0],
        *([[6, 0, 3, 5, 0, 0, 3, 1, 1]] + [[6, 0, 3, 5, 1, 0, 3, 1, 1]] * 3),
        [7, 0, 3, 5, 1, 0, 3, 1, 1],
    ],
}
GOOD_BONDS = {
    "C[C@H](F)C(=O)[O-]": [[1, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 1], [1, 0, 1]],
    "F/C=C/C#N": [[1, 0, 0], [2, 2, 1], [1, 0, 1], [3, 0, 1]],
    "[CH2]c1ccc[nH]1": [[1, 0, 0], *[[4, 0, 1]] * 5],
}
DRUGOOD_ATOMS = {
    "C[C@H](F)C(=O)[O-]": [
        "0100000000000000 010000 0 0 001000 0 00010 0 00",
        "0100000000000000 000100 0 0 001000 0 01000 1 01",
        "0000100000000000 010000 0 0 001000 0 10000 0 00",
        "0100000000000000 000100 0 0 010000 0 10000 0 00",
        "0001000000000000 010000 0 0 010000 0 10000 0 00",
        "0001000000000000 010000 - 0 010000 0 10000 0 00",
    ],
    "[Na+].[CH2]C#N": [
        "0000000000000001 100000 1 0 000001 0 10000 0 00",
        "0100000000000000 010000 0 1 001000 0 00100 0 00",
        "0100000000000000 001000 0 0 100000 0 10000 0 00",
        "0010000000000000 010000 0 0 100000 0 10000 0 00",
    ],
    "FP(F)(F)(F)F": [
        "0000100000000000 010000 0 0 001000 0 10000 0 00",
        "0000001000000000 000001 0 0 000100 0 10000 0 00",
        *["0000100000000000 010000 0 0 001000 0 10000 0 00"] * 4,
    ],
}
DRUGOOD_BONDS = {
    "C[C@H](F)C(=O)[O-]": ["1000 0 0 1000"] * 3 + ["0100 1 0 1000", "1000 1 0 1000"],
    "F/C=C/c1cc[nH]c1": ["1000 0 0 1000", "0100 1 0 0001", "1000 1 0 1000"] + ["0001 1 1 1000"] * 5,
    "F/C=C\\Br": ["1000 0 0 1000", "0100 0 0 0010", "1000 0 0 1000"],
}


def unpacked(rows):
    """Rows of digits to floats; a minus sign stands for -1."""
    return [[-1.0 if digit == "-" else float(digit) for digit in row.replace(" ", "")] for row in rows]


def test_names_and_sizes():
    assert SCHEMAS == {"good": GOOD, "drugood": DRUGOOD}
    assert (GOOD.name, GOOD.kind) == ("good-9+3/1", "categorical")
    assert GOOD.atom_sizes == (119, 4, 11, 12, 9, 5, 8, 2, 2)
    assert GOOD.bond_sizes == (5, 6, 2)
    assert (DRUGOOD.name, DRUGOOD.kind) == ("drugood-39+10/1", "float")
    assert (DRUGOOD.atom_sizes, DRUGOOD.bond_sizes) == ((39,), (10,))


@pytest.mark.parametrize("smiles", GOOD_ATOMS)
def test_good_atoms(smiles):
    assert featurize([parse_smiles(smiles)], GOOD).x.tolist() == GOOD_ATOMS[smiles]


@pytest.mark.parametrize("smiles", GOOD_BONDS)
def test_good_bonds(smiles):
    assert featurize([parse_smiles(smiles)], GOOD).edge_attr[::2].tolist() == GOOD_BONDS[smiles]


@pytest.mark.parametrize("smiles", DRUGOOD_ATOMS)
def test_drugood_atoms(smiles):
    assert featurize([parse_smiles(smiles)], DRUGOOD).x.tolist() == unpacked(DRUGOOD_ATOMS[smiles])


@pytest.mark.parametrize("smiles", DRUGOOD_BONDS)
def test_drugood_bonds(smiles):
    assert featurize([parse_smiles(smiles)], DRUGOOD).edge_attr[::2].tolist() == unpacked(DRUGOOD_BONDS[smiles])


def one_hot(value, values):
    return [float(value == known) for known in values]


def spelt_atom(atom):
    symbols = ["B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I", "At"]
    hybrids = [getattr(HybridizationType, name) for name in ("SP", "SP2", "SP3", "SP3D", "SP3D2")]
    label = atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else ""
    return [
        *one_hot(atom.GetSymbol(), symbols),
        float(atom.GetSymbol() not in symbols),
        *one_hot(atom.GetDegree(), range(6)),
        float(atom.GetFormalCharge()),
        float(atom.GetNumRadicalElectrons()),
        *one_hot(atom.GetHybridization(), hybrids),
        float(atom.GetHybridization() not in hybrids),
        float(atom.GetIsAromatic()),
        *one_hot(atom.GetTotalNumHs(), range(5)),
        float(atom.HasProp("_ChiralityPossible")),
        *one_hot(label, "RS"),
    ]


def spelt_bond(bond):
    stereo = [BondStereo.STEREONONE, BondStereo.STEREOANY, BondStereo.STEREOZ, BondStereo.STEREOE]
    types = [BondType.SINGLE, BondType.DOUBLE, BondType.TRIPLE, BondType.AROMATIC]
    return [
        *one_hot(bond.GetBondType(), types),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
        *one_hot(bond.GetStereo(), stereo),
    ]


@pytest.mark.parametrize("smiles", MOLECULES)
def test_drugood_spelt_out(smiles):
    mol, _ = parse_lenient(smiles)
    arrays = featurize([mol], DRUGOOD)
    assert arrays.x.tolist() == [spelt_atom(atom) for atom in mol.GetAtoms()]
    assert arrays.edge_attr[::2].tolist() == [spelt_bond(bond) for bond in mol.GetBonds()]
    assert arrays.x.dtype == arrays.edge_attr.dtype == np.float32


def test_what_is_outside_a_vocabulary_of_drugood_sets_no_column():
    fluorine = featurize([parse_smiles("FS(F)(F)(F)(F)F")], DRUGOOD).x[1]
    assert fluorine[16:22].sum() == 0
    assert featurize([parse_smiles("[PH5]")], DRUGOOD).x[0, 31:36].sum() == 0
    assert featurize([parse_smiles("N->[Fe]")], DRUGOOD).edge_attr[0, :4].sum() == 0


@pytest.mark.parametrize("schema", [GOOD, DRUGOOD])
def test_no_molecules_give_arrays_of_the_right_width(schema):
    arrays, some = featurize([], schema), featurize([parse_smiles("CC")], schema)
    assert arrays.x.shape == (0, some.x.shape[1])
    assert arrays.edge_attr.shape == (0, some.edge_attr.shape[1])
    assert (arrays.x.dtype, arrays.edge_attr.dtype) == (some.x.dtype, some.edge_attr.dtype)


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
