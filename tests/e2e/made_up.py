"""A demo view with invented but lifelike numbers, and molecules drawn by RDKit."""

from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from mphil.pages.demo_page import Choice, DataView, DemoView, FoundAtoms, Making, MethodView, MoleculeView, PartView
from mphil.pages.sphere_map import Cloud, to_sphere3

MOLECULES = (
    ("OC(=O)c1ccc2[nH]ccc2c1", "C(=O)[OH]", "acid", "indole"),
    ("COc1ccc2ncccc2c1", "", "no acid", "quinoline"),
    ("OC(=O)CCc1ccc2occc2c1", "C(=O)[OH]", "acid", "benzofuran"),
    ("Cc1nc2ccccc2s1", "", "no acid", "benzothiazole"),
)


def demo_view(seed: int = 0) -> DemoView:
    generator = np.random.default_rng(seed)
    return DemoView(
        data=_data(),
        metric="accuracy",
        methods=[
            _method("erm", generator, final=(0.985, 0.66, 0.613), noise=0.03, seconds=31.4, prototypes=0, found=0.58),
            _method("mphil", generator, final=(0.98, 0.93, 0.912), noise=0.015, seconds=48.9, prototypes=4, found=0.94),
        ],
        making=Making(
            command="mphil demo --seed 0",
            seeds=[0],
            epochs=20,
            versions={"mphil": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "rdkit": "2026.9.1", "numpy": "2.4.6"},
            machine="x86_64, 2 cores, Linux",
            threads=2,
            date="2026-01-31",
        ),
        molecules=[_molecule(i, generator) for i in range(len(MOLECULES))],
        next_commands=[
            ("mphil train --benchmark good-motif-basis --method mphil --seed 0", "Train on another shift."),
            ("mphil benchmarks", "See every benchmark; `mphil benchmarks show NAME` draws sample graphs."),
            ("mphil predict runs/demo/mphil new.csv", "Use the trained model on molecules of your own."),
        ],
        chance=0.5,
    )


def _data() -> DataView:
    return DataView(
        benchmark="scaffold-trap",
        classes=["no acid", "acid"],
        parts=[
            PartView("train", 2400, (1203, 1197), 12, 0.9),
            PartView("id_val", 400, (198, 202), 12, 0.902),
            PartView("id_test", 400, (205, 195), 12, 0.895),
            PartView("ood_val", 400, (200, 200), 6, None),
            PartView("ood_test", 600, (301, 299), 8, None),
        ],
        story=[
            "A molecule is active exactly when it carries a carboxylic acid. In the training part nine acids in ten "
            "sit on one of six scaffolds and nine other molecules in ten on one of six others, so the scaffold nearly "
            "gives the label away.",
            "The OOD parts use scaffolds that were never seen in training, with both classes on each. A method that "
            "learned the acid keeps working; a method that learned the scaffolds is left to guess.",
        ],
        digest="7f3a" * 16,
    )


def _method(name, generator, *, final, noise, seconds, prototypes, found):
    epochs = np.arange(1, 21)
    curves = {}
    for part, end in zip(("id_val", "ood_val", "ood_test"), final, strict=True):
        values = 0.5 + (end - 0.5) * (1 - np.exp(-epochs / 3.0)) + noise * generator.standard_normal(20)
        curves[part] = np.clip(values, 0, 1).tolist()
    choices = {}
    for rule in ("ood_val", "id_val"):
        best = int(np.argmax(curves[rule]))
        scores = {part: values[best] for part, values in curves.items()} | {"id_test": final[0] - 0.006}
        choices[rule] = Choice(best + 1, scores)
    return MethodView(name, choices, curves, seconds, _cloud(generator, prototypes), found)


def _cloud(generator: np.random.Generator, prototypes: int) -> Cloud:
    centres = generator.standard_normal((2, max(prototypes // 2, 1), 32))
    classes = generator.integers(0, 2, 300)
    slots = generator.integers(0, centres.shape[1], 300)
    parts = np.where(np.arange(300) < 150, "id_test", "ood_test")
    drift = np.where(parts == "ood_test", 0.5 if prototypes else 1.6, 0.35)[:, None]
    points, stars, explained = to_sphere3(
        centres[classes, slots] + drift * generator.standard_normal((300, 32)),
        centres.reshape(-1, 32) if prototypes else np.empty((0, 32)),
    )
    return Cloud(points, classes.tolist(), parts.tolist(), stars, [0, 0, 1, 1][: len(stars)], explained)


def _molecule(i: int, generator: np.random.Generator) -> MoleculeView:
    smiles, group, label, scaffold = MOLECULES[i]
    molecule = Chem.MolFromSmiles(smiles)
    truth = np.zeros(molecule.GetNumAtoms())
    if group:
        truth[list(molecule.GetSubstructMatch(Chem.MolFromSmarts(group)))] = 1
    blurred = np.clip(truth + 0.15 * generator.random(len(truth)), 0, 1)
    lost = generator.random(len(truth))
    return MoleculeView(
        smiles,
        f"{label}, on {scaffold} (OOD test)",
        _draw(molecule, truth),
        {"erm": FoundAtoms(_draw(molecule, lost), 0.41 if group else None)}
        | {"mphil": FoundAtoms(_draw(molecule, blurred), 1.0 if group else None)},
    )


def _draw(molecule: Chem.Mol, weight: np.ndarray) -> str:
    canvas = rdMolDraw2D.MolDraw2DSVG(220, 170)
    canvas.drawOptions().clearBackground = False
    colours = {i: (1.0, 1 - 0.45 * w, 1 - 0.85 * w) for i, w in enumerate(weight.tolist())}
    strong = [i for i, w in enumerate(weight) if w > 0.2]
    canvas.DrawMolecule(
        molecule, highlightAtoms=strong, highlightAtomColors={i: colours[i] for i in strong}, highlightBonds=[]
    )
    canvas.FinishDrawing()
    return canvas.GetDrawingText()
