"""Notes on a run: a budget shorter than the published one, weights that know the molecules, and where notes go."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest
import torch
from tests.toys import SMALL, small_benchmark

import mphil
from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.training.recipe import MOLECULES
from mphil.training.settings import resolve
from mphil.training.trainable import budget_notes, notes, start_notes


@pytest.fixture(scope="module")
def motif():
    return mphil.benchmark("good-motif-basis", graphs=200)


def config(data, method, **train):
    return resolve({"method": {"name": method}, "train": {"batch_size": 30, **train}}, data)[0]


def test_a_budget_shorter_than_the_published_one_is_named(motif):
    (note,) = budget_notes(config(motif, "gsat", epochs=10), 120)
    assert note.startswith("published runs of gsat on good-motif-basis have 200 epochs or more, this one 10: ")
    assert budget_notes(config(motif, "gsat", epochs=200), 120) == []


def test_a_limit_of_steps_counts(motif):
    (note,) = budget_notes(config(motif, "dir", epochs=300, max_steps=50), 120)
    assert "this one 12.5:" in note
    assert budget_notes(config(motif, "dir", epochs=300, max_steps=800), 120) == []


def test_nothing_published_nothing_said(motif):
    assert notes(config(motif, "erm", epochs=1), motif) == []
    assert notes(config(small_benchmark(), "gsat", epochs=1), small_benchmark()) == []


def test_benchmarks_whose_molecules_the_packaged_weights_have_seen(motif):
    """Those made of the files of the pretraining; development tables were left out of it."""
    files = {
        "hiv",
        "muv",
        "toxcast",
        "ic50-partial",
        *(f"drugood-ic50-{split}" for split in ("assay", "scaffold", "size")),
    }
    made = {name for name in BENCHMARKS if files & set(BENCHMARKS[name].needs) and not name.startswith("dev-")}
    assert "good-hiv-size" in made
    for name in BENCHMARKS:
        given = config(replace(motif, name=name), "erm", start=MOLECULES)
        found = start_notes(given)
        assert bool(found) == (name in made), name
        assert all(f"were trained on molecules of {name}" in note for note in found)
        assert start_notes(config(replace(motif, name=name), "erm")) == []


def test_notes_are_said_before_training_and_kept(motif, tmp_path, caplog):
    env = torch.zeros_like(motif.store.env)
    data = replace(motif, store=replace(motif.store, env=env))
    with caplog.at_level(logging.WARNING, logger="mphil.training.run"):
        run = mphil.train(data, "vrex", out=tmp_path, **SMALL)
    assert len(run.result["notes"]) == 2
    assert "one environment" in run.result["notes"][1]
    assert [record.getMessage() for record in caplog.records] == run.result["notes"]
    assert json.loads((tmp_path / "result.json").read_text())["notes"] == run.result["notes"]
