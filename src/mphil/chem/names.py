"""What a chemist would call a part of a molecule, from a catalogue of our own.

A pattern names exactly the atoms that belong to the group; what must be around them stands in recursive patterns. Among
patterns for the same atoms the first one counts, so the special comes before the general.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, lru_cache

from rdkit import Chem, rdBase
from rdkit.Chem import Mol

from mphil.chem.parse import parse_lenient

_ACYL = "[CX3;$(C[#6]),$([CX3;H1,H2])]"
"""Carbon of a carbonyl group on carbon or hydrogen: of an acid and its derivatives, not of a carbonate or a urea."""

_PLAIN_N = "!$(N~[C,c]~[O,S;X1]);!$(N[C,c]=[N,n]);!$(N~[S,P]=O);!$(N~[N,O,S])"
"""An amine is not an amide, an amidine, a sulfonamide, a hydrazine or a hydroxylamine."""

GROUPS: dict[str, str] = {
    "carboxylic acid": f"{_ACYL}(=[OX1])[OX2H1]",
    "carboxylate": f"{_ACYL}(=[OX1])[OX1-]",
    "acid anhydride": "[CX3](=[OX1])[OX2][CX3]=[OX1]",
    "lactone": f"{_ACYL}(=[OX1])@[OX2H0]",
    "ester": f"{_ACYL}(=[OX1])!@[OX2H0;$(O[#6;!$(C=O)])]",
    "carbonate": "[OX2][CX3](=[OX1])[OX2]",
    "carbamate": "[NX3][CX3](=[OX1])[OX2]",
    "urea": "[NX3][CX3](=[OX1])[NX3]",
    "thiourea": "[NX3][CX3](=[SX1])[NX3]",
    "imide": "[CX3](=[OX1])[NX3][CX3]=[OX1]",
    "hydroxamic acid": f"{_ACYL}(=[OX1])[NX3][OX2H1]",
    "hydrazide": f"{_ACYL}(=[OX1])[NX3][NX3]",
    "lactam": f"{_ACYL}(=[OX1])@[NX3]",
    "primary amide": f"{_ACYL}(=[OX1])[NX3H2]",
    "secondary amide": f"{_ACYL}(=[OX1])!@[NX3H1]",
    "tertiary amide": f"{_ACYL}(=[OX1])!@[NX3H0]",
    "thioamide": "[CX3;$(C[#6])](=[SX1])[NX3]",
    "acyl halide": f"{_ACYL}(=[OX1])[F,Cl,Br,I]",
    "enone": "[CX3]=[CX3][CX3;$(C([#6])[#6])]=[OX1]",
    "aldehyde": "[CX3H1,CX3H2;!$(C[N,O,S])]=[OX1]",
    "ketone": "[CX3;$(C([#6])[#6])]=[OX1]",
    "guanidine": "[NX3][CX3](=[N;X2,X3+])[NX3]",
    "amidine": "[CX3;$(C[#6]),$([CX3;H1])](=[N;X2,X3+])[NX3]",
    "oxime": "[CX3]=[NX2][OX2]",
    "hydrazone": "[CX3]=[NX2][NX3]",
    "isocyanate": "[NX2]=[CX2]=[OX1]",
    "isothiocyanate": "[NX2]=[CX2]=[SX1]",
    "thiocyanate": "[SX2][CX2]#[NX1]",
    "nitrile": "[CX2;$(C[#6])]#[NX1]",
    "imine": "[CX3;!$(C~[N]~[N,O])]=[NX2;$(N[#6]),$([NX2;H1])]",
    "nitrate ester": "[OX2][N;X3](~[OX1])~[OX1]",
    "nitro group": "[N;X3;$(N[#6])](~[OX1])~[OX1]",
    "nitroso group": "[NX2;$(N[#6,#7])]=[OX1]",
    "azide": "[N]=[N+]=[N-]",
    "azo group": "[NX2;$(N[#6])]=[NX2;$(N[#6])]",
    "hydrazine": "[NX3;!$(N[C,c]=[O,S]);!$(N=*)][NX3;!$(N[C,c]=[O,S]);!$(N=*)]",
    "quaternary ammonium": "[NX4+;H0]",
    "ammonium": "[NX4+;!H0]",
    "aromatic amine": f"[NX3;+0;$(Nc);{_PLAIN_N}]",
    "primary amine": f"[NX3;H2;+0;$(N[CX4]);{_PLAIN_N}]",
    "secondary amine": f"[NX3;H1;+0;$(N([CX4])[CX4]);{_PLAIN_N}]",
    "tertiary amine": f"[NX3;H0;+0;$(N([CX4])([CX4])[CX4]);{_PLAIN_N}]",
    "sulfonic acid": "[SX4;$(S[#6])](=[OX1])(=[OX1])[OX2H1,OX1-]",
    "sulfonate ester": "[SX4;$(S[#6])](=[OX1])(=[OX1])[OX2H0]",
    "sulfonamide": "[SX4;$(S[#6])](=[OX1])(=[OX1])[NX3]",
    "sulfonyl halide": "[SX4;$(S[#6])](=[OX1])(=[OX1])[F,Cl,Br,I]",
    "sulfate": "[OX2,OX1-][SX4](=[OX1])(=[OX1])[OX2,OX1-]",
    "sulfone": "[SX4;$(S([#6])[#6])](=[OX1])=[OX1]",
    "sulfoxide": "[SX3;$(S([#6])[#6])]=[OX1]",
    "disulfide": "[SX2][SX2]",
    "thiol": "[SX2H1;$(S[#6])]",
    "thioether": "[SX2H0;$(S([#6])[#6]);!$(S[CX2]#N)]",
    "phosphate": "[PX4](=[OX1])([OX2,OX1-])([OX2,OX1-])[OX2,OX1-]",
    "phosphonate": "[PX4;$(P[#6])](=[OX1])([OX2,OX1-])[OX2,OX1-]",
    "phosphine oxide": "[PX4;$(P([#6])([#6])[#6])]=[OX1]",
    "boronic acid": "[BX3;$(B[#6])]([OX2H1])[OX2H1]",
    "peroxide": "[OX2][OX2]",
    "acetal": "[CX4]([OX2;$(O[#6])])[OX2;$(O[#6])]",
    "phenol hydroxyl": "[OX2H1;$(Oc)]",
    "alcohol": "[OX2H1;$(O[CX4])]",
    "aryl ether": "[OX2H0;$(Oc);!$(O[C,c,S,P,N]=[O,S]);$(O([#6])[#6])]",
    "ether": "[OX2H0;$(O([#6;!$(C=[O,S])])[#6;!$(C=[O,S])])]",
    "trifluoromethyl": "[CX4](F)(F)F",
    "difluoromethylene": "[CX4;!$(C(F)(F)F)](F)F",
    "trichloromethyl": "[CX4](Cl)(Cl)Cl",
    "fluorine": "[F;X1;$(F[#6])]",
    "chlorine": "[Cl;X1;$(Cl[#6])]",
    "bromine": "[Br;X1;$(Br[#6])]",
    "iodine": "[I;X1;$(I[#6])]",
    "alkyne": "[CX2]#[CX2]",
    "alkene": "[CX3]=[CX3]",
    "tert-butyl": "[CX4;$(C*)]([CH3])([CH3])[CH3]",
    "isopropyl": "[CX4H1]([CH3])[CH3]",
    "methyl": "[CH3]",
    "carbonyl group": "[CX3]=[OX1]",
    "amide nitrogen": "[NX3;$(NC=O)]",
    "ester oxygen": "[OX2H0;$(O([#6])C=O)]",
}
"""Name to the pattern of a functional group."""

RINGS: dict[str, str] = {
    "steroid skeleton": "C~1~C~C~C~C~2~C~1~C~C~C~1~C~2~C~C~C~2~C~C~C~C~1~2",
    "phenothiazine": "c1ccc2c(c1)Nc1ccccc1S2",
    "acridine": "c1ccc2nc3ccccc3cc2c1",
    "carbazole": "c1ccc2c(c1)[n]c1ccccc12",
    "anthracene": "c1ccc2cc3ccccc3cc2c1",
    "phenanthrene": "c1ccc2c(c1)ccc1ccccc12",
    "coumarin": "[#6]1~[#6]~[#6;$([#6]=O)]~[#8]~c2cccc~c~12",
    "purine": "[#7]1~[#6]~[#7]~[#6]~2~[#6]~1~[#6]~[#7]~[#6]~[#7]~2",
    "naphthalene": "c1ccc2ccccc2c1",
    "quinoline": "n1cccc2ccccc12",
    "isoquinoline": "c1nccc2ccccc12",
    "quinazoline": "n1cncc2ccccc12",
    "quinoxaline": "n1ccnc2ccccc12",
    "indole": "[n]1ccc2ccccc12",
    "benzofuran": "o1ccc2ccccc12",
    "benzothiophene": "s1ccc2ccccc12",
    "benzimidazole": "[n]1cnc2ccccc12",
    "indazole": "[n]1ncc2ccccc12",
    "benzoxazole": "o1cnc2ccccc12",
    "benzothiazole": "s1cnc2ccccc12",
    "benzodioxole": "[#8]1[CX4][#8]c2ccccc12",
    "indoline": "[NX3]1[CX4][CX4]c2ccccc12",
    "tetralin": "C1CCCc2ccccc12",
    "pyridone": "[nX3]1c(=O)cccc1",
    "benzene ring": "c1ccccc1",
    "pyridine": "[nX2,$([nX3+])]1ccccc1",
    "pyrimidine": "n1cnccc1",
    "pyrazine": "n1ccncc1",
    "pyridazine": "n1ncccc1",
    "1,3,5-triazine": "n1cncnc1",
    "tetrazole": "[n]1nnnc1",
    "1,2,3-triazole": "[n]1nncc1",
    "1,2,4-triazole": "[n]1ncnc1",
    "1,3,4-oxadiazole": "o1cnnc1",
    "1,2,4-oxadiazole": "o1ncnc1",
    "1,3,4-thiadiazole": "s1cnnc1",
    "pyrazole": "[n]1nccc1",
    "imidazole": "[n]1cncc1",
    "isoxazole": "o1nccc1",
    "oxazole": "o1cncc1",
    "isothiazole": "s1nccc1",
    "thiazole": "s1cncc1",
    "pyrrole": "[n]1cccc1",
    "furan": "o1cccc1",
    "thiophene": "s1cccc1",
    "epoxide": "[CX4]1[OX2][CX4]1",
    "aziridine": "[CX4]1[NX3][CX4]1",
    "beta-lactam": "[CX4]1[CX4][CX3;$(C=O)][NX3]1",
    "azetidine": "[CX4]1[CX4][CX4][NX3]1",
    "hydantoin": "[NX3]1[CX3;$(C=O)][NX3][CX3;$(C=O)]C1",
    "piperazine": "N1CCNCC1",
    "morpholine": "N1CCOCC1",
    "piperidine": "N1CCCCC1",
    "pyrrolidine": "[N;X3,X4]1[CX4][CX4][CX4][CX4]1",
    "tetrahydropyran": "O1[CX4][CX4][CX4][CX4][CX4]1",
    "tetrahydrofuran": "O1[CX4][CX4][CX4][CX4]1",
    "cyclopropane": "[CX4]1[CX4][CX4]1",
    "cyclobutane": "[CX4]1[CX4][CX4][CX4]1",
    "cyclopentane": "[CX4]1[CX4][CX4][CX4][CX4]1",
    "cyclohexene": "[CX3]1=[CX3][CX4][CX4][CX4][CX4]1",
    "cyclohexane": "[CX4]1[CX4][CX4][CX4][CX4][CX4]1",
    "cycloheptane": "[CX4]1[CX4][CX4][CX4][CX4][CX4][CX4]1",
}
"""Name to the pattern of a ring, or of rings that share bonds."""

MOST_WORDS = 3
"""Named pieces of which a part is put together, at most; what is larger is better drawn."""

REMEMBERED = 512
"""Molecules whose named pieces are kept: every part of a molecule asks for them."""

Piece = tuple[str, frozenset[int]]


def name_part(smiles: str, atoms: Collection[int]) -> str:
    """The name of a part of a molecule, or an empty text when there is none.

    A part that is no group or ring of the catalogue by itself is named by the pieces that make it up, with whatever
    saturated carbon is left.

    Args:
        smiles: the molecule.
        atoms: numbers of the atoms of the part, in the order in which the SMILES names them.

    Example:
        >>> name_part("CC(=O)Oc1ccccc1", [1, 2, 3]), name_part("CC(=O)Oc1ccccc1", [0, 1, 2])
        ('ester', 'carbonyl group + methyl')
    """
    wanted = frozenset(atoms)
    pieces = _pieces(smiles)
    exact = next((name for name, members in pieces if members == wanted), "")
    if exact or not pieces or not wanted:
        return exact
    inside = sorted((piece for piece in pieces if piece[1] <= wanted), key=lambda piece: -len(piece[1]))
    found: dict[str, int] = {}
    left = wanted
    for name, members in inside:
        if members <= left:
            found[name] = found.get(name, 0) + 1
            left -= members
    if left - _saturated(smiles):
        return ""
    words = [name if count == 1 else f"{count} {name}" for name, count in found.items()]
    words += ["alkyl carbon"] if left else []
    return " + ".join(words) if len(words) <= MOST_WORDS else ""


@lru_cache(maxsize=REMEMBERED)
def _pieces(smiles: str) -> tuple[Piece, ...]:
    """Everything in a molecule that the catalogue has a name for; none where RDKit does not know its valences."""
    mol, partial = parse_lenient(smiles)
    if partial:
        return ()
    found: dict[frozenset[int], str] = {}
    with rdBase.BlockLogs():
        for name, pattern in patterns().items():
            for match in mol.GetSubstructMatches(pattern):
                found.setdefault(frozenset(match), name)
    return tuple((name, atoms) for atoms, name in found.items())


@lru_cache(maxsize=REMEMBERED)
def _saturated(smiles: str) -> frozenset[int]:
    """Carbons with single bonds only, outside rings."""
    mol, _ = parse_lenient(smiles)
    chain = Chem.MolFromSmarts("[CX4;!R]")
    return frozenset(atom for (atom,) in mol.GetSubstructMatches(chain))


@cache
def patterns() -> dict[str, Mol]:
    """Name to the compiled pattern, rings first."""
    return {name: Chem.MolFromSmarts(smarts) for name, smarts in {**RINGS, **GROUPS}.items()}
