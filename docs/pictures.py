"""Draw the pictures of docs/explanation: `python docs/pictures.py` trains three small models, for a few minutes.

The models are small so that anybody can draw the pictures again; no figure of a table comes from them.
"""

from __future__ import annotations

from pathlib import Path

import torch

import mphil
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore
from mphil.pages.charts import line_chart
from mphil.pages.elements import on_white
from mphil.pages.samples import GraphSample, gallery
from mphil.pages.sphere_map import Cloud, still, to_sphere3

FOLDER = Path(__file__).parent / "pictures"
SHOWN = 120
"""Graphs of each part on a sphere."""
SMALL = {"encoder": {"width": 64, "dropout": 0.1}, "train": {"epochs": 12, "schedule": "cosine"}}


def whole(store: GraphStore, rows: torch.Tensor) -> torch.Tensor:
    """All these graphs as one batch."""
    return next(iter(Loader(store, rows, len(rows))))


def sphere_and_attention() -> None:
    """Where MPHIL puts graphs and prototypes, and what its attention makes of them: as published, and repaired."""
    data = mphil.benchmark("good-motif-basis", graphs=3000)
    rows = torch.cat([data.split.id_test[:SHOWN], data.split.ood_test[:SHOWN]])
    shares = torch.linspace(0, 1, 101)
    lines = {}
    for name, preset in (("published", None), ("repaired", "repaired")):
        method = mphil.train(data, "mphil", seed=0, preset=preset, **SMALL).method.eval()
        with torch.no_grad():
            z, prototypes = method.embed(whole(data.store, rows)), method.bank()
            largest = method.weigh(z, prototypes, pruned=False).exp().amax(-1)
        lines[name] = torch.quantile(largest.flatten(), shares).tolist()
        write(f"sphere-{name}", ball(z, prototypes[0], data.store.y[rows, 0].long().tolist()))
    chart = line_chart(
        lines,
        title=f"The largest of {prototypes.shape[-2]} attention weights",
        x_label="graphs and classes, in per cent",
        y_label="weight",
        x=(100 * shares).tolist(),
        y_range=(0.0, 1.0),
    )
    write("attention", chart)


def ball(z: torch.Tensor, prototypes: torch.Tensor, classes: list[int]) -> str:
    """Graphs like those of training filled, shifted ones hollow, (C, K, p) prototypes as stars."""
    points, marks, explained = to_sphere3(z.numpy(), prototypes.flatten(0, 1).numpy())
    owners = torch.arange(len(prototypes)).repeat_interleave(prototypes.shape[1]).tolist()
    names = [("id", "like training"), ("ood", "shifted")]
    cloud = Cloud(points, classes, ["id"] * SHOWN + ["ood"] * SHOWN, marks, owners, explained)
    return still(cloud, title="Graphs and prototypes on the sphere", part_names=names)


def parts() -> None:
    """The nodes on which MPHIL+ bases its decision, where it is right, in graphs like training and in larger ones."""
    data = mphil.benchmark("good-motif-size", graphs=3000)
    method = mphil.train(data, "mphil+", seed=0, **SMALL).method.eval()
    samples = []
    for part, words in (("id_test", "like training"), ("ood_val", "larger")):
        for label, name in enumerate(data.classes):
            shown = (whole(data.store, row[None]) for row in data.split[part] if data.store.y[row, 0] == label)
            batch = next(one for one in shown if method.predict(one).argmax() == label)
            strongest = method.node_importance(batch).topk(5).indices.tolist()
            samples.append(GraphSample(batch.num_nodes, batch.edge_index.T.numpy(), strongest, f"{name}, {words}"))
    write("parts", gallery(samples, columns=3, size=200))


def write(name: str, svg: str) -> None:
    (FOLDER / f"{name}.svg").write_text(on_white(svg) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sphere_and_attention()
    parts()
