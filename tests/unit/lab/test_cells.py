"""Cells: what a suite expands to, and an identity that is exactly what decides the outcome."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mphil.benchmarks import benchmark
from mphil.errors import UsageError
from mphil.lab import cells as module
from mphil.lab.cells import Cell, Request, expand, resolved, toml
from mphil.lab.records import RecordFile
from mphil.lab.report.sheets import unused
from mphil.lab.suite import load_suite, parse_suite, suite_names
from mphil.lab.worker import subset
from mphil.methods.base import METHODS, resolve_hyperparameters
from mphil.training.settings import merge, parse_assignment, split_assignment
from tests.unit.lab.made import TINY, TREES, cells, tiny

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"

MORE = """
[[variants]]
name = "wide"
method = "erm"
settings.encoder = { width = 16 }

[budgets.small]
epochs = 3
seeds = [7]
fraction = 0.5
"""


def one(extra="", **wishes):
    return expand(tiny(extra), Request(**wishes))[0]


class TestExpansion:
    def test_rows_by_benchmarks_by_seeds_the_first_seed_first(self):
        found = cells(MORE)
        assert [(cell.row, cell.seed) for cell in found] == [("erm", 0), ("wide", 0), ("erm", 1), ("wide", 1)]
        assert len({cell.id for cell in found}) == 4
        assert len({cell.setting for cell in found}) == 2

    def test_data_can_be_drawn_with_the_seed_of_training(self):
        found = expand(parse_suite("tiny", 'data_seeds = ["good-motif"]\n' + TINY))
        assert [(cell.seed, cell.settings["benchmark"]["seed"]) for cell in found] == [(0, 0), (1, 1)]
        assert len({cell.id for cell in found}) == 2
        assert len({cell.setting for cell in found} | {one().setting}) == 2
        assert "benchmark.seed=1" in found[1].command

    def test_everything_is_filled_in(self):
        settings = one().settings
        assert settings["benchmark"] == {"name": "good-motif-basis", "seed": 0, "graphs": 200}
        assert settings["method"]["name"] == "erm"
        assert settings["encoder"] == {"width": 8, "layers": 2}
        assert (settings["train"]["epochs"], settings["train"]["lr"], settings["train"]["threads"]) == (1, 1e-3, 0)

    def test_later_layers_win(self, tmp_path):
        (tmp_path / "erm-good-motif-basis.toml").write_text("[train]\nlr = 0.5\nbatch_size = 7\nepochs = 9\n")
        cell = one(MORE, budget="small", tuned=tmp_path, sets=["train.lr=0.25"])
        train = cell.settings["train"]
        assert (train["epochs"], train["batch_size"], train["lr"]) == (3, 7, 0.25)
        assert (cell.seed, cell.fraction, cell.budget) == (7, 0.5, "small")
        assert one(MORE, budget="small", sets=["train.epochs=5"]).settings["train"]["epochs"] == 5

    def test_published_settings_where_there_are_any(self):
        suite = load_suite("good")
        found = {(c.row, c.benchmark): c.settings["method"] for c in expand(suite, Request(seeds=[0]))}
        assert found["vrex", "good-motif-basis"]["weight"] == 100.0
        defaults = resolve_hyperparameters(METHODS["disc"], None, {})
        assert found["disc", "good-motif-basis"] == {"name": "disc"} | defaults

    def test_published_networks_where_there_are_any(self):
        """Other rows have the readout and the dropout of the suite."""
        found = {(c.row, c.benchmark): c.settings for c in expand(load_suite("drugood"), Request(seeds=[0]))}
        ciga = found["ciga-v2", "drugood-ec50-assay"]
        assert (ciga["method"]["networks"], ciga["encoder"]["readout"]) == ("full", "sum")
        assert ciga["encoder"].keys() > found["erm", "drugood-ec50-assay"]["encoder"].keys() == {"readout", "dropout"}

    def test_a_tuned_suite_takes_no_other_settings(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "TUNED", tmp_path)
        suite = tiny().model_copy(update={"tuned": True})
        with pytest.raises(UsageError, match="erm-good-motif-basis.toml is not there; tune first: mphil lab tune erm"):
            expand(suite)
        (tmp_path / "erm-good-motif-basis.toml").write_text('[method]\nname = "erm"\n\n[train]\nlr = 0.25\n')
        assert expand(suite)[0].settings["train"]["lr"] == 0.25

    def test_a_tuned_suite_of_the_package_without_settings(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "TUNED", tmp_path)
        with pytest.raises(UsageError, match="tune first: mphil lab tune erm"):
            expand(load_suite("tuned"))

    def test_wishes_narrow_a_suite(self):
        assert [c.row for c in expand(tiny(MORE), Request(seeds=[5], methods=["wide"]))] == ["wide"]
        ablation = load_suite("ablation")
        plain = expand(ablation, Request(methods=["mphil"], seeds=[0], benchmarks=["good-hiv-scaffold"]))
        assert [cell.row for cell in plain] == ["mphil"]  # the row of that name, not every variant of the method
        assert len(expand(load_suite("metrics"), Request(methods=["mphil"], seeds=[0]))) == 8

    @pytest.mark.parametrize(
        ("wishes", "message"),
        [
            ({"methods": ["emr"]}, "unknown row of suite tiny 'emr'; did you mean erm"),
            ({"benchmarks": ["good-motif-siz"]}, "unknown benchmark of suite tiny"),
            ({"budget": "smal"}, "unknown budget of suite tiny 'smal'; did you mean small"),
            ({"sets": ["train.epoch=3"]}, "unknown train setting 'epoch'; did you mean epochs"),
            ({"sets": ["method.weight=3"]}, "unknown option of method erm 'weight'"),
            (
                {"sets": ["benchmark.grap=3"]},
                "unknown option of benchmark good-motif-basis 'grap'; did you mean graphs",
            ),
            ({"sets": ["trian.epochs=3"]}, "unknown section of settings 'trian'; did you mean train"),
            ({"sets": ["seed=3"]}, "use --seeds"),
            ({"sets": ["method.name=irm"]}, "--methods"),
        ],
    )
    def test_what_does_not_exist_is_named(self, wishes, message):
        with pytest.raises(UsageError) as caught:
            one(MORE, **wishes)
        assert message in str(caught.value)


RECORDED = [file for file in sorted(RESULTS.glob("*.jsonl")) if file.stem in suite_names()]


class TestIdentity:
    @pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
    def test_records_of_this_repository_are_still_of_their_cells(self, file):
        """Whatever is added to the settings, a cell that does without it stays the same."""
        records, problems = RecordFile(file).read()
        assert problems == []
        assert records
        assert unused(load_suite(file.stem), Request(), records) == []

    def test_a_known_cell(self):
        assert (one().id, one().setting) == ("31991f82ba86991a", "a9c4c338a956141e")

    def test_spelling_out_a_default_changes_nothing(self):
        assert one(sets=["train.lr=0.001", "benchmark.seed=0"]).id == one().id

    @pytest.mark.parametrize(
        "change",
        [
            {"sets": ["train.lr=0.002"]},
            {"sets": ["benchmark.seed=1"]},
            {"sets": ["encoder.dropout=0.1"]},
            {"seeds": [3]},
        ],
    )
    def test_what_matters_changes_it(self, change):
        assert one(**change).id != one().id

    def test_shares_and_probes_matter(self):
        cell = one()
        others = [
            replace(cell, fraction=0.5),
            replace(cell, eval_fraction=0.5),
            replace(cell, probes=("separability",)),
        ]
        assert len({c.setting for c in [cell, *others]}) == len({c.id for c in [cell, *others]}) == 4

    def test_what_cannot_change_a_result_does_not_matter(self):
        cell = one()
        quiet = ["train.checkpoint_minutes=1", 'train.loggers=["tensorboard"]', "train.threads=2"]
        assert one(sets=quiet).id == cell.id
        assert replace(cell, suite="other", row="other", budget="other", selection="id_val", command="").id == cell.id

    def test_other_numerics_make_another_run_of_the_same_setting(self, monkeypatch):
        cell = one()
        before = cell.id, cell.setting
        monkeypatch.setattr(module, "NUMERICS", 99)
        assert cell.id != before[0]
        assert cell.setting == before[1]

    def test_survives_json(self):
        cell = replace(one(), probes=("separability",))
        again = Cell.from_json(json.loads(json.dumps(cell.to_json())))
        assert again == cell
        assert again.id == cell.id


def trees(**wishes):
    return expand(parse_suite("trees", TREES), Request(methods=["forest"], **wishes))[0]


class TestTrees:
    def test_have_the_parts_that_are_scored_and_no_other_setting_of_networks(self):
        cell = trees(budget="half", sets=["train.lr=0.5"])
        assert cell.settings["method"] == {"name": "forest"}
        assert (cell.settings["encoder"], cell.settings["train"]) == ({}, {"scored": "validation"})
        assert cell.settings["benchmark"]["graphs"] == 150
        assert cell.fraction == 0.5
        plain = trees()
        assert plain.command.endswith(
            "--method forest --seed 0 --set benchmark.graphs=150 --set train.scored=validation"
        )
        assert trees(sets=["train.lr=0.5"]).id == plain.id != trees(sets=["train.scored=all"]).id
        assert replace(plain, seed=1).id != plain.id

    def test_another_way_of_fitting_is_another_setting(self, monkeypatch):
        before, network = trees().setting, one().setting
        monkeypatch.setattr(module, "TREES_FORMAT", 99)
        assert trees().setting != before
        assert one().setting == network

    def test_neither_tuned_nor_published(self, tmp_path):
        suite = parse_suite("trees", TREES).model_copy(update={"tuned": True, "published": True})
        assert expand(suite, Request(methods=["forest"], tuned=tmp_path))[0].setting == trees().setting

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ("encoder = { width = 16 }", "encoder.width is a setting of networks, and method boosting grows trees"),
            ("train = { epochs = 3 }", "train.epochs is a setting of networks"),
            ("method = { depth = 3 }", "method boosting has no options or presets; leave out method.depth"),
        ],
    )
    def test_a_row_with_settings_of_networks(self, settings, message):
        row = f'[[variants]]\nname = "mine"\nmethod = "boosting"\nsettings.{settings}\n'
        with pytest.raises(UsageError, match=message):
            expand(parse_suite("trees", TREES + row))

    def test_are_rows_beside_the_networks(self):
        assert {"forest", "extra-trees", "boosting", "erm"} <= {row.name for row in load_suite("start").rows()}


class TestCommand:
    @pytest.mark.parametrize("name", suite_names())
    def test_says_everything(self, name):
        """The command of a cell, read as `mphil train` reads it, or run through the suite, gives the cell."""
        suite = load_suite(name).model_copy(update={"tuned": False})  # settings that are tuned need not be there
        assert len(expand(suite)) == suite.size
        seed = suite.all_budgets[suite.budget].seeds or suite.seeds
        for cell in expand(suite, Request(seeds=seed[:1])):
            words = shlex.split(cell.command)
            sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            given = {words[i]: words[i + 1] for i, word in enumerate(words) if word.startswith("--")}
            if words[:2] == ["mphil", "train"]:
                named = {"benchmark": given["--benchmark"], "method": given["--method"]}
                assert resolved(merge([named, *map(parse_assignment, sets)])) == cell.settings
                assert int(given["--seed"]) == cell.seed
            else:
                assert words[:4] == ["mphil", "lab", "run", name]
                request = Request(
                    budget=given["--budget"],
                    sets=sets,
                    seeds=[int(given["--seeds"])],
                    methods=[given["--methods"]],
                    benchmarks=[given["--benchmarks"]],
                )
                assert [again.id for again in expand(suite, request)] == [cell.id]

    @pytest.mark.parametrize("value", [True, 3, 0.1, "ema-hard", "3", "true", " padded", [1, 2], ["a"], 1e-7])
    def test_values_come_back(self, value):
        assert split_assignment(f"key={toml(value)}") == ("key", value)

    def test_wishes_are_in_it(self, tmp_path):
        cell = one(MORE, budget="small", sets=["train.lr=0.5"], tuned=tmp_path)
        assert f"--tuned {tmp_path} --set train.lr=0.5" in cell.command


class TestThinning:
    data = benchmark("good-motif-basis", graphs=200)

    def test_takes_the_same_share_every_time(self):
        smaller, again = subset(self.data, 0.5, 0.25), subset(self.data, 0.5, 0.25)
        assert smaller.split.sizes == {"train": 60, "id_val": 5, "id_test": 5, "ood_val": 5, "ood_test": 5}
        assert smaller.split.digest() == again.split.digest()
        assert smaller.split.provenance["eval_fraction"] == 0.25
        for part, graphs in smaller.split:
            assert torch.isin(graphs, self.data.split[part]).all()

    def test_whole_parts_stay_as_they_are(self):
        assert subset(self.data, 1.0, 1.0) is self.data
        assert torch.equal(subset(self.data, 1.0, 0.5).split.train, self.data.split.train)
        assert torch.equal(subset(self.data, 0.5, 1.0).split.ood_test, self.data.split.ood_test)

    def test_never_empty(self):
        assert set(subset(self.data, 1e-6, 1e-6).split.sizes.values()) == {1}
