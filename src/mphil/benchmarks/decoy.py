"""Decoy-scaffold: molecules whose label is known to the atom, and whose ring system lies about it.

A molecule is a ring scaffold that carries one *head group* on a short linker, and one to three innocuous substituents::

    substituents -- scaffold -- linker -- head group

**The answer.** The head group alone decides the label: an amide, ester, sulfonamide or relative (class 1), or the same
group turned round (class 0), as in CH2-C(=O)-NH-CH3 against CH2-NH-C(=O)-CH3. The two are made of the same atoms and
differ in two bonds (the paper's semantic cliff), there are 72 such pairs, and linkers and substituents hold carbonyls,
sulfonyls, amines and amides of their own: neither an atom count nor a single bond gives the answer away.

**The decoy.** Scaffolds come from two families, oxygen rings and nitrogen heteroaromatics. In training the family
agrees with the label (nitrogen with class 1) most of the time, less so in each further environment, and a few labels
contradict their head group, so that the decoy pays. The shifted parts bring scaffolds that were never seen,
recognisable members of the same two families, whose agreement is gone (`ood_val`) or reversed (`ood_test`); their
labels are clean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, product

import numpy as np
import numpy.typing as npt
import torch
from rdkit import Chem
from rdkit.Chem import BondType

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.motif_graphs import IntArray, split_in_order
from mphil.chem.parse import parse_smiles
from mphil.chem.schema import featurize
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.split import PARTS, Part
from mphil.graphs.store import GraphStore, pointer
from mphil.task import Task


class Assembly:
    """A molecule that grows by single bonds between fragments.

    Fragments are ordinary molecules: a bond replaces a hydrogen on either side, and a fragment is always attached by
    its first atom.

    Example:
        >>> benzene, acid = Chem.MolFromSmiles("c1ccccc1"), Chem.MolFromSmiles("C(=O)O")
        >>> assembly = Assembly(benzene)
        >>> assembly.attach(0, acid)
        8
        >>> smiles, origin = assembly.finish()
        >>> smiles, origin.tolist()
        ('O=C(O)c1ccccc1', [1, 1, 1, 0, 0, 0, 0, 0, 0])
    """

    def __init__(self, core: Chem.Mol) -> None:
        self._mol = Chem.RWMol(core)
        self._sizes = [core.GetNumAtoms()]

    def attach(self, site: int, fragment: Chem.Mol) -> int:
        """Bond the first atom of `fragment` to atom `site`; return the number of the fragment's last atom."""
        first = self._mol.GetNumAtoms()
        self._mol.InsertMol(fragment)
        self._mol.AddBond(site, first, BondType.SINGLE)
        self._sizes.append(fragment.GetNumAtoms())
        return first + fragment.GetNumAtoms() - 1

    def finish(self) -> tuple[str, npt.NDArray[np.int64]]:
        """Canonical SMILES, and for each of its atoms in written order which fragment it came from (0 = the core)."""
        Chem.SanitizeMol(self._mol)
        smiles: str = Chem.MolToSmiles(self._mol)
        written = self._mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]
        return smiles, np.repeat(np.arange(len(self._sizes)), self._sizes)[list(written)]


def open_sites(mol: Chem.Mol) -> list[int]:
    """Ring carbons that carry a hydrogen and are aromatic or have only carbon neighbours.

    The latter keeps acetals, aminals and their like, which no chemist would make, out of assembled molecules.
    """
    return [atom.GetIdx() for atom in mol.GetAtoms() if _is_open(atom)]


def _is_open(atom: Chem.Atom) -> bool:
    if atom.GetAtomicNum() != 6 or not atom.IsInRing() or not atom.GetTotalNumHs():
        return False
    return bool(atom.GetIsAromatic()) or all(neighbour.GetAtomicNum() == 6 for neighbour in atom.GetNeighbors())


ACYLS = ("C(=O)", "C(=S)", "S(=O)", "S(=O)(=O)")
BRIDGES = ("N", "N(C)", "O")
TAILS = ("C", "CC", "CCC", "C(C)C", "CC(C)C", "CC(F)(F)F")
HEADS = tuple((b + a + t, a + b + t) for a, b, t in product(ACYLS, BRIDGES, TAILS))
"""Pairs (class 0, class 1) of head groups, attached by their first atom."""

LINKERS = ("C", "CC", "OC", "OCC", "SC", "NCC", "C(=O)NC", "NC(=O)C")
"""From the scaffold (first atom) to the head group (last atom, always a CH2)."""

SUBSTITUENTS = (
    *("C", "CC", "C(F)(F)F", "F", "Cl", "C#N", "O", "OC", "SC", "N", "NC"),
    *("C(C)=O", "C(=O)N", "S(C)(=O)=O", "S(=O)(=O)N"),
)
"""Side groups that say nothing about the label."""

FAMILIES = ("oxygen", "nitrogen")
SCAFFOLDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "seen": (
        (
            *("c1ccc2c(c1)CCCO2", "c1ccc2c(c1)CCOC2", "c1ccc2c(c1)CCO2", "c1ccc2c(c1)OCCO2", "c1ccc(C2CCOCC2)cc1"),
            *("C1CCCOCC1", "C1CCC2OCCC2C1", "C1CCC2OCCCC2C1", "C1CCC2(CC1)CCCO2", "C1CCC2(CC1)CCOCC2"),
            *("C1CCC2(CC1)OCCO2", "C1CC2CCC1O2", "C1CC2CCC(C1)O2", "c1ccc(CC2CCOCC2)cc1"),
        ),
        (
            *("c1ccc2ncccc2c1", "c1ccc2cnccc2c1", "c1ccc2ncncc2c1", "c1ccc2nccnc2c1", "c1ccc2[nH]ccc2c1"),
            *("c1ccc2[nH]ncc2c1", "c1ccc2[nH]cnc2c1", "c1ccn2ccnc2c1", "c1ccc(-c2ccncc2)cc1", "c1ccc(-c2ncccn2)cc1"),
            *("c1cnc2[nH]ccc2c1", "c1cnc2cccnc2c1", "c1ccc(-c2cc[nH]n2)cc1", "c1ccc(Cn2ccnc2)cc1"),
        ),
    ),
    "ood_val": (
        (
            *("c1ccc2c(c1)COC2", "c1ccc2c(c1)CCOCC2", "C1CCCOCCC1", "C1CC2CCC1CO2", "C1CCC(C2CCOCC2)CC1"),
            *("C1CCC2(CC1)CCCOC2",),
        ),
        (
            *("c1ccc2cnncc2c1", "c1ccc(-c2cccnc2)nc1", "c1ccc2c(c1)[nH]c1ccccc12", "c1ccn2nccc2c1"),
            *("c1ccc(-c2cnc[nH]2)cc1", "c1cnc2ccncc2c1"),
        ),
    ),
    "ood_test": (
        (
            *("c1ccc2c(c1)CCCCO2", "c1ccc2c(c1)OCCCO2", "c1ccc(C2COC2)cc1", "C1CCC2COCCC2C1", "C1CCC2(CC1)CCOC2"),
            *("C1CC2CCCC(C1)O2", "C1CCC(CC2CCOCC2)CC1"),
        ),
        (
            *("c1ccc2nnccc2c1", "c1cnc2ncccc2c1", "c1ccn2cccc2c1", "c1ccc(-c2ccnnc2)cc1", "c1cnc2ccnn2c1"),
            *("c1ccc2c(c1)[nH]c1cnccc12", "c1ccc(Cc2ccccn2)cc1"),
        ),
    ),
}
"""Canonical Murcko scaffolds by domain and family (oxygen, nitrogen); no scaffold is in two domains."""

SCAFFOLD_NAMES: tuple[str, ...] = tuple(s for domain in SCAFFOLDS.values() for family in domain for s in family)
"""All scaffolds; the position is the `scaffold_id` of a graph."""

LEAST_GRAPHS = 20
"""Fewest graphs that put both classes in every part."""

_ATTEMPTS = 100


@dataclass(frozen=True)
class MoleculeDraws:
    """What each molecule shall be, parts one after the other: all arrays are (n_graphs,).

    Attributes:
        label: the class it is given.
        head: the class its head group says; differs from the label where that is noise.
        pair: row of `HEADS`.
        family: 0 oxygen, 1 nitrogen.
        domain: which of the `SCAFFOLDS`: 0 seen, 1 ood_val, 2 ood_test.
        env: training environment, -1 in the shifted parts.
    """

    label: IntArray
    head: IntArray
    pair: IntArray
    family: IntArray
    domain: IntArray
    env: IntArray


@dataclass(frozen=True)
class Molecule:
    """An assembled molecule.

    Attributes:
        smiles: canonical SMILES.
        origin: (n_atoms,) which fragment each atom came from: 0 the scaffold, the highest number the head group.
        scaffold: its scaffold, one of `SCAFFOLD_NAMES`.
    """

    smiles: str
    origin: IntArray
    scaffold: str


def build(
    *,
    seed: int = 0,
    graphs: int = 5_000,
    bias: Sequence[float] = (0.95, 0.9, 0.8),
    ood_val_bias: float = 0.5,
    ood_test_bias: float = 0.1,
    label_noise: float = 0.05,
) -> Benchmark:
    """Assemble the benchmark; the same arguments give the same molecules, all of them distinct.

    The metric is accuracy: classes are balanced in every part, so one half is chance, and a score far below one half
    says that the decoy was believed.

    Extras of the store: `node_truth` and `edge_truth` (the head group), `node_scaffold` (the ring scaffold, which is
    the decoy), `scaffold_id` (position in `SCAFFOLD_NAMES`), `family` (0 oxygen, 1 nitrogen) and `head_id` (row of
    `HEADS`).

    Args:
        seed: of every draw.
        graphs: molecules in all parts; train gets 60 %, the others 10 % each.
        bias: how often family and label agree in each training environment; `id_val` and `id_test` have the same
            environments, the shifted parts none (-1).
        ood_val_bias: the same for `ood_val`.
        ood_test_bias: the same for `ood_test`.
        label_noise: fraction of labels of train, `id_val` and `id_test` that contradict the head group while the
            family still agrees as often with the label. The shifted parts stay clean, so there one stays within reach.
    """
    rates = (tuple(bias), (ood_val_bias,), (ood_test_bias,))
    _check(graphs, rates, label_noise)
    rng = np.random.default_rng(seed)
    tenth = graphs // 10
    sizes: dict[Part, int] = dict(zip(PARTS, (graphs - 4 * tenth, tenth, tenth, tenth, tenth), strict=True))
    draws = _draw(rng, sizes, rates, label_noise)
    provenance = {"rule": "decoy-scaffold", "seed": seed, "graphs": graphs, "rates": rates, "label_noise": label_noise}
    return Benchmark(
        task=Task("binary", 1, "accuracy"),
        store=_store(draws, _molecules(rng, draws)),
        split=split_in_order(sizes, provenance),
        encoder={"layers": 3, "width": 64},
        classes=("reversed", "forward"),
    )


def _check(graphs: int, rates: Sequence[Sequence[float]], label_noise: float) -> None:
    if graphs < LEAST_GRAPHS:
        raise UsageError(f"graphs must be at least {LEAST_GRAPHS} to fill all parts, not {graphs}")
    if not rates[0]:
        raise UsageError("bias is empty; give one probability per training environment")
    for rate in (label_noise, *chain.from_iterable(rates)):
        if not 0 <= rate <= 1:
            raise UsageError(f"a bias and the label noise are probabilities between 0 and 1, not {rate}")


def _draw(
    rng: np.random.Generator, sizes: Mapping[Part, int], rates: Sequence[Sequence[float]], label_noise: float
) -> MoleculeDraws:
    """Lay out all parts; `rates` holds P(family = label) by domain and environment."""
    domains = {"ood_val": 1, "ood_test": 2}
    domain = np.concatenate([np.full(n, domains.get(part, 0)) for part, n in sizes.items()])
    label = np.concatenate([np.arange(n) % 2 for n in sizes.values()])
    env = np.where(domain == 0, rng.integers(len(rates[0]), size=len(domain)), 0)
    agreement = np.array([rates[d][e] for d, e in zip(domain, env, strict=True)])
    noise = (domain == 0) & (rng.random(len(domain)) < label_noise)
    return MoleculeDraws(
        label=label,
        head=label ^ noise,
        pair=rng.integers(len(HEADS), size=len(domain)),
        family=np.where(rng.random(len(domain)) < agreement, label, 1 - label),
        domain=domain,
        env=np.where(domain == 0, env, -1),
    )


def _molecules(rng: np.random.Generator, draws: MoleculeDraws) -> list[Molecule]:
    """One molecule per row, drawn again while it is the same as an earlier one."""
    catalogue = tuple(SCAFFOLDS.values())
    molecules: dict[str, Molecule] = {}
    for domain, family, pair, head in zip(draws.domain, draws.family, draws.pair, draws.head, strict=True):
        for _ in range(_ATTEMPTS):
            molecule = _molecule(rng, catalogue[domain][family], HEADS[pair][head])
            if molecule.smiles not in molecules:
                break
        else:
            raise UsageError(f"no more distinct molecules after {len(molecules)}; ask for fewer graphs")
        molecules[molecule.smiles] = molecule
    return list(molecules.values())


def _molecule(rng: np.random.Generator, scaffolds: Sequence[str], head: str) -> Molecule:
    """Hang one to three substituents, and the head group on its linker, on different atoms of a scaffold."""
    scaffold = scaffolds[int(rng.integers(len(scaffolds)))]
    place, *others = rng.permutation(_sites(scaffold))[: rng.integers(2, 5)].tolist()
    assembly = Assembly(_fragment(scaffold))
    for site in others:
        assembly.attach(site, _fragment(SUBSTITUENTS[rng.integers(len(SUBSTITUENTS))]))
    linked = assembly.attach(place, _fragment(LINKERS[rng.integers(len(LINKERS))]))
    assembly.attach(linked, _fragment(head))
    return Molecule(*assembly.finish(), scaffold)


_fragment = cache(parse_smiles)


@cache
def _sites(scaffold: str) -> tuple[int, ...]:
    return tuple(open_sites(_fragment(scaffold)))


def _store(draws: MoleculeDraws, molecules: Sequence[Molecule]) -> GraphStore:
    """Featurise the molecules as read back from their SMILES, so that a SMILES tells which atom a node is."""
    arrays = featurize(parse_smiles(molecule.smiles) for molecule in molecules)
    schema = arrays.schema
    node_ptr, edge_ptr = (pointer(torch.from_numpy(counts)) for counts in (arrays.n_nodes, arrays.n_edges))
    edge_index = torch.from_numpy(arrays.edge_index)
    truth = torch.from_numpy(np.concatenate([m.origin == m.origin.max() for m in molecules]))
    ends = edge_index + node_ptr[:-1].repeat_interleave(edge_ptr.diff())
    position = {name: number for number, name in enumerate(SCAFFOLD_NAMES)}
    return GraphStore(
        x=torch.from_numpy(arrays.x),
        edge_index=edge_index,
        edge_attr=torch.from_numpy(arrays.edge_attr),
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        y=torch.from_numpy(draws.label).float().unsqueeze(1),
        env=torch.from_numpy(draws.env),
        index=torch.arange(len(molecules)),
        node_features=Features("categorical", schema.atom_sizes, schema.name),
        edge_features=Features("categorical", schema.bond_sizes, schema.name),
        extras={
            "node_truth": truth,
            "edge_truth": truth[ends].all(0),
            "node_scaffold": torch.from_numpy(np.concatenate([m.origin == 0 for m in molecules])),
            "scaffold_id": torch.tensor([position[m.scaffold] for m in molecules]),
            "family": torch.from_numpy(draws.family),
            "head_id": torch.from_numpy(draws.pair),
        },
        smiles=[m.smiles for m in molecules],
    )


register(
    "decoy-scaffold",
    build,
    summary="Molecules with a known answer: which way round a functional group sits, on scaffolds that mislead",
    source="generated; ours",
)
