"""Tuning: judged on validation alone, every setting once, and taken up where it was cut."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mphil.errors import DataError, UsageError
from mphil.lab.cells import TUNED
from mphil.lab.engine import Outcome
from mphil.lab.records import RecordFile
from mphil.lab.tune import Search, search
from mphil.lab.worker import failure
from tests.unit.lab.made import record, refused

MOTIF = "good-motif-basis"
TRIALS = Path(__file__).parents[3] / "benchmarks" / "hparams"


@dataclass
class Judge:
    """An engine whose validation score is what `score` says of the settings; the test score says the opposite."""

    score: object
    stop_after: int = 10**9
    points: list = field(default_factory=list)

    def run(self, cells):
        for cell in cells:
            if len(self.points) >= self.stop_after:
                raise KeyboardInterrupt
            settings = cell.settings["method"] | {"lr": cell.settings["train"]["lr"]}
            self.points.append(settings)
            value = self.score(settings)
            if isinstance(value, str):
                made = failure(cell, value) if value == "failed" else refused(cell, value)
                yield Outcome(cell, made["kind"], made)
                continue
            made = record(cell, 1 - value)
            made["selections"]["ood_val"]["scores"]["ood_val"] = value
            made["selections"]["id_val"] = {"epoch": 1, "scores": {"id_val": 1 - value, "ood_test": value}}
            yield Outcome(cell, "run", made)

    def clear(self, cell):
        pass


def by_weight(settings):
    return {0.1: 0.3, 1.0: 0.9, 10.0: 0.5, 100.0: 0.1}[settings["weight"]]


def irm(trials=20, **changes):
    return Search("irm", MOTIF, trials, **changes)


def test_the_best_on_validation_is_written_for_config(tmp_path):
    judge = Judge(by_weight)
    best = search(irm(), judge, tmp_path)
    assert (best.score, best.point, best.trials) == (0.9, {"method.weight": 1.0}, 4)
    assert tomllib.loads(best.file.read_text()) == {"method": {"name": "irm", "weight": 1.0}}
    assert best.file == tmp_path / f"irm-{MOTIF}.toml"
    assert sorted(p["weight"] for p in judge.points) == [0.1, 1.0, 10.0, 100.0]  # each once, then no more


def test_trees_have_nothing_to_search(tmp_path):
    with pytest.raises(UsageError, match="method forest has no settings to search"):
        search(Search("forest", "decoy-scaffold", 3), Judge(by_weight), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_of_other_numerics_are_not_used(tmp_path):
    search(irm(), Judge(by_weight), tmp_path)
    file = tmp_path / f"irm-{MOTIF}.jsonl"
    records = RecordFile(file).read()[0]
    file.write_text("".join(json.dumps(one | {"numerics": 0}) + "\n" for one in records))
    (tmp_path / f"irm-{MOTIF}.journal").unlink()
    judge, told = Judge(by_weight), []
    search(irm(), judge, tmp_path, told.append)
    assert len(judge.points) == 4
    assert told[0].startswith(f"note: irm-{MOTIF}.jsonl: 4 records of numerics 0 (before they had a number) left out")


def test_the_other_validation_part_may_judge(tmp_path):
    assert search(irm(selection="id_val"), Judge(by_weight), tmp_path).point == {"method.weight": 100.0}


def test_it_begins_with_what_would_be_taken_without_it(tmp_path):
    """So that few trials cannot make a method worse on validation."""
    judge = Judge(by_weight)
    wanted = irm(1, also=["train.lr=[0.1,0.001]"])
    assert wanted.untuned() == {"method.weight": 0.1, "train.lr": 0.001}
    assert search(wanted, judge, tmp_path).point == wanted.untuned()
    assert irm(also=["train.lr=[0.1,0.2]", "encoder.dropout=[0.5]"]).untuned() == {"method.weight": 0.1}


def test_so_many_settings_and_no_more(tmp_path):
    judge = Judge(by_weight)
    assert search(irm(3), judge, tmp_path).trials == 3
    assert len(judge.points) == 3


def test_a_cut_search_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(irm(), Judge(by_weight, stop_after=2), tmp_path)
    rest = Judge(by_weight)
    best = search(irm(), rest, tmp_path)
    assert (best.score, best.trials) == (0.9, 4)
    assert len(rest.points) == 2
    assert len(RecordFile(tmp_path / f"irm-{MOTIF}.jsonl").read()[0]) == 4
    again = Judge(by_weight)
    assert search(irm(), again, tmp_path).score == 0.9
    assert again.points == []


def test_other_settings_are_another_search(tmp_path):
    search(irm(), Judge(by_weight), tmp_path)
    other = Judge(by_weight)
    search(irm(sets=["train.epochs=3"]), other, tmp_path)
    assert len(other.points) == 4


def test_further_settings_are_searched_too(tmp_path):
    best = search(irm(12, also=["train.lr=[0.1, 0.2]"]), Judge(lambda s: by_weight(s) * s["lr"]), tmp_path)
    assert tomllib.loads(best.file.read_text())["train"] in ({"lr": 0.1}, {"lr": 0.2})
    assert best.trials == 8
    assert best.point == {"method.weight": 1.0, "train.lr": 0.2}


def test_commands_repeat_a_run_or_where_that_cannot_be_the_search():
    assert irm(seed=4).cell({"method.weight": 10.0}).command == (
        f"mphil train --benchmark {MOTIF} --method irm --seed 4 --set method.weight=10.0"
    )
    thinned = irm(3, fraction=0.5, also=["train.lr=[0.1]"], sets=["train.epochs=2"])
    assert thinned.cell({}).command == (
        f"mphil lab tune irm {MOTIF} --trials 3 --selection ood_val --seed 0 --fraction 0.5 --eval-fraction 1.0 "
        "--also 'train.lr=[0.1]' --set train.epochs=2"
    )


def test_a_method_without_anything_to_search_is_run_once(tmp_path):
    judge = Judge(lambda settings: 0.4)
    best = search(Search("erm", MOTIF, 20), judge, tmp_path)
    assert (best.trials, best.point, len(judge.points)) == (1, {}, 1)
    assert tomllib.loads(best.file.read_text()) == {"method": {"name": "erm"}}


def test_a_failed_setting_cannot_win(tmp_path):
    said = []
    best = search(irm(), Judge(lambda s: "failed" if s["weight"] == 1.0 else by_weight(s)), tmp_path, said.append)
    assert (best.score, best.trials) == (0.5, 3)
    assert len(RecordFile(tmp_path / f"irm-{MOTIF}.failed.jsonl").read()[0]) == 1
    assert any("failed  method.weight=1.0" in text for text in said)


def test_nothing_but_failures(tmp_path):
    with pytest.raises(DataError, match="no settings could be scored on ood_val"):
        search(irm(), Judge(lambda s: "failed"), tmp_path)
    assert not (tmp_path / f"irm-{MOTIF}.toml").exists()


def test_a_refusal_ends_it(tmp_path):
    with pytest.raises(UsageError, match="no environments"):
        search(irm(), Judge(lambda s: "no environments"), tmp_path)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Search("imr", MOTIF, 3), "unknown method 'imr'; did you mean irm"),
        (Search("irm", "good-motif-bsis", 3), "unknown benchmark"),
        (irm(selection="ood_test"), "unknown selection rule 'ood_test'"),
        (irm(also=["train.lr=3"]), "--also 'train.lr=3'"),
        (irm(also=["train.rl=[3]"]), "unknown train setting 'rl'"),
        (irm(sets=["method.wieght=3"]), "unknown option of method irm 'wieght'"),
        (irm(fraction=0.0), "a fraction of the graphs is above 0"),
    ],
)
def test_mistakes_are_named_before_anything_runs(tmp_path, wanted, message):
    judge = Judge(by_weight)
    with pytest.raises(UsageError) as caught:
        search(wanted, judge, tmp_path)
    assert message in str(caught.value)
    assert judge.points == []


def test_a_search_can_start_from_the_recipe_of_the_family():
    """The method's own settings and `--set` come after it; the command says it."""
    cell = irm(recipe=True, sets=["train.epochs=12"]).cell({"method.weight": 10.0})
    plain = irm(sets=["train.epochs=12"]).cell({"method.weight": 10.0})
    train = cell.settings["train"]
    assert (train["schedule"], train["epochs"], cell.settings["method"]["weight"]) == ("cosine", 12, 10.0)
    assert plain.settings["train"]["schedule"] == "constant"
    assert irm(recipe=True).command.split().count("--recipe") == 1
    assert "--recipe" not in irm().command


@pytest.mark.parametrize("file", sorted(TUNED.glob("*.toml")), ids=lambda file: file.stem)
def test_settings_that_come_with_the_package_are_the_best_on_validation(file):
    records = RecordFile(TRIALS / f"{file.stem}.jsonl").read()[0]
    assert len(records) == 8
    best = max(records, key=lambda record: record["selections"]["ood_val"]["scores"]["ood_val"])
    for section, values in tomllib.loads(file.read_text()).items():
        found = best["config"][section]
        assert values.items() <= ({"name": found["name"]} | found["args"] if section == "method" else found).items()
