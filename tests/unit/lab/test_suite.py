"""Suites: those of the paper are whole, and a mistake in one is named before anything runs."""

import pytest
import torch

from mphil.errors import UsageError
from mphil.lab.suite import TABLES, Budget, load_suite, parse_suite, printed, suite_names
from mphil.methods import METHODS, build_method
from mphil.methods.base import resolve_hyperparameters
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.lab.made import TINY, tiny


class TestShipped:
    @pytest.mark.parametrize("name", suite_names())
    def test_it_can_be_loaded(self, name):
        suite = load_suite(name)
        assert suite.name == name
        assert suite.rows()

    @pytest.mark.parametrize(
        ("name", "rows", "benchmarks"), [("good", 19, 7), ("drugood", 20, 6), ("spmotif-binary", 10, 3)]
    )
    def test_tables_have_the_shape_of_the_paper(self, name, rows, benchmarks):
        """And more rows of ours: at least what we made of MPHIL, and an ERM that has as much."""
        suite = load_suite(name)
        assert {row.method for row in suite.rows()[rows:]} >= {"mphil+", "erm"}
        assert len(suite.benchmarks) == benchmarks

    @pytest.mark.parametrize("table", TABLES)
    def test_every_figure_of_the_paper_has_its_cell(self, table):
        suite = load_suite(table)
        ours = {(row.name, benchmark) for row in suite.rows() for benchmark in suite.benchmarks}
        assert printed(table).keys() <= ours
        assert len(printed(table)) > 20

    def test_metrics_are_compared_where_they_differ(self):
        """With one prototype kept a class all four would be the same; mean and sum always are."""
        store, said = random_store("multiclass"), {}
        for row in load_suite("metrics").rows():
            torch.manual_seed(0)
            model = build_method(row.method, TASKS["multiclass"], small_encoder(store), dict(row.settings["method"]))
            said[row.name] = model.eval().predict(whole(store)).log_softmax(-1)
        assert not said["max"].allclose(said["mean"])
        assert not said["max"].allclose(said["min"])
        assert not said["mean"].allclose(said["min"])
        assert said["mean"].allclose(said["sum"])

    def test_switches_of_the_repaired_preset_are_studied_one_by_one(self):
        """Added to the paper they make up the preset; taken from the preset each has the paper's value again."""
        paper, repaired = (resolve_hyperparameters(METHODS["mphil"], preset, {}) for preset in (None, "repaired"))
        rows = {row.name: dict(row.settings.get("method", {})) for row in load_suite("repaired").rows()}
        added = {name.removeprefix("+ "): given for name, given in rows.items() if name.startswith("+ ")}
        assert paper | {key: value for given in added.values() for key, value in given.items()} == repaired
        for switch, given in added.items():
            taken = rows[f"repaired - {switch}"]
            assert taken == {"preset": "repaired"} | {key: paper[key] for key in given}
        assert len(rows) == 2 + 2 * len(added)

    def test_decisions_are_taken_otherwise_one_by_one(self):
        """Every row but the released code and the control of one prototype says one thing other than the paper."""
        paper = resolve_hyperparameters(METHODS["mphil"], None, {})
        rows = {row.name: dict(row.settings.get("method", {})) for row in load_suite("decisions").rows()}
        released = rows.pop("as released")
        assert rows.pop("mphil") == {}
        assert rows.pop("one prototype without separation") == rows["one prototype"] | {"separation": 0.0}
        for name, given in rows.items():
            assert all(paper[key] != value for key, value in given.items()), name
            assert len(given) == 1 or name == "mean update"
        assert released == {"preset": "release"}

    def test_all_methods(self):
        assert [row.method for row in load_suite("baselines").rows()] == list(METHODS)


class TestRows:
    def test_variants_and_varied_settings(self):
        suite = tiny(
            """
            [[variants]]
            name = "slow"
            method = "erm"
            settings.train = { lr = 0.1 }
            [vary]
            method = "mphil"
            key = "method.matching"
            values = [0.01, 2]
            """
        )
        rows = {row.name: row for row in suite.rows()}
        assert list(rows) == ["erm", "slow", "matching 0.01", "matching 2"]
        assert rows["slow"].settings == {"train": {"lr": 0.1}}
        assert rows["matching 0.01"].settings == {"method": {"matching": 0.01}}
        assert (rows["matching 2"].method, rows["matching 2"].x) == ("mphil", 2.0)


class TestBudget:
    def test_the_longest_prefix_wins_and_the_rest_is_the_budgets(self):
        budget = Budget(
            epochs=30,
            fraction=0.5,
            per={"good": {"epochs": 20}, "good-hiv": {"fraction": 0.1, "eval_fraction": 0.2}},
        )
        assert budget.on("good-hiv-size").model_dump() == {"epochs": 30, "fraction": 0.1, "eval_fraction": 0.2}
        assert budget.on("good-motif-basis").model_dump() == {"epochs": 20, "fraction": 0.5, "eval_fraction": 1.0}
        assert budget.on("goods").epochs == 30


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[budgets.small]\nepoch = 3", "unknown key in suite mine: 'epoch'; did you mean epochs"),
            ("[budgets.small.per.good]\nfracton = 3", "'fracton'; did you mean fraction or eval_fraction"),
            ('[[variants]]\nname = "x"\nmethod = "erm"\nsetings = {}', "'setings'; did you mean settings"),
            ("[budgets.small]\nfraction = 0", "budgets.small.fraction: Input should be greater than 0"),
            ("[budgets.small]\nfraction = 1.5", "budgets.small.fraction: Input should be less than or equal to 1"),
            ('[[variants]]\nname = "x"\nmethod = "emr"', "unknown method in suite mine: 'emr'; did you mean erm"),
            ('[[variants]]\nname = "erm"\nmethod = "erm"', "the row 'erm' is there twice"),
            ('[[variants]]\nname = "a, b"\nmethod = "erm"', "the row 'a, b' has a comma"),
        ],
    )
    def test_are_named(self, text, message):
        with pytest.raises(UsageError) as caught:
            parse_suite("mine", TINY + text)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                ("good-motif-basis", "good-motif-bsis"),
                "unknown benchmark in suite mine: 'good-motif-bsis'; did you mean",
            ),
            (("seeds", "sedes"), "unknown key in suite mine: 'sedes'; did you mean seeds"),
            (('methods = ["erm"]', "methods = []"), "no rows"),
            (('["good-motif-basis"]', "[]"), "benchmarks: Tuple should have at least 1 item"),
            (("seeds = [0, 1]", 'against = "mphil"'), "unknown row in suite mine: 'mphil'"),
            (
                ("seeds = [0, 1]", 'reference = "god"'),
                "unknown table of the paper in suite mine: 'god'; did you mean good",
            ),
            (("seeds = [0, 1]", 'budget = "large"'), "unknown budget in suite mine: 'large'"),
            (("seeds = [0, 1]", 'probes = ["separable"]'), "unknown probe in suite mine: 'separable'; did you mean"),
            (("seeds = [0, 1]", 'selection = "test"'), "selection: Input should be"),
            (("title", "title :"), "not a TOML file"),
        ],
    )
    def test_in_what_is_there(self, change, message):
        with pytest.raises(UsageError) as caught:
            parse_suite("mine", TINY.replace(*change))
        assert message in str(caught.value)

    def test_unknown_suites(self, tmp_path):
        with pytest.raises(UsageError, match="unknown suite 'god'; did you mean good"):
            load_suite("god")
        with pytest.raises(UsageError, match="No such file"):
            load_suite(str(tmp_path / "mine.toml"))
        (tmp_path / "mine.toml").write_bytes(b"\xff")
        with pytest.raises(UsageError, match="not a TOML file"):
            load_suite(str(tmp_path / "mine.toml"))

    def test_own_file(self, tmp_path):
        (tmp_path / "mine.toml").write_text(TINY)
        assert load_suite(str(tmp_path / "mine.toml")).name == "mine"
