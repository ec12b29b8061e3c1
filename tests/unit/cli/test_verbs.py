"""Every verb: its help, its output for people and for programs."""

import csv
import json

import pytest

from mphil.benchmarks import BENCHMARKS
from mphil.cli import methods
from mphil.graphs.split import PARTS
from mphil.methods import METHODS
from tests.command import call

SMALL = [
    *("--benchmark", "good-motif-basis", "--set", "benchmark.graphs=200", "--set", "encoder.width=8"),
    *("--set", "encoder.layers=2", "--set", "train.batch_size=30", "--set", "train.epochs=2"),
]
VERBS = [
    *(["demo"], ["train"], ["resume"], ["evaluate"], ["predict"]),
    *(["benchmarks"], ["benchmarks", "list"], ["benchmarks", "show"]),
    *(["methods"], ["methods", "list"], ["methods", "show"]),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run trained by the command, and what it printed."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    return folder, call("train", *SMALL, "--method", "erm", "--out", folder, "--json")


def as_json(*arguments):
    ended = call(*arguments)
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


class TestHelp:
    @pytest.mark.parametrize("verb", VERBS, ids=" ".join)
    def test_every_verb_has_an_example(self, verb):
        ended = call(*verb, "--help")
        assert ended.code == 0
        assert f"Example: mphil {verb[0]}" in " ".join(ended.out.split())

    def test_all_verbs_are_listed(self):
        ended = call("-h")
        assert ended.code == 0
        assert all(verb[0] in ended.out for verb in VERBS)
        assert "Start with: mphil demo" in ended.out


class TestTrain:
    def test_json_is_the_result_and_nothing_else(self, finished):
        folder, ended = finished
        assert (ended.code, ended.err) == (0, "")
        assert json.loads(ended.out) == json.loads((folder / "result.json").read_text())

    def test_people_get_a_table_and_the_next_commands(self, tmp_path):
        ended = call("train", *SMALL, "--method", "mphil", "--set", "train.epochs=1", "--out", tmp_path / "r")
        assert (ended.code, ended.err) == (0, "")
        for text in ("mphil on good-motif-basis, accuracy", "chosen on ood_val", "chosen on id_val", *PARTS):
            assert text in ended.out
        assert f"mphil predict {tmp_path / 'r'} --part ood_test" in ended.out

    def test_the_default_folder_names_the_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert call("train", *SMALL, "--method", "erm", "--seed", 7).code == 0
        assert (tmp_path / "runs" / "good-motif-basis-erm-s7" / "result.json").exists()

    def test_precedence_of_file_flag_and_set(self, tmp_path):
        file = tmp_path / "settings.toml"
        file.write_text('seed = 1\nmethod = "erm"\n[train]\nepochs = 5\nlr = 0.5\n')
        flags = ("--config", file, "--seed", 2, "--out", tmp_path / "r", "--json")
        config = as_json("train", *SMALL, *flags)["config"]
        assert (config["seed"], config["method"]["name"]) == (2, "erm")
        assert (config["train"]["epochs"], config["train"]["lr"]) == (2, 0.5)

    def test_preset(self, tmp_path):
        flags = ("--preset", "release", "--set", "train.max_steps=1", "--out", tmp_path / "r", "--json")
        assert as_json("train", *SMALL, *flags)["config"]["method"]["args"]["normalise"] is False

    def test_resume_of_a_finished_run_says_the_same(self, finished):
        folder, ended = finished
        assert as_json("resume", folder, "--json") == json.loads(ended.out)
        assert as_json("train", *SMALL, "--method", "erm", "--out", folder, "--resume", "--json") == json.loads(
            ended.out
        )


class TestEvaluate:
    @pytest.mark.parametrize("rule", ["ood_val", "id_val"])
    def test_equals_the_result_exactly(self, finished, rule):
        folder, _ = finished
        result = json.loads((folder / "result.json").read_text())
        found = as_json("evaluate", folder, "--selection", rule, "--json")
        assert found == {
            "run": str(folder),
            "selection": rule,
            "metric": "accuracy",
            "scores": result["selections"][rule]["scores"],
        }

    def test_table(self, finished):
        ended = call("evaluate", finished[0])
        assert ended.code == 0
        assert "chosen on ood_val" in ended.out
        assert all(part in ended.out for part in PARTS)


class TestPredict:
    def test_default_file(self, finished):
        folder, _ = finished
        ended = call("predict", folder)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == f"20 predictions: {folder / 'predictions-ood_test.csv'}\n"
        with (folder / "predictions-ood_test.csv").open() as file:
            assert [int(row["graph"]) for row in csv.DictReader(file)] == list(range(180, 200))

    def test_chosen_file_and_part(self, finished, tmp_path):
        assert call("predict", finished[0], "--part", "train", "--out", tmp_path / "p.csv").code == 0
        assert len((tmp_path / "p.csv").read_text().splitlines()) == 121


class TestBenchmarks:
    def test_list(self):
        listed = as_json("benchmarks", "--json")
        assert listed == as_json("benchmarks", "list", "--json")
        assert [entry["name"] for entry in listed] == list(BENCHMARKS)
        assert all(entry.keys() == {"name", "summary", "source", "differs", "options", "missing"} for entry in listed)
        assert {"good-motif-basis", "spmotif", "decoy-scaffold"} <= {entry["name"] for entry in listed}
        table = call("benchmarks").out
        assert table == call("benchmarks", "list").out
        assert "good-motif-size" in table

    def test_list_says_what_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
        (tmp_path / "muv.csv.gz").touch()
        missing = {entry["name"]: entry["missing"] for entry in as_json("benchmarks", "--json")}
        assert missing["good-hiv-size"] == ["HIV.csv"]
        assert missing["drugood-ec50-assay"] == ["lbap_core_ec50_assay.json"]
        assert missing["muv-scaffold"] == missing["good-motif-basis"] == []
        table = call("benchmarks").out
        assert "needs HIV.csv (downloaded on first use)" in " ".join(table.split())

    @pytest.mark.parametrize("name", ["forest", "extra-trees", "boosting"])
    def test_trees_are_methods_too(self, name):
        shown = call("methods", "show", name).out
        assert "needs: molecules" in shown
        assert as_json("methods", "show", name, "--json") in as_json("methods", "--json")
        ended = call("train", "--benchmark", "good-motif-basis", "--method", name)
        assert ended.code == 3
        assert f"method {name} takes molecules, and the graphs of good-motif-basis are no molecules" in ended.err

    def test_show_for_programs(self):
        facts = as_json("benchmarks", "show", "good-motif-basis", "--set", "graphs=200", "--set", "seed=3", "--json")
        assert facts["args"] == {"seed": 3, "graphs": 200}
        assert (facts["task"], facts["metric"], facts["outputs"]) == ("multiclass", "accuracy", 3)
        assert (len(facts["classes"]), facts["graphs"]) == (3, 200)
        assert list(facts["parts"]) == list(PARTS)
        assert sum(part["graphs"] for part in facts["parts"].values()) == 200
        for part in facts["parts"].values():
            assert sum(part["labels"][0].values()) == part["graphs"]
            assert sum(part["environments"].values()) == part["graphs"]
            assert part["nodes_range"][0] <= part["mean_nodes"] <= part["nodes_range"][1]
            assert part["edges_range"][0] <= part["mean_edges"] <= part["edges_range"][1]

    def test_show_for_people(self):
        ended = call("benchmarks", "show", "good-motif-basis-no-shift", "--set", "graphs=200")
        assert ended.code == 0
        assert "multiclass, accuracy" in ended.out
        assert all(part in ended.out for part in PARTS), "empty parts are shown as well"

    def test_molecules(self):
        facts = as_json("benchmarks", "show", "decoy-scaffold", "--set", "graphs=200", "--json")
        assert (facts["task"], facts["outputs"]) == ("binary", 1)


class TestMethods:
    def test_list(self):
        listed = as_json("methods", "--json")
        assert listed == as_json("methods", "list", "--json")
        assert [entry["name"] for entry in listed] == [*METHODS, "forest", "extra-trees", "boosting"]
        assert all(entry["summary"] and entry["paper"] for entry in listed)
        assert "erm" in call("methods").out
        able = {entry["name"] for entry in listed if "regression" in entry["tasks"]}
        assert able == {"erm", "mphil+", "forest", "extra-trees", "boosting"}

    def test_show_for_programs(self):
        facts = as_json("methods", "show", "mphil", "--json")
        assert facts["hyperparameters"]["prototypes"] == 3
        assert set(facts["presets"]) == {"paper", "release", "repaired"}
        assert facts["tasks"] == ["binary", "multiclass", "multitask"]
        assert facts["search_space"]

    def test_programs_get_everything(self):
        facts = as_json("methods", "show", "coral", "--json")
        assert facts["needs"] == ["env"]
        assert facts["refuses"] == {"regression": "only its loss for classes is implemented"}
        assert facts["published"]["settings"]["good-motif-basis"] == {"weight": 1.0, "compat": True}
        assert "GOOD" in facts["published"]["source"]
        assert set(facts["cost"]) <= {"motif", "molecules"}
        assert facts in as_json("methods", "--json")

    def test_costs_are_shown_as_a_range(self, monkeypatch):
        costs = {"irm": {"motif": 1.04, "molecules": 2.13}, "vrex": {"motif": 1.52, "molecules": 1.49}}
        monkeypatch.setattr(methods, "measured_costs", lambda: costs)
        listed = {line.split()[0]: line.split()[-1] for line in call("methods").out.splitlines() if line.strip()}
        assert (listed["irm"], listed["vrex"], listed["coral"]) == ("1.0x-2.1x", "1.5x", "-")
        assert "cost relative to erm: 1.0x on motif, 2.1x on molecules" in call("methods", "show", "irm").out
        assert "cost relative to erm: not measured" in call("methods", "show", "coral").out

    def test_a_refusal_is_shown_with_its_reason(self):
        ended = call("methods", "show", "gmixup")
        assert "tasks: binary, multiclass\nnot for multitask tasks: it mixes the graphs of two classes" in ended.out

    def test_search_space_and_published_settings_are_shown(self):
        shown = call("methods", "show", "vrex").out
        assert "1.0, 10.0, 100.0, 1000.0" in shown
        assert "preset published: GOOD benchmark" in shown
        assert ["good-motif-basis-concept", "weight=1000.0"] in [line.split() for line in shown.splitlines()]

    @pytest.mark.parametrize("name", METHODS)
    def test_show_for_people(self, name):
        ended = call("methods", "show", name)
        assert ended.code == 0
        assert ended.out.startswith(f"{name}: ")
        assert "paper: " in ended.out
