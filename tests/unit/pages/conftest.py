from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mphil.pages.demo_page import Choice, DataView, DemoView, FoundAtoms, Making, MethodView, MoleculeView, PartView
from mphil.pages.sphere_map import Cloud

DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="3"/></svg>'


def method(name: str, inside: float, outside: float, **changes) -> MethodView:
    scores = {"id_val": inside, "id_test": inside, "ood_val": outside, "ood_test": outside}
    view = MethodView(
        name,
        choices={"ood_val": Choice(2, scores), "id_val": Choice(1, scores)},
        curves={part: [0.5, scores[part]] for part in ("id_val", "ood_val", "ood_test")},
        seconds=12.4,
        cloud=Cloud(np.eye(3), [0, 1, 0], ["id_test", "ood_test", "id_test"], np.eye(3)[:1], [1], 0.5),
        atom_score=0.75,
    )
    return replace(view, **changes)


@pytest.fixture
def view() -> DemoView:
    return DemoView(
        data=DataView(
            benchmark="toy",
            classes=["off", "on"],
            parts=[PartView("train", 100, (50, 50), 4, 0.9), PartView("ood_test", 1000, (900, 100), 2)],
            story=["Say `why`."],
        ),
        metric="accuracy",
        methods=[method("erm", 0.95, 0.6), method("mphil", 0.94, 0.92)],
        making=Making("mphil demo", [0], 2, {"mphil": "1"}, "machine", 1),
        molecules=[MoleculeView("CCO", "on, chain", DRAWING, {"erm": FoundAtoms(DRAWING, 0.25)})],
        next_commands=[("mphil benchmarks", "See them.")],
        chance=0.5,
    )
