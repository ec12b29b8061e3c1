"""What is told of each atom and bond: feature sets that are named, versioned and never change, and their arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from rdkit.Chem import Atom, Bond, BondStereo, BondType, ChiralType, HybridizationType, Mol, QueryAtom, rdqueries
from rdkit.Chem.rdchem import CompositeQueryType

Codes = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
Reader = Callable[[Sequence[Any], Sequence[int]], Iterable[Any]]
"""From all atoms (or bonds) of a molecule, and the places of the unusual ones, to a value each; values are whatever
converts to an integer. Unusual are atoms with a charge, a radical or a chiral tag, and double bonds."""


@dataclass(frozen=True)
class Column:
    """One feature: how to read it off the atoms or the bonds of a molecule, and its vocabulary.

    Attributes:
        name: what the feature is.
        read: gives the raw values.
        values: the vocabulary in code order; the position of a value is its code. None: the number itself is meant.
        other: code of every value outside the vocabulary; -1 stands for no code at all.
    """

    name: str
    read: Reader
    values: tuple[Any, ...] | None
    other: int

    @property
    def size(self) -> int:
        """Number of codes."""
        return 1 if self.values is None else max(len(self.values), self.other + 1)

    def encode(self, raw: Sequence[Any]) -> Codes:
        """Raw RDKit values, (n,), to codes, (n,)."""
        values = np.fromiter(raw, np.int64, len(raw))
        if self.values is None:
            return values
        known = np.array([int(v) for v in self.values])
        order = known.argsort()
        place = np.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)
        code = order[place]
        return np.where(known[code] == values, code, self.other)


def _column(name: str, read: Reader, values: Iterable[Any], other: int | None = None) -> Column:
    vocabulary = tuple(values)
    return Column(name, read, vocabulary, len(vocabulary) - 1 if other is None else other)


def _number(name: str, read: Reader) -> Column:
    return Column(name, read, None, -1)


@dataclass(frozen=True)
class Schema:
    """A feature set that never changes: a change of meaning is a new name.

    Attributes:
        name: name and version, stored with every dataset and model.
        kind: `categorical`: each column is one column of codes; `float`: each column with a vocabulary is spread over
            as many zeros and ones as it has codes, each number is itself.
        atom: columns of the node features.
        bond: columns of the edge features; the first is the type.
    """

    name: str
    kind: Literal["categorical", "float"]
    atom: tuple[Column, ...]
    bond: tuple[Column, ...]

    @property
    def atom_sizes(self) -> tuple[int, ...]:
        """Vocabulary size of each node feature, or their number in a `float` schema."""
        return self._sizes(self.atom)

    @property
    def bond_sizes(self) -> tuple[int, ...]:
        """Vocabulary size of each edge feature, or their number in a `float` schema."""
        return self._sizes(self.bond)

    def encode(self, columns: Sequence[Column], raw: Sequence[Sequence[Any]]) -> Array:
        """Raw values, one sequence a column, to the feature matrix (n, width): uint8 codes or float32."""
        codes = [column.encode(values) for column, values in zip(columns, raw, strict=True)]
        if self.kind == "categorical":
            return np.stack(codes, axis=1).astype(np.uint8)
        return np.concatenate([_spread(*pair) for pair in zip(columns, codes, strict=True)], axis=1)

    def _sizes(self, columns: Sequence[Column]) -> tuple[int, ...]:
        sizes = tuple(column.size for column in columns)
        return sizes if self.kind == "categorical" else (sum(sizes),)


def _spread(column: Column, codes: Codes) -> npt.NDArray[np.float32]:
    """Codes (n,) to ones in a matrix of zeros (n, size)."""
    if column.values is None:
        return codes[:, None].astype(np.float32)
    return np.equal(codes[:, None], np.arange(column.size)).astype(np.float32)


def _each(getter: Callable[[Any], Any]) -> Reader:
    """Read by calling a getter of RDKit on each atom or bond."""

    def read(items: Sequence[Any], unusual: Sequence[int]) -> Iterable[Any]:
        return map(getter, items)

    return read


def _unusual(getter: Callable[[Any], Any], otherwise: Any) -> Reader:
    """Read likewise, where it can say anything: most molecules have no chiral atom, no charge and few double bonds."""

    def read(items: Sequence[Any], unusual: Sequence[int]) -> Iterable[Any]:
        values = [otherwise] * len(items)
        for place in unusual:
            values[place] = getter(items[place])
        return values

    return read


def _hand(atom: Atom) -> int:
    """0 for none, 1 for R, 2 for S."""
    tagged = atom.GetChiralTag() != ChiralType.CHI_UNSPECIFIED and atom.HasProp("_CIPCode")
    return {"R": 1, "S": 2}.get(atom.GetProp("_CIPCode"), 0) if tagged else 0


def _any_of(*queries: QueryAtom) -> Mol:
    """A pattern of one atom, for which one of these holds."""
    first, *others = queries
    for query in others:
        first.ExpandQuery(query, CompositeQueryType.COMPOSITE_OR)
    pattern = Chem.RWMol()
    pattern.AddAtom(first)
    return pattern.GetMol()


_UNUSUAL = _any_of(
    rdqueries.HasChiralTagQueryAtom(),
    rdqueries.FormalChargeEqualsQueryAtom(0, negate=True),
    rdqueries.NumRadicalElectronsEqualsQueryAtom(0, negate=True),
)
_Hybrid, _Bond, _Stereo = HybridizationType, BondType, BondStereo

GOOD = Schema(
    name="good-9+3/1",
    kind="categorical",
    atom=(
        _column("atomic number", _each(Atom.GetAtomicNum), range(119)),
        _column(
            "chirality",
            _unusual(Atom.GetChiralTag, ChiralType.CHI_UNSPECIFIED),
            (ChiralType.CHI_UNSPECIFIED, ChiralType.CHI_TETRAHEDRAL_CW, ChiralType.CHI_TETRAHEDRAL_CCW),
            other=3,
        ),
        _column("degree", _each(Atom.GetTotalDegree), range(11)),
        _column("formal charge", _unusual(Atom.GetFormalCharge, 0), range(-5, 7)),
        _column("hydrogens", _each(Atom.GetTotalNumHs), range(9)),
        _column("radical electrons", _unusual(Atom.GetNumRadicalElectrons, 0), range(5)),
        _column(
            "hybridisation",
            _each(Atom.GetHybridization),
            (_Hybrid.UNSPECIFIED, _Hybrid.S, _Hybrid.SP, _Hybrid.SP2, _Hybrid.SP3, _Hybrid.SP3D, _Hybrid.SP3D2),
            other=7,
        ),
        _column("aromatic", _each(Atom.GetIsAromatic), (False, True)),
        _column("in ring", _each(Atom.IsInRing), (False, True)),
    ),
    bond=(
        _column(
            "bond type",
            _each(Bond.GetBondType),
            (_Bond.UNSPECIFIED, _Bond.SINGLE, _Bond.DOUBLE, _Bond.TRIPLE, _Bond.AROMATIC),
            other=0,
        ),
        _column(
            "stereo",
            _unusual(Bond.GetStereo, BondStereo.STEREONONE),
            (
                _Stereo.STEREONONE,
                _Stereo.STEREOZ,
                _Stereo.STEREOE,
                _Stereo.STEREOCIS,
                _Stereo.STEREOTRANS,
                _Stereo.STEREOANY,
            ),
        ),
        _column("conjugated", _each(Bond.GetIsConjugated), (False, True)),
    ),
)
"""The nine atom and three bond features of GOOD and OGB, without hydrogens and without kekulisation.

A value outside its vocabulary takes the last code (a charge of -6 reads as +6, twelve neighbours as ten), except an
unusual bond type (dative, quadruple, ...), which takes code 0, "misc". The last codes of chirality and hybridisation
are reserved for that and mean "other".
"""


DRUGOOD = Schema(
    name="drugood-39+10/1",
    kind="float",
    atom=(
        _column("element", _each(Atom.GetAtomicNum), (5, 6, 7, 8, 9, 14, 15, 16, 17, 33, 34, 35, 52, 53, 85), other=15),
        _column("degree", _each(Atom.GetDegree), range(6), other=-1),
        _number("formal charge", _unusual(Atom.GetFormalCharge, 0)),
        _number("radical electrons", _unusual(Atom.GetNumRadicalElectrons, 0)),
        _column(
            "hybridisation",
            _each(Atom.GetHybridization),
            (_Hybrid.SP, _Hybrid.SP2, _Hybrid.SP3, _Hybrid.SP3D, _Hybrid.SP3D2),
            other=5,
        ),
        _number("aromatic", _each(Atom.GetIsAromatic)),
        _column("hydrogens", _each(Atom.GetTotalNumHs), range(5), other=-1),
        _number("chirality possible", _each(methodcaller("HasProp", "_ChiralityPossible"))),
        _column("handedness", _unusual(_hand, 0), (1, 2), other=-1),
    ),
    bond=(
        _column(
            "bond type", _each(Bond.GetBondType), (_Bond.SINGLE, _Bond.DOUBLE, _Bond.TRIPLE, _Bond.AROMATIC), other=-1
        ),
        _number("conjugated", _each(Bond.GetIsConjugated)),
        _number("in ring", _each(Bond.IsInRing)),
        _column(
            "stereo",
            _unusual(Bond.GetStereo, BondStereo.STEREONONE),
            (_Stereo.STEREONONE, _Stereo.STEREOANY, _Stereo.STEREOZ, _Stereo.STEREOE),
            other=-1,
        ),
    ),
)
"""The 39 atom and 10 bond features of DrugOOD (those of Attentive FP), floats without hydrogens.

Element of 15 or other (columns 0-15), neighbours 0-5 (16-21), formal charge (22), radical electrons (23),
hybridisation of 5 or other (24-29), aromatic (30), hydrogens 0-4 (31-35), chirality possible (36), R, S (37, 38).
Bonds: single, double, triple, aromatic (0-3), conjugated (4), in ring (5), stereo none, any, Z, E (6-9). A value
outside its vocabulary sets none of its columns: six neighbours, a dative bond.
"""

SCHEMAS = {"good": GOOD, "drugood": DRUGOOD}
"""The schemas by the short names that people type."""


@dataclass(frozen=True, eq=False)
class MoleculeArrays:
    """Featurised molecules laid end to end.

    Attributes:
        x: (n_atoms, n_atom_features) codes (uint8) or floats (float32), as the schema says.
        edge_index: (2, 2 * n_bonds) source and target, counted inside each molecule; bond `b` is columns `2b`
            (begin to end) and `2b + 1` (back).
        edge_attr: (2 * n_bonds, n_bond_features) codes or floats.
        n_nodes: (n_molecules,) atoms of each molecule.
        n_edges: (n_molecules,) directed edges of each molecule.
        schema: what the columns mean.
    """

    x: Array
    edge_index: npt.NDArray[np.int32]
    edge_attr: Array
    n_nodes: npt.NDArray[np.int64]
    n_edges: npt.NDArray[np.int64]
    schema: Schema


def featurize(mols: Iterable[Mol], schema: Schema = GOOD) -> MoleculeArrays:
    """Turn sanitised molecules into arrays; atoms keep their RDKit order.

    Example:
        >>> from mphil.chem.parse import parse_smiles
        >>> arrays = featurize([parse_smiles("CCO"), parse_smiles("O")])
        >>> arrays.x[:, 0].tolist(), arrays.n_nodes.tolist()
        ([6, 6, 8, 8], [3, 1])
    """
    atom_raw: list[list[Any]] = [[] for _ in schema.atom]
    bond_raw: list[list[Any]] = [[] for _ in schema.bond]
    begin: list[int] = []
    end: list[int] = []
    counts: list[tuple[int, int]] = []
    for mol in mols:
        n_atoms, n_bonds = mol.GetNumAtoms(), mol.GetNumBonds()
        counts.append((n_atoms, n_bonds))
        # Fetching by index and mapping a getter over the column takes about half the time of a loop over
        # GetAtoms(): RDKit's iterators and a Python frame per atom cost more than the values.
        atoms = list(map(mol.GetAtomWithIdx, range(n_atoms)))
        bonds = list(map(mol.GetBondWithIdx, range(n_bonds)))
        unusual = [place for (place,) in mol.GetSubstructMatches(_UNUSUAL, maxMatches=n_atoms)]
        for raw, column in zip(atom_raw, schema.atom, strict=True):
            raw.extend(column.read(atoms, unusual))
        types = list(map(Bond.GetBondType, bonds))
        double = [place for place, kind in enumerate(types) if kind == BondType.DOUBLE]
        bond_raw[0].extend(types)
        for raw, column in zip(bond_raw[1:], schema.bond[1:], strict=True):
            raw.extend(column.read(bonds, double))
        begin.extend(map(Bond.GetBeginAtomIdx, bonds))
        end.extend(map(Bond.GetEndAtomIdx, bonds))
    forward = np.array([begin, end], np.int32).reshape(2, -1)
    sizes = np.array(counts, np.int64).reshape(-1, 2)
    return MoleculeArrays(
        x=schema.encode(schema.atom, atom_raw),
        edge_index=np.stack([forward, forward[::-1]], axis=2).reshape(2, -1),
        edge_attr=schema.encode(schema.bond, bond_raw).repeat(2, axis=0),
        n_nodes=sizes[:, 0],
        n_edges=2 * sizes[:, 1],
        schema=schema,
    )
