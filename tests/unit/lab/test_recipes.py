"""Recipes of families: what every row of a table has on a benchmark, and that all they name exists."""

import pytest

from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.lab import recipes
from mphil.lab.cells import Request, expand, resolved
from mphil.lab.recipes import recipe
from mphil.lab.suite import begins, load_suite, parse_suite, suite_names
from mphil.methods import METHODS
from mphil.training.settings import merge
from tests.unit.lab.made import TINY, TREES

ENTRIES = recipes._recipes()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: "+".join(entry["benchmarks"]))
def test_an_entry_names_what_exists(entry):
    for words in entry["benchmarks"]:
        assert any(begins(name, words) for name in BENCHMARKS), words
    assert set(entry.get("methods", [])) <= set(METHODS)


@pytest.mark.parametrize("method", ["erm", "mphil", "mphil+"])
@pytest.mark.parametrize("words", sorted({words for entry in ENTRIES for words in entry["benchmarks"]}))
def test_a_recipe_can_be_trained_with(words, method):
    name = next(name for name in BENCHMARKS if begins(name, words))
    named = {"benchmark": {"name": name}, "method": {"name": method}}
    settings = resolved(merge([recipe(name, method), named]))
    assert settings["train"]["schedule"] == "cosine"
    assert settings["encoder"].keys() == {"readout", "dropout"}


def test_a_benchmark_of_no_family_has_none():
    assert recipe("dev-hiv-scaffold", "mphil+") == {}


def test_entries_for_one_method_reach_no_other():
    assert recipe("good-motif-size", "mphil+")["train"]["edge_drop"] == 0.3
    assert "edge_drop" not in recipe("good-motif-size", "erm")["train"]


def test_what_a_suite_says_wins():
    cell = expand(parse_suite("tiny", "recipes = true\n" + TINY), Request(seeds=[0]))[0]
    assert cell.settings["encoder"] == {"readout": "max", "dropout": 0.1, "width": 8, "layers": 2}
    assert (cell.settings["train"]["schedule"], cell.settings["train"]["epochs"]) == ("cosine", 1)


def test_trees_have_none():
    suite = parse_suite("trees", TREES)
    plain, with_recipes = (
        expand(kind, Request(methods=["forest"], seeds=[0]))[0].setting
        for kind in (suite, suite.model_copy(update={"recipes": True}))
    )
    assert plain == with_recipes


def test_suites_with_recipes_share_their_runs():
    """MPHIL on Motif-size is one run, whichever table it stands in."""
    found = set()
    for name in ("motif", "ablation", "sensitivity-k", "update-rules", "baselines"):
        assert name in suite_names()
        row = "prototypes 3" if name == "sensitivity-k" else "mphil"
        request = Request(methods=[row], seeds=[0], benchmarks=["good-motif-size"])
        found |= {cell.id for cell in expand(load_suite(name), request)}
    assert len(found) == 1
