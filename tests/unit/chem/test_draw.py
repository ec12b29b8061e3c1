import re
from xml.etree import ElementTree

import numpy as np
import pytest
from rdkit.Chem import rdDepictor

from mphil.chem.draw import GLOW, INK, OUTLINE, molecule_svg
from mphil.chem.parse import parse_smiles
from mphil.chem.schema import featurize
from mphil.errors import DataError, UsageError

SVG = "{http://www.w3.org/2000/svg}"
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def read(text):
    return ElementTree.fromstring(text)  # our own text


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_one_svg_element_of_the_asked_size():
    root = read(molecule_svg(ASPIRIN, width=200, height=100))
    assert root.tag == f"{SVG}svg"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("200", "100", "0 0 200 100")
    assert root.find(f"{SVG}title").text == ASPIRIN


def test_everything_drawn_is_inside_the_frame():
    root = read(molecule_svg("CCCCCCCCCCCCc1ccc(CCCCCCCCC(=O)O)cc1", width=160, height=90))
    numbers = [float(v) for path in root.iter(f"{SVG}path") for v in re.findall(r"-?\d+\.?\d*", path.get("d"))]
    assert numbers
    assert min(numbers) >= 0
    assert max(numbers) <= 160


def test_nothing_from_outside_and_no_background():
    text = molecule_svg(ASPIRIN, weights=[0.5] * 13, outline=[0, 1])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg\")", text)
    tags = {element.tag.removeprefix(SVG) for element in read(text).iter()}
    assert tags <= {"svg", "title", "defs", "radialGradient", "stop", "g", "circle", "path", "mask", "rect"}
    assert not [e for e in read(text) if e.tag == f"{SVG}rect"]


def test_the_same_request_gives_the_same_text_and_another_one_other_ids():
    request = {"weights": [i / 12 for i in range(13)], "outline": [9, 10]}
    first = molecule_svg(ASPIRIN, **request)
    assert first == molecule_svg(ASPIRIN, **request)
    other = molecule_svg(ASPIRIN, **(request | {"outline": [9]}))
    assert not set(re.findall(r'id="([^"]+)"', first)) & set(re.findall(r'id="([^"]+)"', other))


def test_arrays_are_as_good_as_lists():
    weights = np.linspace(0, 1, 13)
    expected = molecule_svg(ASPIRIN, weights=weights.tolist(), outline=[4, 5])
    assert molecule_svg(ASPIRIN, weights=weights, outline=np.array([5, 4])) == expected


def test_weights_become_the_opacity_of_discs():
    weights = [0.0] * 13
    weights[3], weights[12] = 0.25, 1.0
    discs = read(molecule_svg(ASPIRIN, weights=weights)).findall(f".//{SVG}circle")
    assert [float(disc.get("opacity")) for disc in discs] == [0.25, 1.0]


def test_bond_weights_become_the_opacity_of_bars_along_the_bonds():
    """Bond 1 of F-C#N is the triple bond; the drawing is straight, so its bar lies between the discs of its atoms."""
    root = read(molecule_svg("FC#N", weights=[0, 1, 1], bond_weights=[0, 0.25]))
    (bar,) = [path for group in root.findall(f"{SVG}g") if group.get("stroke") == GLOW for path in group]
    assert float(bar.get("opacity")) == 0.25
    ax, ay, bx, by = (float(v) for v in re.findall(r"-?[\d.]+", bar.get("d")))
    carbon, nitrogen = ((float(d.get("cx")), float(d.get("cy"))) for d in root.iter(f"{SVG}circle"))
    assert (ax + bx) / 2 == pytest.approx((carbon[0] + nitrogen[0]) / 2, abs=0.2)
    assert (ay + by) / 2 == pytest.approx((carbon[1] + nitrogen[1]) / 2, abs=0.2)


def test_bonds_are_counted_as_the_edges_of_a_store():
    smiles = "CC(=O)N"
    ends = featurize([parse_smiles(smiles)]).edge_index[:, ::2].T.tolist()
    for bond, (begin, end) in enumerate(ends):
        marked = [float(atom in (begin, end)) for atom in range(4)]
        root = read(molecule_svg(smiles, weights=marked, bond_weights=[float(b == bond) for b in range(3)]))
        (bar,) = [path for group in root.findall(f"{SVG}g") if group.get("stroke") == GLOW for path in group]
        numbers = [float(v) for v in re.findall(r"-?[\d.]+", bar.get("d"))]
        discs = [(float(d.get("cx")), float(d.get("cy"))) for d in root.iter(f"{SVG}circle")]
        assert np.mean(discs, axis=0).tolist() == pytest.approx(np.mean([numbers[:2], numbers[2:]], axis=0), abs=0.2)


def test_a_molecule_with_an_unknown_valence_is_drawn():
    assert read(molecule_svg("O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3")) is not None


def test_discs_sit_on_their_atoms():
    """Atom 1 of F-C#N lies between the other two, whatever the layout."""
    discs = read(molecule_svg("FC#N", weights=[1, 1, 1])).findall(f".//{SVG}circle")
    (ax, ay), (bx, by), (cx, cy) = ((float(d.get("cx")), float(d.get("cy"))) for d in discs)
    assert (ax + cx) / 2 == pytest.approx(bx, abs=0.5)
    assert (ay + cy) / 2 == pytest.approx(by, abs=0.5)


def test_the_outline_follows_the_atoms_and_the_bonds_between_them():
    root = read(molecule_svg("CCCC", outline=[0, 1, 3]))
    (line,) = [path for path in root.iter(f"{SVG}path") if path.get("stroke") == OUTLINE]
    assert line.get("d").count("M") == 3 + 1
    assert root.find(f"{SVG}mask").get("id") in line.get("mask")


@pytest.mark.parametrize("page", ["#ffffff", "#f6f7f9", "#14161b", "#000000"])
@pytest.mark.parametrize("ink", [*INK.values(), OUTLINE])
def test_ink_reads_on_light_and_dark_pages(ink, page):
    assert contrast(ink, page) >= 3


@pytest.mark.parametrize("page", ["#ffffff", "#14161b"])
def test_carbon_reads_on_the_strongest_glow(page):
    opacity = max(float(v) for v in re.findall(r'stop-opacity="([\d.]+)"', molecule_svg("C", weights=[1])))
    mixed = "#" + "".join(
        f"{round(opacity * int(GLOW[i : i + 2], 16) + (1 - opacity) * int(page[i : i + 2], 16)):02x}" for i in (1, 3, 5)
    )
    assert contrast(INK[6], mixed) >= 2
    assert contrast(page, mixed) >= 1.5


def test_markup_in_a_smiles_is_text():
    smiles = "[NH3]->[Fe]"
    assert read(molecule_svg(smiles)).find(f"{SVG}title").text == smiles


@pytest.mark.parametrize(
    "smiles", ["C", "[Na+].[Cl-]", "F/C=C/Br", "C[C@H](N)C(=O)O", "[2H]C([2H])[2H]", "[CH3]", "*C"]
)
def test_unusual_molecules_are_drawn(smiles):
    assert read(molecule_svg(smiles)) is not None


def test_drawing_does_not_depend_on_a_global_choice_of_layout():
    before = rdDepictor.GetPreferCoordGen()
    text = molecule_svg(ASPIRIN)
    try:
        rdDepictor.SetPreferCoordGen(not before)
        assert molecule_svg(ASPIRIN) == text
    finally:
        rdDepictor.SetPreferCoordGen(before)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"weights": [1.0]}, "1 atom weights for a molecule of 3"),
        ({"weights": [0, 0, 1.1]}, "between 0 and 1"),
        ({"weights": [0, 0, float("nan")]}, "between 0 and 1"),
        ({"bond_weights": [1.0]}, "1 bond weights for a molecule of 2 bonds"),
        ({"bond_weights": [0, -0.1]}, "bond weights must lie between 0 and 1"),
        ({"outline": [3]}, "between 0 and 2"),
        ({"outline": [-1]}, "between 0 and 2"),
    ],
)
def test_impossible_requests(request_, message):
    with pytest.raises(UsageError, match=message):
        molecule_svg("CCO", **request_)


def test_a_broken_smiles_is_refused():
    with pytest.raises(DataError):
        molecule_svg("C(")
