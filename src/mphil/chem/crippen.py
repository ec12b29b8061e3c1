"""What atoms add to hydrophobicity and refractivity (Wildman and Crippen, 1999), found once for all that is made of it.

RDKit looks for each of a hundred patterns in each molecule, which takes twice as long as to read it. Here all atoms of
many molecules are asked at once what the patterns ask, by their neighbours; the bits are the same. The few molecules
that this does not cover are left to RDKit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from rdkit.Chem import AddHs, Mol
from rdkit.Chem.rdMolDescriptors import _CalcCrippenContribs, _CalcLabuteASAContribs

from mphil.chem.schema import GOOD, MoleculeArrays, featurize

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rule = tuple[Mask, float, float]
"""Atoms, and what each of them adds to hydrophobicity and to refractivity, unless a rule before has said so."""

EDGES = (
    (-0.4, -0.2, 0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6),
    (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0),
)
"""Where RDKit divides the surface by the hydrophobicity and by the refractivity of its atoms."""

MOST_MATCHES = 1000
"""RDKit does not look for a pattern any further after so many matches."""

_WAYS = np.array([1, 1, 2, 6, 24, 120, 360, 840, 1680, 3024, 5040])
"""In how many ways a pattern of an atom with up to four neighbours can match one with so many."""

_BOND = {name: code for code, name in enumerate(("strange", "single", "double", "triple", "aromatic"))}
"""The bond types of GOOD."""


def crippen(mols: Sequence[Mol], made: MoleculeArrays | None = None) -> tuple[Floats, Floats, Floats]:
    """RDKit's CrippenClogP and CrippenMR (n, 2), SlogP_VSA (n, 12) and SMR_VSA (n, 10) of n molecules.

    Args:
        mols: the molecules.
        made: what `featurize` says of them, if that is known and of the schema `GOOD`.

    Example:
        >>> from rdkit.Chem import MolFromSmiles
        >>> sums, *surfaces = crippen([MolFromSmiles("CCO")])
        >>> sums.round(4).tolist(), [len(surface[0]) for surface in surfaces]
        ([[-0.0014, 12.7598]], [12, 10])
    """
    atoms = _Atoms(made if made is not None and made.schema is GOOD else featurize(mols, GOOD))
    own, hydrogen = _first(_rules(atoms), len(atoms.owner)), _first(_hydrogen_rules(atoms), len(atoms.owner))
    whole = np.concatenate([own, hydrogen.repeat(atoms.hydrogens, axis=1)], axis=1)
    areas = [area for mol in mols for area in map(_CalcLabuteASAContribs(mol)[0].__getitem__, range(mol.GetNumAtoms()))]
    owner = atoms.owner, np.concatenate([atoms.owner, atoms.owner.repeat(atoms.hydrogens)])
    found = _joined(own, whole, np.array(areas), *owner, len(mols))
    ends = atoms.ends
    for row in atoms.not_covered().tolist():
        mol = mols[row]
        added = np.array(_CalcCrippenContribs(AddHs(mol))).T
        # Patterns of other elements pass over hydrogens; those of hydrogens do not.
        alone = np.array(_CalcCrippenContribs(mol)).T
        area = np.array(areas[ends[row] : ends[row + 1]])
        zeros = np.zeros(alone.shape[1], np.int64), np.zeros(added.shape[1], np.int64)
        for table, values in zip(found, _joined(alone, added, area, *zeros, 1), strict=True):
            table[row] = values[0]
    return found


def _joined(
    own: Floats, whole: Floats, areas: Floats, owner: Numbers, owner_of_all: Numbers, n: int
) -> tuple[Floats, Floats, Floats]:
    """Sums, and surfaces by hydrophobicity and refractivity, of n molecules.

    Args:
        own: (2, atoms) what each adds.
        whole: (2, more) the same, with hydrogens behind.
        areas: (atoms,) the surface of each.
        owner: (atoms,) the molecule of each.
        owner_of_all: (more,) likewise.
        n: how many there are.
    """
    sums = np.stack([_sums(owner_of_all, column, n) for column in whole], axis=1)
    surfaces = []
    for column, edges in zip(own, EDGES, strict=True):
        places = len(edges) + 1
        place = owner * places + np.searchsorted(edges, column, side="right")
        surfaces.append(_sums(place, areas, n * places).reshape(n, places))
    return sums, surfaces[0], surfaces[1]


def _sums(place: Numbers, values: Floats, places: int) -> Floats:
    """(places,) sums of the values there, added in the order of the atoms, as RDKit does."""
    return np.bincount(place, values, places).astype(np.float64, copy=False)


def _first(rules: Iterator[Rule], n: int) -> Floats:
    """(2, n) what the first rule that holds for each atom says; 0 where none does."""
    holds, *values = zip(*rules, strict=True)
    table = np.array([[*column, 0.0] for column in values])
    which = np.full(n, len(holds))
    for number in reversed(range(len(holds))):
        which[holds[number]] = number
    return table[:, which]


class _Atoms:
    """What patterns can ask of all atoms of some molecules.

    Attributes:
        owner: (n,) the molecule of each.
        ends: (molecules + 1,) where the atoms of each begin.
        element: (n,) atomic number.
        aromatic: (n,) whether it is.
        hydrogens: (n,) how many it has.
        connections: (n,) with these.
        charge: (n,) formal.
    """

    def __init__(self, made: MoleculeArrays) -> None:
        named = {column.name: made.x[:, place].astype(np.int64) for place, column in enumerate(GOOD.atom)}
        charges = next(column.values for column in GOOD.atom if column.name == "formal charge")
        assert charges is not None
        self.element, self.aromatic = named["atomic number"], named["aromatic"] > 0
        self.hydrogens, self.connections = named["hydrogens"], named["degree"]
        self.charge = named["formal charge"] + charges[0]
        self._largest = charges[-1]
        self.ends = np.concatenate([[0], made.n_nodes.cumsum()])
        self.owner = np.arange(len(made.n_nodes)).repeat(made.n_nodes)
        source, target = made.edge_index + self.ends[:-1].repeat(made.n_edges)
        bond = made.edge_attr[:, 0]
        self._ends = {name: (source[bond == code], target[bond == code]) for name, code in _BOND.items()}
        # What a pattern calls no bond is a single or an aromatic one.
        either = (bond == _BOND["single"]) | (bond == _BOND["aromatic"])
        self._ends["plain"] = source[either], target[either]
        self._neighbours = np.bincount(source, minlength=len(self.owner))

    def to(self, kind: Mask, bond: str = "plain") -> Numbers:
        """(n,) how many neighbours of a kind each atom has, over bonds of a kind."""
        source, target = self._ends[bond]
        return np.bincount(source[kind[target]], minlength=len(self.owner))

    def not_covered(self) -> Numbers:
        """Molecules with hydrogens as atoms, wildcards, bonds or charges without a code, or too many matches."""
        strange = (self.element < 2) | (self.charge == self._largest)
        strange[self._ends["strange"][0]] = True
        matches = _WAYS[self._neighbours.clip(max=len(_WAYS) - 1)] + 2 * self.hydrogens
        per_molecule = np.bincount(self.owner, matches, len(self.ends) - 1)
        return np.union1d(self.owner[strange], np.flatnonzero(per_molecule >= MOST_MATCHES))


def _rules(atoms: _Atoms) -> Iterator[Rule]:
    """The patterns of all elements but hydrogen, in their order."""
    to, z, charge, ways = atoms.to, atoms.element, atoms.charge, atoms.connections
    h0, h1, h2, h3 = (atoms.hydrogens == number for number in range(4))
    arom, any_atom = atoms.aromatic, np.ones(len(z), bool)
    chain = ~arom
    c, n, o, p, s = (chain & (z == number) for number in (6, 7, 8, 15, 16))
    ring_c, ring_n = arom & (z == 6), arom & (z == 7)
    halogen = chain & np.isin(z, (9, 17, 35, 53))
    hetero = n | o | p | s | halogen
    to_c, to_hetero, to_chain, to_arom = to(c), to(hetero), to(chain), to(arom)
    to_ring_c, to_any, double_c, double_o = to(ring_c), to(any_atom), to(c, "double"), to(o, "double")

    four = c & (ways == 4)
    yield c & ((atoms.hydrogens == 4) | (h3 & (to_c > 0)) | (h2 & (to_c > 1))), 0.1441, 2.503
    yield c & ((h1 & (to_c > 2)) | (to_c > 3)), 0.0, 2.433
    yield (c & h3 & (to_hetero > 0)) | (four & h2 & (to_hetero > 0) & (to_chain > 1)), -0.2035, 2.753
    yield four & (to_hetero > 0) & ((h1 & (to_chain > 2)) | (h0 & (to_chain > 3))), -0.2051, 2.731
    yield c & (to(chain & ~c, "double") > 0), -0.2783, 5.007
    ends = h2 | (h1 & (to_chain > 0)) | (h0 & (to_chain > 1))
    yield c & (((double_c > 0) & ends) | (double_c > 1)), 0.1551, 3.513
    yield c & (ways == 2) & (to(chain, "triple") > 0), 0.0017, 3.888
    yield c & h3 & (to_ring_c > 0), 0.08452, 2.464
    yield c & h3 & (to_arom > 0), -0.1444, 2.412
    yield four & h2 & (to_arom > 0), -0.0516, 2.488
    yield four & h1 & (to_arom > 0), 0.1193, 2.582
    yield four & h0 & (to_arom > 0), -0.0967, 2.576
    yield ring_c & h0 & (to(chain & ~(c | n | o | s | halogen), "single") > 0), -0.5443, 4.041
    for number, *values in ((9, 0.0, 3.257), (17, 0.245, 3.564), (35, 0.198, 3.18), (53, 0.0, 3.104)):
        yield ring_c & (to(z == number) > 0), values[0], values[1]
    yield ring_c & h1, 0.1581, 3.35
    in_rings = to(arom, "aromatic")
    shared = ring_c & (in_rings > 1)
    yield ring_c & (in_rings > 2), 0.2955, 4.346
    yield shared & (to(arom, "single") > 0), 0.2713, 3.904
    yield shared & (to(c, "single") > 0), 0.136, 3.509
    yield shared & (to(n, "single") > 0), 0.4619, 4.067
    yield shared & (to(o, "single") > 0), 0.5437, 3.853
    yield shared & (to(s, "single") > 0), 0.1893, 2.673
    yield shared & (to(c | n | o, "double") > 0), -0.8186, 3.135
    conjugated = (to_chain > 0) | ((to_ring_c > 0) & (to_arom > 1)) | h1
    yield c & (((double_c > 0) & (to_arom > 0) & conjugated) | (to(ring_c, "double") > 0)), 0.264, 4.305
    yield four & (to(chain & ~(c | hetero)) > 0), 0.2148, 2.693
    yield z == 6, 0.08129, 3.243

    neutral, plus, minus = n & (charge == 0), (charge >= 1) & (charge <= 3), (charge <= -1) & (charge >= -3)
    bare, double = n & h0 & plus, to(any_atom, "double")
    double_n = to(n, "double")
    yield neutral & h2 & (to_chain > 0), -1.019, 2.262
    yield neutral & h1 & (to_chain > 1), -0.7096, 2.173
    yield neutral & h2 & (to_arom > 0), -1.027, 2.827
    yield neutral & h1 & (to_arom > 0) & (to_any > 1), -0.5188, 3.0
    yield neutral & h1 & (double > 0), 0.08387, 1.757
    yield neutral & (double > 0) & (to_any > 0), 0.1836, 2.428
    yield neutral & (to_chain > 2), -0.3187, 1.839
    mixed = (to_arom > 0) & (to_chain > 0) & (to_any > 2)
    yield neutral & (mixed | (to_arom > 2)), -0.4458, 2.819
    yield neutral & (to(chain, "triple") > 0), 0.01508, 1.725
    yield n & plus & (h1 | h2 | h3), -1.95, 0.0
    yield ring_n & (charge == 0), -0.3239, 2.202
    yield ring_n & plus, -1.119, 0.0
    doubly = (to(chain, "double") > 0) & (to_chain > 0) & (to_any > 1)
    diazo = (to(z == 6, "double") > 0) & (to(z == 7, "double") > 0)
    yield bare & ((to_chain > 3) | doubly | diazo), -0.3396, 0.2604
    azide = (to(n & minus, "double") > 0) & (double_n > 1)
    yield n & ((plus & ((to(chain, "triple") > 0) | azide)) | minus), 0.2887, 3.359
    yield z == 7, -0.4806, 2.134

    end = o & (ways == 1) & minus
    yield arom & (z == 8), 0.1552, 1.08
    yield o & (h1 | h2), -0.2893, 0.8238
    yield o & (to_chain > 1), -0.0684, 1.085
    yield o & (to_arom > 0) & (to_any > 1), -0.4195, 1.182
    yield (o & (to((z == 7) | (z == 8), "double") > 0)) | (end & (to(z == 7) > 0)), 0.0335, 3.367
    oxide = o & (charge == 0) & (to((z == 16) & (charge == 0), "double") > 0)
    yield (end & (charge >= -2) & (to(z == 16) > 0)) | oxide, -0.3339, 0.7774
    yield o & (charge == -1) & (to(c & (double_o > 0)) > 0), -1.326, 0.0
    yield end & (to(~(n | s)) > 0), -1.189, 0.0
    yield o & (to(ring_c, "double") > 0), 0.1788, 3.135
    aldehyde = (h1 & ((to_c > 0) | (to(n | o) > 0))) | h2
    carbonyl = aldehyde | ((to_c > 0) & (to_chain > 1)) | ((ways == 2) & (double_o > 1))
    yield o & (to(c & carbonyl, "double") > 0), -0.1526, 0.0
    ketone = (to_c + to_ring_c > 0) & (to_arom > 0) & (to_c + to_arom > 1)
    aromatic = (h1 & (to_ring_c > 0)) | ketone | ((to_ring_c > 0) & (to_chain > 0))
    yield o & (to(c & aromatic, "double") > 0), 0.1129, 0.2215
    yield o & (to(c & (to(z != 6) > 1), "double") > 0), 0.4833, 0.389
    yield z == 8, -0.1188, 0.6865

    neutral = charge == 0
    for number, *values in ((9, 0.4202, 1.108), (17, 0.6895, 5.853), (35, 0.8456, 8.927), (53, 0.8857, 14.02)):
        yield (z == number) & neutral, values[0], values[1]
    ion = np.isin(z, (9, 17, 35, 53)) & (charge == -1)
    yield ion | ((z == 53) & plus) | (np.isin(z, (3, 11, 19, 37, 55)) & (charge == 1)), -2.996, 0.0
    yield z == 15, 0.8612, 6.92
    charged = ~neutral & (charge >= -4) & (charge != 4)
    yield s & (charged | (neutral & (to(n | o | p | s, "double") > 0))), -0.0024, 7.365
    yield s, 0.6482, 7.591
    yield z == 16, 0.6237, 6.691
    main = (3, 4, 5, 11, 12, 13, 14, 19, 20, 31, 32, 33, 34, 37, 38, 49, 50, 51, 52, 55, 56, 81, 82, 83, 84)
    yield np.isin(z, main), -0.3808, 5.754
    yield np.isin(z, (*range(21, 31), *range(39, 49), *range(72, 81))), -0.0025, 0.0


def _hydrogen_rules(atoms: _Atoms) -> Iterator[Rule]:
    """The patterns of hydrogens, asked of the atoms that they belong to."""
    to, z = atoms.to, atoms.element
    c, o, s = (~atoms.aromatic & (z == number) for number in (6, 8, 16))
    yield z == 6, 0.123, 1.057
    saturated, aromatic = c & (atoms.connections == 4), atoms.aromatic & (z == 6)
    alcohol = (to(saturated | aromatic | ~np.isin(z, (6, 7, 8, 16))) > 0) | (atoms.hydrogens > 1)
    yield ~np.isin(z, (6, 7, 8)) | (o & alcohol), -0.2677, 1.395
    yield (z == 7) | (o & (to(z == 7) > 0)), 0.2142, 0.9627
    acid = c & (to((z == 6) | (z == 7) | o | s, "double") > 0)
    yield o & (to(acid | o | s) > 0), 0.298, 1.805
    yield z > 0, 0.1125, 1.112
