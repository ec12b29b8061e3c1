"""One cell carried out: the record says what training says, and what the lab knows."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import mphil
from mphil.graphs.loader import Loader
from mphil.lab.cells import Request, expand
from mphil.lab.probes import health, plane, prototypes, separability, wasserstein
from mphil.lab.suite import parse_suite
from mphil.lab.worker import BUSY, DONE, FAILED, carry_out, make_record, refusal
from mphil.training.metrics import gather
from mphil.training.process import lock_run
from tests.toys import small_benchmark
from tests.unit.lab.made import BROKEN, TREES, cells, tiny

CELL = cells()[0]
SECTIONS = {"encoder": {"width": 8, "layers": 2}, "train": {"epochs": 1, "batch_size": 60}}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder in which the cell was carried out."""
    folder = tmp_path_factory.mktemp("cells") / CELL.id
    assert carry_out(CELL, folder) == DONE
    return folder


@pytest.fixture(scope="module")
def made(home):
    return json.loads((home / "record.json").read_text())


class TestRecord:
    def test_is_what_training_reports(self, made):
        run = mphil.train("good-motif-basis", "erm", seed=0, benchmark={"graphs": 200}, **SECTIONS)
        expected = json.loads(json.dumps(run.result))
        for key, value in expected.items():
            assert key in ("seconds", "cpu_seconds") or made[key] == value, key
        assert made["history"]["ood_val"] == [epoch["scores"]["ood_val"] for epoch in run.history]

    def test_says_which_cell_it_is(self, made):
        assert (made["kind"], made["cell"], made["setting"], made["row"]) == ("run", CELL.id, CELL.setting, "erm")
        assert made["budget"] == {"name": "full", "epochs": 1, "fraction": 1.0, "eval_fraction": 1.0}
        assert (made["selection"], made["command"]) == ("ood_val", CELL.command)

    def test_a_finished_cell_is_not_run_again(self, home):
        before = (home / "record.json").stat().st_mtime_ns
        assert carry_out(CELL, home) == DONE
        assert (home / "record.json").stat().st_mtime_ns == before

    def test_shares_are_taken(self, tmp_path):
        thinned = make_record(replace(CELL, fraction=0.5, eval_fraction=0.5), tmp_path / "run")
        assert thinned["split_digest"] != make_record(CELL, tmp_path / "whole")["split_digest"]
        assert (thinned["budget"]["fraction"], thinned["budget"]["eval_fraction"]) == (0.5, 0.5)


class TestTrees:
    def test_a_record_as_that_of_a_network_without_epochs(self, tmp_path):
        forest, erm = (
            make_record(cell, tmp_path / cell.row)
            for cell in expand(parse_suite("trees", TREES), Request(budget="half", seeds=[1]))
        )
        assert forest.keys() == erm.keys()
        json.dumps(forest)
        scores = forest["selections"]["ood_val"]["scores"]
        assert scores == forest["selections"]["id_val"]["scores"] == forest["last"]["scores"] == forest["last5"]
        assert scores.keys() == erm["last"]["scores"].keys()
        assert (scores["id_test"], scores["ood_test"]) == (None, None)
        assert scores["train"] > 0.9
        assert scores["id_val"] > 0.6
        assert (forest["last"]["epoch"], forest["budget"]["epochs"], forest["budget"]["fraction"]) == (0, 0, 0.5)
        assert (forest["seed"], forest["seeds"]["training"]) == (1, 1)
        assert forest["cpu_seconds"] > 0
        for key in ("data_digest", "split_digest", "metric"):
            assert forest[key] == erm[key]

    def test_seed_and_kind_decide(self, tmp_path):
        text = TREES.replace('["forest", "erm"]', '["forest", "extra-trees", "boosting"]').replace("validation", "all")
        cells = expand(parse_suite("trees", text))
        found = [make_record(cell, tmp_path) for cell in (*cells, replace(cells[0], seed=1))]
        assert len({record["weights"] for record in found}) == 4
        again = make_record(cells[0], tmp_path)
        assert (again["weights"], again["last"]) == (found[0]["weights"], found[0]["last"])
        assert all(None not in record["last"]["scores"].values() for record in found)
        assert not any(tmp_path.iterdir())

    def test_what_is_measured_on_networks_is_missing(self, tmp_path):
        cell = replace(expand(parse_suite("trees", TREES))[0], probes=("separability",))
        assert "measured on a network" in make_record(cell, tmp_path)["probes"]["separability"]["missing"]

    def test_graphs_that_are_no_molecules_are_refused(self, tmp_path):
        cell = expand(tiny().model_copy(update={"methods": ("forest",)}))[0]
        told = make_record(cell, tmp_path)
        assert (told["kind"], told["budget"]["epochs"]) == ("refused", 0)
        assert told["reason"] == "method forest takes molecules, and the graphs of good-motif-basis are no molecules"


class TestTrouble:
    def test_a_failure_is_told_and_the_next_try_starts_clean(self, tmp_path):
        broken = expand(tiny(BROKEN))[1]
        assert carry_out(broken, tmp_path / "cell") == FAILED
        told = json.loads((tmp_path / "cell" / "failure.json").read_text())
        assert told["kind"] == "failed"
        assert "not a finite number" in told["error"]
        assert "Traceback" in told["trace"]
        assert carry_out(CELL, tmp_path / "other") == DONE
        assert not (tmp_path / "other" / "failure.json").exists()

    def test_a_bug_is_told_with_its_kind(self, tmp_path, monkeypatch):
        monkeypatch.setattr("mphil.lab.worker.execute", lambda *a, **k: {}["nothing"])
        assert carry_out(CELL, tmp_path / "cell") == FAILED
        assert json.loads((tmp_path / "cell" / "failure.json").read_text())["error"] == "KeyError: 'nothing'"

    def test_a_cell_that_somebody_works_on(self, tmp_path):
        with lock_run(tmp_path / "cell"):
            assert carry_out(CELL, tmp_path / "cell", patience=0.15) == BUSY

    def test_a_refusal_is_a_record_of_its_own_kind(self, tmp_path):
        cell = expand(tiny().model_copy(update={"methods": ("moleood",)}))[0]
        assert carry_out(cell, tmp_path / "cell") == DONE
        told = json.loads((tmp_path / "cell" / "record.json").read_text())
        assert told["kind"] == "refused"
        assert "no molecules" in told["reason"]

    def test_kinds_of_task(self, monkeypatch):
        from mphil.methods import METHODS

        monkeypatch.setattr(METHODS["erm"], "refuses", {"multitask": "it is afraid"})
        assert refusal("erm", small_benchmark("multitask")) == "it is afraid"
        assert refusal("erm", small_benchmark("binary")) is None


class TestProbes:
    def test_wasserstein_by_hand(self):
        one, other = np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([[4.0, 3.0], [0.0, 1.0], [9.0, 9.0]])
        assert wasserstein(one, other) == pytest.approx((1 + 3) / 2)
        assert wasserstein(one, one[::-1].copy()) == 0

    def test_a_class_apart_from_nothing_is_not_far_from_itself(self, monkeypatch):
        """Two samples of one cloud, one six times as large: small samples lie further apart, classes must not."""
        data = small_benchmark("binary", graphs=600)
        run = mphil.train(data, "erm", encoder={"width": 8, "layers": 2}, train={"epochs": 1})
        data.store.y[data.split.ood_test] = (torch.arange(len(data.split.ood_test)) % 7 == 0).float().unsqueeze(1)
        cloud = torch.randn(len(data.store), 4, generator=torch.Generator().manual_seed(0))
        monkeypatch.setattr(run.method, "embed", lambda batch: cloud[batch.index])
        found = separability(run)
        assert found["inter"] / found["intra"] == pytest.approx(1, abs=0.1)

    def test_far_classes_are_separable(self, monkeypatch):
        data = small_benchmark("binary", graphs=300)
        run = mphil.train(data, "erm", encoder={"width": 8, "layers": 2}, train={"epochs": 1})
        found = separability(run)
        assert len(found["points"]) == len(found["labels"]) == 30
        labels = data.store.y[:, 0]
        monkeypatch.setattr(run.method, "embed", lambda batch: (100 * batch.y + batch.index[:, None] % 3).expand(-1, 2))
        apart = separability(run)
        assert apart["inter"] / apart["intra"] > 20 > found["inter"] / found["intra"]
        assert sorted(set(apart["labels"])) == [0, 1]
        assert apart["labels"].count(1) == int((labels[data.split.ood_test] == 1).sum())

    def test_the_plane_is_the_same_every_time(self):
        points = np.random.default_rng(0).normal(size=(20, 5))
        assert plane(points).shape == (20, 2)
        assert np.array_equal(plane(points), plane(points))

    def test_embeddings_that_collapsed_have_a_plane_too(self):
        assert np.isfinite(plane(np.ones((20, 5)))).all()

    def test_nearest_molecules_of_every_prototype(self):
        data = mphil.benchmark("decoy-scaffold", graphs=300)
        run = mphil.train(data, "mphil", encoder={"width": 8, "layers": 2}, train={"epochs": 1})
        found = prototypes(run)["molecules"]
        bank = run.method.prototypes
        assert len(found) == 3 * bank.shape[1] * bank.shape[2]
        graphs = data.split.ood_test
        similarity = gather(run.method, Loader(data.store, graphs, 64), run.method.embed) @ bank[0, 0, 1]
        best = data.store.smiles[int(graphs[similarity.argmax()])]
        first = next(m for m in found if (m["class"], m["prototype"]) == (0, 1))
        assert first["smiles"] == best
        assert first["similarity"] == pytest.approx(float(similarity.max()), abs=1e-3)

    def test_health_of_prototypes(self):
        run = mphil.train(
            small_benchmark("binary", graphs=300), "mphil", encoder={"width": 4, "layers": 2}, train={"epochs": 1}
        )
        axes = torch.eye(4)
        with torch.no_grad():  # class 0: two axes and one of them again; class 1: three times the opposite of the first
            run.method.prototypes.copy_(torch.stack([axes[[0, 1, 0]], -axes[[0, 0, 0]]]).unsqueeze(0))
        found = health(run)
        assert found["together"] == pytest.approx((2 * 1 + 6 * 1) / 12, abs=1e-4)
        assert found["apart"] == pytest.approx(-6 / 9, abs=1e-4)
        graphs = run.benchmark.split.id_val
        labels = run.benchmark.store.y[graphs, 0]
        z = gather(run.method, Loader(run.benchmark.store, graphs, 64), run.method.embed)
        second = (z[labels == 0][:, 1] > z[labels == 0][:, 0]).double().mean()
        slots = [float(1 - second), float(second), 0.0, 1.0, 0.0, 0.0]  # of equal ones the first is the nearest
        assert found["used"] == pytest.approx(sum(share >= 0.01 for share in slots) / 6, abs=1e-4)
        assert 0 < found["score"] < 1
        assert found["score_spread"] > 0

    def test_health_of_one_prototype(self):
        method = {"name": "mphil", "prototypes": 1, "invariant_encoder": False}
        run = mphil.train(small_benchmark("binary", graphs=300), method, **SECTIONS)
        found = health(run)
        assert found["together"] is None
        assert found["used"] == 1
        assert "score" not in found

    @pytest.mark.parametrize("name", ["prototypes", "health"])
    def test_what_cannot_be_measured_is_told(self, tmp_path, name):
        made = make_record(replace(CELL, probes=(name,)), tmp_path / "run")
        assert "a method that has them" in made["probes"][name]["missing"]
