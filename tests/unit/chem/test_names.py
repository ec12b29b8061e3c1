from __future__ import annotations

import pytest
from rdkit import Chem

from mphil.chem.names import GROUPS, RINGS, name_part, patterns

EXAMPLES = {
    "carboxylic acid": ("CC(=O)O", "CC(=O)OC"),
    "carboxylate": ("CC(=O)[O-]", "CC(=O)O"),
    "acid anhydride": ("CC(=O)OC(C)=O", "CC(=O)OC"),
    "lactone": ("O=C1CCCO1", "CC(=O)OC"),
    "ester": ("CC(=O)OC", "O=C1CCCO1"),
    "carbonate": ("COC(=O)OC", "CC(=O)OC"),
    "carbamate": ("COC(=O)NC", "CC(=O)NC"),
    "urea": ("NC(=O)N", "CC(=O)N"),
    "thiourea": ("NC(=S)N", "NC(=O)N"),
    "imide": ("O=C1CCC(=O)N1", "CC(=O)NC"),
    "hydroxamic acid": ("CC(=O)NO", "CC(=O)N"),
    "hydrazide": ("CC(=O)NN", "CC(=O)NC"),
    "lactam": ("O=C1CCCN1", "CC(=O)NC"),
    "primary amide": ("CC(=O)N", "CC(=O)NC"),
    "secondary amide": ("CC(=O)NC", "CC(=O)N"),
    "tertiary amide": ("CC(=O)N(C)C", "CC(=O)NC"),
    "thioamide": ("CC(=S)N", "CC(=O)N"),
    "acyl halide": ("CC(=O)Cl", "CCCl"),
    "enone": ("CC(=O)C=C", "CC(=O)CC=C"),
    "aldehyde": ("CC=O", "CC(C)=O"),
    "ketone": ("CC(C)=O", "CC=O"),
    "guanidine": ("NC(=N)N", "CC(=N)N"),
    "amidine": ("CC(=N)N", "NC(=N)N"),
    "oxime": ("CC(C)=NO", "CC(C)=NC"),
    "hydrazone": ("CC(C)=NN", "CC(C)=NC"),
    "isocyanate": ("CN=C=O", "CN=C=S"),
    "isothiocyanate": ("CN=C=S", "CN=C=O"),
    "thiocyanate": ("CSC#N", "CC#N"),
    "nitrile": ("CC#N", "CSC#N"),
    "imine": ("CC(C)=NC", "CC(C)=NO"),
    "nitrate ester": ("CO[N+](=O)[O-]", "C[N+](=O)[O-]"),
    "nitro group": ("C[N+](=O)[O-]", "CN=O"),
    "nitroso group": ("CN=O", "C[N+](=O)[O-]"),
    "azide": ("CN=[N+]=[N-]", "CN=NC"),
    "azo group": ("CN=NC", "CNNC"),
    "hydrazine": ("CNNC", "CC(=O)NN"),
    "quaternary ammonium": ("C[N+](C)(C)C", "C[NH+](C)C"),
    "ammonium": ("C[NH3+]", "C[N+](C)(C)C"),
    "aromatic amine": ("Nc1ccccc1", "NCc1ccccc1"),
    "primary amine": ("CCN", "CC(=O)N"),
    "secondary amine": ("CNC", "CN"),
    "tertiary amine": ("CN(C)C", "CNC"),
    "sulfonic acid": ("CS(=O)(=O)O", "CS(=O)(=O)OC"),
    "sulfonate ester": ("CS(=O)(=O)OC", "CS(=O)(=O)O"),
    "sulfonamide": ("CS(=O)(=O)N", "CS(C)(=O)=O"),
    "sulfonyl halide": ("CS(=O)(=O)Cl", "CS(C)(=O)=O"),
    "sulfate": ("COS(=O)(=O)OC", "CS(=O)(=O)OC"),
    "sulfone": ("CS(C)(=O)=O", "CS(C)=O"),
    "sulfoxide": ("CS(C)=O", "CS(C)(=O)=O"),
    "disulfide": ("CSSC", "CSC"),
    "thiol": ("CS", "CSC"),
    "thioether": ("CSC", "c1ccsc1"),
    "phosphate": ("OP(=O)(O)O", "CP(=O)(O)O"),
    "phosphonate": ("CP(=O)(O)O", "OP(=O)(O)O"),
    "phosphine oxide": ("CP(C)(C)=O", "CP(C)C"),
    "boronic acid": ("OB(O)c1ccccc1", "COB(C)OC"),
    "peroxide": ("COOC", "COC"),
    "acetal": ("COCOC", "COCCOC"),
    "phenol hydroxyl": ("Oc1ccccc1", "OCc1ccccc1"),
    "alcohol": ("CCO", "Oc1ccccc1"),
    "aryl ether": ("COc1ccccc1", "COCc1ccccc1"),
    "ether": ("COC", "CC(=O)OC"),
    "trifluoromethyl": ("CC(F)(F)F", "CC(F)F"),
    "difluoromethylene": ("FC1(F)CCNC1", "CC(F)(F)F"),
    "trichloromethyl": ("CC(Cl)(Cl)Cl", "CC(Cl)Cl"),
    "fluorine": ("CF", "[F-].C"),
    "chlorine": ("CCl", "Cl.C"),
    "bromine": ("CBr", "CCl"),
    "iodine": ("CI", "CBr"),
    "alkyne": ("CC#C", "CC#N"),
    "alkene": ("CC=C", "c1ccccc1"),
    "tert-butyl": ("CC(C)(C)O", "CC(C)O"),
    "isopropyl": ("CC(C)O", "CCCO"),
    "methyl": ("CO", "O=Cc1ccccc1"),
    "carbonyl group": ("CC(=O)OC", "CCOC"),
    "amide nitrogen": ("CC(=O)NC", "CNC"),
    "ester oxygen": ("CC(=O)OC", "CC(=O)O"),
    "steroid skeleton": ("C1CCC2C(C1)CCC1C2CCC2CCCC12", "C1CCC2CCCCC2C1"),
    "phenothiazine": ("c1ccc2c(c1)Nc1ccccc1S2", "c1ccc2c(c1)Nc1ccccc1O2"),
    "acridine": ("c1ccc2nc3ccccc3cc2c1", "c1ccc2cc3ccccc3cc2c1"),
    "carbazole": ("c1ccc2c(c1)[nH]c1ccccc12", "c1ccc2[nH]ccc2c1"),
    "anthracene": ("c1ccc2cc3ccccc3cc2c1", "c1ccc2c(c1)ccc1ccccc12"),
    "phenanthrene": ("c1ccc2c(c1)ccc1ccccc12", "c1ccc2cc3ccccc3cc2c1"),
    "coumarin": ("O=c1ccc2ccccc2o1", "O=c1ccc2ccccc2[nH]1"),
    "purine": ("c1ncc2nc[nH]c2n1", "c1ccc2[nH]cnc2c1"),
    "naphthalene": ("c1ccc2ccccc2c1", "c1ccc2ncccc2c1"),
    "quinoline": ("c1ccc2ncccc2c1", "c1ccc2cnccc2c1"),
    "isoquinoline": ("c1ccc2cnccc2c1", "c1ccc2ncccc2c1"),
    "quinazoline": ("c1ccc2ncncc2c1", "c1ccc2nccnc2c1"),
    "quinoxaline": ("c1ccc2nccnc2c1", "c1ccc2ncncc2c1"),
    "indole": ("c1ccc2[nH]ccc2c1", "c1ccc2occc2c1"),
    "benzofuran": ("c1ccc2occc2c1", "c1ccc2sccc2c1"),
    "benzothiophene": ("c1ccc2sccc2c1", "c1ccc2occc2c1"),
    "benzimidazole": ("c1ccc2[nH]cnc2c1", "c1ccc2[nH]ncc2c1"),
    "indazole": ("c1ccc2[nH]ncc2c1", "c1ccc2[nH]cnc2c1"),
    "benzoxazole": ("c1ccc2ocnc2c1", "c1ccc2scnc2c1"),
    "benzothiazole": ("c1ccc2scnc2c1", "c1ccc2ocnc2c1"),
    "benzodioxole": ("c1ccc2c(c1)OCO2", "c1ccc2c(c1)OCCO2"),
    "indoline": ("c1ccc2c(c1)CCN2", "c1ccc2[nH]ccc2c1"),
    "tetralin": ("c1ccc2c(c1)CCCC2", "c1ccc2ccccc2c1"),
    "pyridone": ("O=c1cccc[nH]1", "Oc1ccccn1"),
    "benzene ring": ("c1ccccc1", "c1ccncc1"),
    "pyridine": ("c1ccncc1", "O=c1cccc[nH]1"),
    "pyrimidine": ("c1cncnc1", "c1cnccn1"),
    "pyrazine": ("c1cnccn1", "c1cncnc1"),
    "pyridazine": ("c1ccnnc1", "c1cnccn1"),
    "1,3,5-triazine": ("c1ncncn1", "c1cncnc1"),
    "tetrazole": ("c1nnn[nH]1", "c1nnc[nH]1"),
    "1,2,3-triazole": ("c1c[nH]nn1", "c1nnc[nH]1"),
    "1,2,4-triazole": ("c1nc[nH]n1", "c1c[nH]nn1"),
    "1,3,4-oxadiazole": ("c1nnco1", "c1ncon1"),
    "1,2,4-oxadiazole": ("c1ncon1", "c1nnco1"),
    "1,3,4-thiadiazole": ("c1nncs1", "c1nnco1"),
    "pyrazole": ("c1cn[nH]c1", "c1c[nH]cn1"),
    "imidazole": ("c1c[nH]cn1", "c1cn[nH]c1"),
    "isoxazole": ("c1cnoc1", "c1cocn1"),
    "oxazole": ("c1cocn1", "c1cnoc1"),
    "isothiazole": ("c1cnsc1", "c1cscn1"),
    "thiazole": ("c1cscn1", "c1cnsc1"),
    "pyrrole": ("c1cc[nH]c1", "c1ccoc1"),
    "furan": ("c1ccoc1", "c1ccsc1"),
    "thiophene": ("c1ccsc1", "c1ccoc1"),
    "epoxide": ("C1CO1", "C1CN1"),
    "aziridine": ("C1CN1", "C1CO1"),
    "beta-lactam": ("O=C1CCN1", "C1CNC1"),
    "azetidine": ("C1CNC1", "O=C1CCN1"),
    "hydantoin": ("O=C1CNC(=O)N1", "O=C1CCC(=O)N1"),
    "piperazine": ("C1CNCCN1", "C1COCCN1"),
    "morpholine": ("C1COCCN1", "C1CNCCN1"),
    "piperidine": ("C1CCNCC1", "C1CCOCC1"),
    "pyrrolidine": ("C1CCNC1", "O=C1CCCN1"),
    "tetrahydropyran": ("C1CCOCC1", "C1CCOC1"),
    "tetrahydrofuran": ("C1CCOC1", "C1CCOCC1"),
    "cyclopropane": ("C1CC1", "C1CO1"),
    "cyclobutane": ("C1CCC1", "C1CNC1"),
    "cyclopentane": ("C1CCCC1", "C1CCOC1"),
    "cyclohexene": ("C1=CCCCC1", "C1CCCCC1"),
    "cyclohexane": ("C1CCCCC1", "C1=CCCCC1"),
    "cycloheptane": ("C1CCCCCC1", "C1CCCCC1"),
}


def pieces_of(smiles: str, name: str) -> list[tuple[int, ...]]:
    return [tuple(sorted(match)) for match in Chem.MolFromSmiles(smiles).GetSubstructMatches(patterns()[name])]


def test_every_pattern_compiles_and_has_examples():
    assert all(pattern is not None for pattern in patterns().values())
    assert set(EXAMPLES) == {*GROUPS, *RINGS}
    assert not set(GROUPS) & set(RINGS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_molecule_that_has_it_and_one_that_has_not(name):
    yes, no = EXAMPLES[name]
    found = pieces_of(yes, name)
    assert found
    assert name_part(yes, found[0]) == name, "and no pattern before it takes the same atoms"
    assert not pieces_of(no, name)


@pytest.mark.parametrize(
    ("smiles", "atoms", "name"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", [10, 11, 12], "carboxylic acid"),
        ("Clc1ccccc1", range(7), "benzene ring + chlorine"),
        ("CCCCc1ccccc1", [0, 1, 2, 3], "methyl + alkyl carbon"),
        ("CN(C)C", [0, 1, 2, 3], "tertiary amine + 3 methyl"),
        ("Clc1cc(Br)c(F)c(O)c1I", range(11), ""),
        ("CCO", [], ""),
        ("c1ccc2c(c1)CC=C2", range(9), ""),
    ],
)
def test_parts_made_of_several_pieces(smiles, atoms, name):
    assert name_part(smiles, atoms) == name


def test_the_spelling_does_not_matter():
    assert name_part("OC(=O)C", [0, 1, 2]) == name_part("CC(O)=O", [1, 2, 3]) == "carboxylic acid"


def test_a_molecule_with_strange_valences_has_no_names():
    assert name_part("C[C](C)(C)(C)C", [0, 1]) == ""
