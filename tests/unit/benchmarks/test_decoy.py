"""Decoy-scaffold, and how its molecules are built."""

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.rdMolDescriptors import CalcMolFormula
from sklearn.linear_model import LogisticRegression

from mphil.benchmarks import benchmark
from mphil.benchmarks.decoy import HEADS, SCAFFOLD_NAMES, SCAFFOLDS, SUBSTITUENTS, Assembly, build, open_sites
from mphil.chem.describe import murcko_smiles
from mphil.chem.parse import parse_smiles
from mphil.chem.schema import featurize
from mphil.errors import UsageError


def test_a_chain_of_fragments_and_where_each_atom_came_from():
    assembly = Assembly(parse_smiles("c1ccncc1"))
    linked = assembly.attach(0, parse_smiles("OCC"))
    assembly.attach(linked, parse_smiles("C(=O)O"))
    assembly.attach(1, parse_smiles("Cl"))
    smiles, origin = assembly.finish()
    mol = parse_smiles(smiles)
    assert smiles == Chem.CanonSmiles("c1(OCCC(=O)O)c(Cl)cncc1")
    expected = {1: "OCCC(=O)[OH]", 2: "C(=O)[OH]", 3: "Cl"}
    assert sorted((origin == 2).nonzero()[0]) == sorted(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[2])))
    assert sorted((origin == 3).nonzero()[0]) == list(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[3])))
    chain = set(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[1])))
    assert {i for i, o in enumerate(origin) if o in (1, 2)} == chain
    assert all(mol.GetAtomWithIdx(i).GetIsAromatic() == (o == 0) for i, o in enumerate(origin.tolist()))


def test_the_fragments_are_left_as_they_were():
    core, side = parse_smiles("C1CCOCC1"), parse_smiles("C#N")
    Assembly(core).attach(0, side)
    assert (Chem.MolToSmiles(core), Chem.MolToSmiles(side)) == ("C1CCOCC1", "C#N")


@pytest.mark.parametrize(
    ("smiles", "sites"),
    [
        ("c1cc[nH]c1", [0, 1, 2, 4]),
        ("C1CCOCC1", [0, 1, 5]),
        ("C1COCCO1", []),
        ("Cc1ccccc1", [2, 3, 4, 5, 6]),
        ("C1CCC2(CC1)CCCO2", [0, 1, 2, 4, 5, 6, 7]),
    ],
)
def test_sites_are_carbons_that_take_a_substituent(smiles, sites):
    assert open_sites(parse_smiles(smiles)) == sites


ACYL_BOND = Chem.MolFromSmarts("[#6,#16;!R;$(*=[O,S])]-[#7,#8;X2,X3;!R]")


@pytest.fixture(scope="module")
def decoy():
    return benchmark("decoy-scaffold", graphs=1_000, label_noise=0.0)


@pytest.fixture(scope="module")
def mols(decoy):
    return [Chem.MolFromSmiles(smiles) for smiles in decoy.store.smiles]


def reach(mol, start, removed):
    """Atoms connected to `start` when one atom is taken away."""
    found, stack = {start}, [start]
    while stack:
        for neighbour in mol.GetAtomWithIdx(stack.pop()).GetNeighbors():
            index = neighbour.GetIdx()
            if index != removed and index not in found:
                found.add(index)
                stack.append(index)
    return found


def has_ring(mol, atoms):
    return any(mol.GetAtomWithIdx(i).IsInRing() for i in atoms)


def read_head(mol):
    """The answer from the structure alone: class and atoms of every head group, without knowing how it was built.

    A head is an acyl-heteroatom bond with the scaffold on one side and nothing but a carbon tail on the other.
    """
    bonds = mol.GetSubstructMatches(ACYL_BOND)
    heads = []
    for acyl, bridge in bonds:
        acyl_side, bridge_side = reach(mol, acyl, bridge), reach(mol, bridge, acyl)
        forward = has_ring(mol, acyl_side)
        near, tail = (acyl, bridge_side) if forward else (bridge, acyl_side)
        alone = not has_ring(mol, tail) and not any(tail >= {a, b} for a, b in bonds)
        if alone and any(mol.GetAtomWithIdx(i).GetAtomicNum() == 6 for i in tail - {acyl}):
            branches = (reach(mol, n.GetIdx(), near) for n in mol.GetAtomWithIdx(near).GetNeighbors())
            heads.append((int(forward), {near}.union(*(b for b in branches if not has_ring(mol, b)))))
    return heads


def rows(store, graph):
    return slice(int(store.node_ptr[graph]), int(store.node_ptr[graph + 1]))


def test_parts_and_task(decoy):
    assert decoy.split.sizes == {"train": 600, "id_val": 100, "id_test": 100, "ood_val": 100, "ood_test": 100}
    assert (decoy.task.kind, decoy.task.metric) == ("binary", "accuracy")
    assert all(decoy.store.y[graphs].mean() == 0.5 for _, graphs in decoy.split)
    assert decoy.store.node_features.schema == decoy.store.edge_features.schema == "good-9+3/1"


def test_molecules_are_distinct_canonical_and_of_drug_size(decoy, mols):
    assert [Chem.MolToSmiles(mol) for mol in mols] == decoy.store.smiles
    assert len(set(decoy.store.smiles)) == len(decoy.store)
    assert all(10 <= mol.GetNumHeavyAtoms() <= 45 for mol in mols)


def test_nodes_are_the_atoms_of_the_smiles(decoy, mols):
    arrays, store = featurize(mols), decoy.store
    np.testing.assert_array_equal(store.x.numpy(), arrays.x)
    np.testing.assert_array_equal(store.edge_index.numpy(), arrays.edge_index)
    np.testing.assert_array_equal(store.edge_attr.numpy(), arrays.edge_attr)
    np.testing.assert_array_equal(store.n_nodes.numpy(), arrays.n_nodes)


def test_every_molecule_has_one_head_which_gives_label_and_truth(decoy, mols):
    store = decoy.store
    for graph, mol in enumerate(mols):
        ((label, atoms),) = read_head(mol)
        assert label == store.y[graph, 0]
        assert set(store.extras["node_truth"][rows(store, graph)].nonzero()[:, 0].tolist()) == atoms


def test_an_edge_is_true_when_both_its_atoms_are(decoy):
    for graph in decoy.store[:50].to_pyg():
        source, target = graph.edge_index
        assert torch.equal(graph.edge_truth, graph.node_truth[source] & graph.node_truth[target])
        assert int(graph.edge_truth.sum()) == 2 * (int(graph.node_truth.sum()) - 1)  # heads are trees


def test_scaffolds_are_what_rdkit_says(decoy, mols):
    store = decoy.store
    for graph, mol in enumerate(mols):
        name = SCAFFOLD_NAMES[store.extras["scaffold_id"][graph]]
        assert murcko_smiles(mol) == name
        marked = store.extras["node_scaffold"][rows(store, graph)].nonzero()[:, 0].tolist()
        assert len(marked) == Chem.MolFromSmiles(name).GetNumAtoms()
        assert {a.GetIdx() for a in mol.GetAtoms() if a.IsInRing()} <= set(marked)


def test_no_scaffold_on_two_sides_of_the_shift(decoy):
    split, ids = decoy.split, decoy.store.extras["scaffold_id"]
    seen = set(ids[torch.cat([split.train, split.id_val, split.id_test])].tolist())
    val, test = set(ids[split.ood_val].tolist()), set(ids[split.ood_test].tolist())
    assert seen.isdisjoint(val | test)
    assert val.isdisjoint(test)
    assert len(seen | val | test) == len(SCAFFOLD_NAMES) == len(set(SCAFFOLD_NAMES))


def test_families_are_told_apart_by_their_rings():
    for oxygen, nitrogen in SCAFFOLDS.values():
        assert all("O" in name and "n" not in name for name in oxygen)
        assert all("n" in name and "O" not in name for name in nitrogen)


def test_the_two_heads_of_a_pair_have_the_same_atoms():
    assert len({head for pair in HEADS for head in pair}) == 2 * len(HEADS) == 144
    for pair in HEADS:
        first, second = (CalcMolFormula(Chem.MolFromSmiles(head)) for head in pair)
        assert first == second


def test_no_other_piece_holds_a_head():
    pieces = ["c1ccccc1" + substituent for substituent in SUBSTITUENTS] + list(SCAFFOLD_NAMES)
    assert not any(read_head(Chem.MolFromSmiles(piece)) for piece in pieces)


def test_believing_the_decoy_works_until_the_shift(decoy):
    right = (decoy.store.extras["family"] == decoy.store.y[:, 0]).double()
    score = {part: float(right[graphs].mean()) for part, graphs in decoy.split}
    assert score["train"] == pytest.approx(0.8833, abs=0.04)
    assert score["id_test"] == pytest.approx(0.8833, abs=0.1)
    assert score["ood_val"] == pytest.approx(0.5, abs=0.12)
    assert score["ood_test"] == pytest.approx(0.1, abs=0.08)


def test_fingerprints_fall_for_the_decoy(decoy, mols):
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    x = np.stack([generator.GetFingerprintAsNumPy(mol) for mol in mols])
    y, split = decoy.store.y[:, 0].numpy(), decoy.split
    model = LogisticRegression(solver="liblinear").fit(x[split.train], y[split.train])
    score = {part: model.score(x[graphs], y[graphs]) for part, graphs in split}
    assert score["id_test"] > 0.8
    assert score["ood_test"] < 0.5


def test_each_environment_has_its_own_bias():
    built = build(graphs=300, bias=(1.0, 0.0, 0.5), ood_val_bias=1.0, ood_test_bias=0.0)
    env, agrees = built.store.env, built.store.extras["family"] == built.store.y[:, 0]
    assert agrees[env == 0].all()
    assert not agrees[env == 1].any()
    assert 0.3 < agrees[env == 2].double().mean() < 0.7
    assert agrees[built.split.ood_val].all()
    assert not agrees[built.split.ood_test].any()
    shifted = torch.cat([built.split.ood_val, built.split.ood_test])
    assert (env[shifted] == -1).all()
    assert (env == -1).sum() == len(shifted)


def test_label_noise_leaves_the_shifted_parts_and_the_decoy_alone():
    built = build(graphs=300, label_noise=0.3, bias=(1.0,))
    said = torch.tensor([read_head(Chem.MolFromSmiles(smiles))[0][0] for smiles in built.store.smiles])
    wrong = (said != built.store.y[:, 0]).double()
    assert wrong[built.split.train].mean() == pytest.approx(0.3, abs=0.1)
    assert wrong[built.split.ood_val].sum() == wrong[built.split.ood_test].sum() == 0
    assert (built.store.extras["family"] == built.store.y[:, 0])[built.split.train].all()


def test_a_pure_function_of_its_arguments():
    first, again, other = build(graphs=60), build(graphs=60), build(graphs=60, seed=1)
    assert first.store.digest() == again.store.digest()
    assert first.split.digest() == again.split.digest()
    assert first.store.digest() != other.store.digest()


@pytest.mark.parametrize("graphs", [20, 37])
def test_the_smallest_still_have_five_parts_of_two_classes(graphs):
    built = build(graphs=graphs)
    assert sum(built.split.sizes.values()) == graphs
    assert all(set(built.store.y[part, 0].tolist()) == {0, 1} for _, part in built.split)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"graphs": 19}, "at least 20"),
        ({"bias": ()}, "bias is empty"),
        ({"bias": (0.9, 1.1)}, "not 1.1"),
        ({"ood_val_bias": -0.1}, "not -0.1"),
        ({"ood_test_bias": float("nan")}, "not nan"),
        ({"label_noise": 2}, "not 2"),
    ],
)
def test_impossible_arguments(args, message):
    with pytest.raises(UsageError, match=message):
        build(**args)


def test_running_out_of_molecules_is_an_error(monkeypatch):
    monkeypatch.setattr("mphil.benchmarks.decoy._ATTEMPTS", 1)
    monkeypatch.setattr("mphil.benchmarks.decoy.SUBSTITUENTS", ("C",))
    monkeypatch.setattr("mphil.benchmarks.decoy.LINKERS", ("C",))
    monkeypatch.setattr("mphil.benchmarks.decoy.HEADS", HEADS[:1])
    with pytest.raises(UsageError, match="ask for fewer graphs"):
        build(graphs=1_000)
