"""A run: what it writes, when, and what it refuses."""

import csv
import json
import signal
import sys

import pytest
import torch
from tests.toys import SMALL, Brittle, install, small_benchmark, with_labels, without_part

import mphil
from mphil.errors import DataError, IntegrityError, UnknownName, UsageError
from mphil.graphs.split import PARTS, TESTS
from mphil.model.bundle.folder import weights_digest
from mphil.nn.fast.library import path_taken
from mphil.provenance import NUMERICS, code_digest, machine
from mphil.training import run as run_module
from mphil.training.checkpoint import Checkpoints
from mphil.training.run import differences, evaluate_run, execute, fingerprint, identify, read_run_config
from mphil.training.settings import resolve


@pytest.fixture(scope="module")
def motif():
    return mphil.benchmark("good-motif-basis", graphs=200)


@pytest.fixture(scope="module")
def finished(motif, tmp_path_factory):
    """A run in a folder; tests only look at it."""
    return mphil.train(motif, "mphil", seed=3, out=tmp_path_factory.mktemp("runs") / "first", **SMALL)


def small(**changes):
    return SMALL | {"train": SMALL["train"] | changes}


def timeless(result):
    return {key: value for key, value in result.items() if key not in ("seconds", "cpu_seconds")}


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class TestResult:
    def test_is_what_the_folder_holds(self, finished):
        assert json.loads((finished.folder / "result.json").read_text()) == finished.result

    def test_has_all_parts_under_both_selections(self, finished):
        result = finished.result
        assert list(result["selections"]) == ["ood_val", "id_val"]
        for chosen in (*result["selections"].values(), result["last"]):
            assert tuple(chosen["scores"]) == PARTS
            assert all(0 <= score <= 1 for score in chosen["scores"].values())
            assert 1 <= chosen["epoch"] <= 2
        assert finished.scores == {rule: result["selections"][rule]["scores"] for rule in ("ood_val", "id_val")}

    def test_test_parts_can_be_left_for_later(self, motif, tmp_path):
        whole = mphil.train(motif, "erm", **SMALL)
        run = mphil.train(motif, "erm", out=tmp_path / "run", **small(scored="validation"))
        seen = [epoch["scores"] for epoch in run.history] + list(run.scores.values()) + [run.result["last"]["scores"]]
        assert all(scores[part] is None for scores in seen for part in TESTS)
        assert [r["scores"]["ood_val"] for r in run.history] == [r["scores"]["ood_val"] for r in whole.history]
        assert evaluate_run(run.folder)[0] == whole.scores["ood_val"]

    def test_scores_are_those_of_the_chosen_epochs(self, finished):
        for rule, chosen in finished.result["selections"].items():
            record = finished.history[chosen["epoch"] - 1]
            assert record["scores"] == {part: chosen["scores"][part] for part in PARTS[1:]}
            assert record["scores"][rule] == max(r["scores"][rule] for r in finished.history)
        last = finished.result["last"]
        assert last["epoch"] == 2
        assert {part: last["scores"][part] for part in PARTS[1:]} == finished.history[-1]["scores"]

    def test_has_all_that_is_needed_to_repeat_it(self, finished, motif):
        result = finished.result
        assert result["config"] == finished.config.model_dump(mode="json")
        assert result["config"]["train"]["epochs"] == 2
        assert result["seeds"] == {"training": 3, "data": 0}
        assert (result["benchmark"], result["method"], result["metric"]) == ("good-motif-basis", "mphil", "accuracy")
        assert (result["data_digest"], result["split_digest"]) == (motif.store.digest(), motif.split.digest())
        assert result["seconds"] > 0
        assert result["versions"].keys() == {"python", "mphil", "torch", "torch_geometric", "rdkit", "numpy"}
        assert result["code"] == code_digest()
        assert result["path"] == path_taken("cpu")
        assert result["numerics"] == NUMERICS
        assert result["machine"] == machine()
        assert result["parameters"] == sum(p.numel() for p in finished.method.parameters())

    def test_repeats_without_a_folder(self, finished, motif):
        again = mphil.train(motif, method="mphil", seed=3, **SMALL)
        assert timeless(again.result) == timeless(finished.result)
        assert again.folder is None

    def test_the_method_has_the_weights_chosen_on_ood_val(self, finished):
        saved = Checkpoints(finished.folder / "checkpoint").load("best-ood_val")
        assert all(torch.equal(saved[name], tensor) for name, tensor in finished.method.state_dict().items())

    def test_no_shift_leaves_out_what_cannot_be(self, tmp_path):
        sections = small(epochs=1)
        run = mphil.train("good-motif-basis-no-shift", "erm", benchmark={"graphs": 200}, out=tmp_path / "r", **sections)
        empty = {part for part, size in run.benchmark.split.sizes.items() if not size}
        assert empty
        for chosen in (*run.result["selections"].values(), run.result["last"]):
            assert {part for part, score in chosen["scores"].items() if score is None} == empty
        assert set(run.result["selections"]) == {"ood_val", "id_val"} - empty

    def test_no_validation_part_at_all(self, motif):
        bare = without_part(without_part(motif, "id_val"), "ood_val")
        run = mphil.train(bare, "erm", **small(epochs=1))
        assert run.scores == {}
        assert run.result["last"]["scores"]["ood_test"] is not None


class TestApi:
    def test_names_and_settings(self):
        run = mphil.train(
            "good-motif-basis", {"name": "mphil", "temperature": 0.5}, benchmark={"graphs": 200}, **small(epochs=1)
        )
        assert run.config.method.args["temperature"] == 0.5
        assert run.config.benchmark.args["graphs"] == 200

    def test_preset(self, motif):
        config = mphil.train(motif, preset="release", **small(epochs=1)).config
        assert config.method.args["momentum"] == 0.9

    def test_a_benchmark_made_by_hand(self):
        for kind in ("binary", "multitask"):
            run = mphil.train(small_benchmark(kind, missing=0.2), "mphil", **small(epochs=1))
            assert run.result["benchmark"] == "unnamed"
            assert run.result["metric"] == run.benchmark.task.metric

    def test_a_wrong_section(self, motif):
        with pytest.raises(UnknownName, match="did you mean train"):
            mphil.train(motif, "erm", trian={"epochs": 1})

    def test_comparing(self, finished, motif):
        other = mphil.train(motif, method="erm", seed=3, **SMALL)
        table = str(mphil.compare(finished, other)).splitlines()
        assert table[1].startswith("mphil (seed 3)")
        assert table[2].startswith("erm (seed 3)")


class TestFolder:
    def test_holds_the_settings_before_training_starts(self, motif, tmp_path, monkeypatch):
        def no_training(self):
            config, identity = read_run_config(tmp_path / "r")
            assert config.method.name == "erm"
            assert identity == fingerprint(config, motif)
            raise InterruptedError

        monkeypatch.setattr(run_module.Trainer, "fit", no_training)
        with pytest.raises(InterruptedError):
            mphil.train(motif, "erm", out=tmp_path / "r", **SMALL)

    def test_existing_run_without_resume(self, finished, motif):
        before = files(finished.folder)
        with pytest.raises(UsageError, match=r"already holds a run; go on with `mphil resume .*first`"):
            mphil.train(motif, "mphil", seed=3, out=finished.folder, **SMALL)
        assert files(finished.folder) == before

    def test_other_settings(self, finished, motif):
        before = files(finished.folder)
        with pytest.raises(IntegrityError, match=r"different run \(seed is 3 there, 4 here\); choose another --out"):
            mphil.train(motif, "mphil", seed=4, out=finished.folder, resume=True, **SMALL)
        with pytest.raises(IntegrityError, match=r"method\.name is mphil there, erm here"):
            mphil.train(motif, "erm", seed=3, out=finished.folder, resume=True, **SMALL)
        assert files(finished.folder) == before

    def test_other_data(self, finished, motif):
        with pytest.raises(IntegrityError, match="other data or other numerics of mphil"):
            mphil.train(motif.subset(0.9), "mphil", seed=3, out=finished.folder, resume=True, **SMALL)

    def test_foreign_files_are_not_touched(self, motif, tmp_path):
        (tmp_path / ".lock").write_text("mine")
        (tmp_path / "thesis.tex").write_text("chapter 1")
        before = files(tmp_path)
        with pytest.raises(UsageError, match=r"is not empty \(thesis.tex\); choose another --out"):
            mphil.train(motif, "erm", out=tmp_path, **SMALL)
        assert files(tmp_path) == before

    def test_what_a_run_killed_at_its_first_write_left_is_no_obstacle(self, motif, tmp_path):
        (tmp_path / ".lock").touch()
        (tmp_path / ".config.json.draft-0123").write_text("{")
        mphil.train(motif, "erm", out=tmp_path, **small(epochs=1))
        assert (tmp_path / "result.json").exists()
        assert not list(tmp_path.glob("*draft*"))

    def test_settings_without_effect_may_change(self, motif, tmp_path):
        first = mphil.train(motif, "erm", out=tmp_path / "r", **small(checkpoint_minutes=0))
        again = mphil.train(motif, "erm", out=tmp_path / "r", resume=True, **small(checkpoint_minutes=9))
        assert again.scores == first.scores

    def test_a_finished_run_resumed_reports_the_same(self, finished, motif):
        before = files(finished.folder)
        again = mphil.train(motif, "mphil", seed=3, out=finished.folder, resume=True, **SMALL)
        assert again.result == finished.result
        assert files(finished.folder) == before

    def test_two_runs_at_once(self, motif, tmp_path, monkeypatch):
        """The second is refused while the first is at work, and the first goes on to its end."""
        refused = []

        def disturb(self, parts=PARTS, original=run_module.Trainer.evaluate):
            if not refused:
                refused.append(True)
                with pytest.raises(IntegrityError, match="is in use by process"):
                    mphil.train(motif, "erm", out=tmp_path / "r", resume=True, **SMALL)
            return original(self, parts)

        monkeypatch.setattr(run_module.Trainer, "evaluate", disturb)
        run = mphil.train(motif, "erm", out=tmp_path / "r", **SMALL)
        assert refused
        assert len(run.history) == 2

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "3", '{"config": {}}', '{"config": 3, "fingerprint": ""}', "\xff"], ids=repr
    )
    def test_garbled_settings(self, tmp_path, text):
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(IntegrityError, match=r"config\.json cannot be read \(.*\); restore it or start a new run"):
            read_run_config(tmp_path)

    def test_no_run(self, tmp_path):
        with pytest.raises(UsageError, match="no run here"):
            read_run_config(tmp_path)


class TestRefusalsLeaveNoFolder:
    """What cannot be trained must not occupy the folder of the corrected command."""

    @pytest.mark.parametrize("labels", [torch.nan, 1.0])
    def test_labels(self, motif, tmp_path, labels):
        data = with_labels(motif, torch.full_like(motif.store.y, labels))
        with pytest.raises(DataError):
            mphil.train(data, "erm", out=tmp_path / "r", **SMALL)
        assert not (tmp_path / "r").exists()

    def test_batch_size(self, motif, tmp_path):
        with pytest.raises(UsageError, match="batch_size"):
            mphil.train(motif, "erm", out=tmp_path / "r", **small(batch_size=121))
        assert not (tmp_path / "r").exists()

    def test_tensorboard_that_is_not_installed(self, motif, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        with pytest.raises(UsageError, match="pip install"):
            mphil.train(motif, "erm", out=tmp_path / "r", **small(loggers=["tensorboard"]))
        assert not (tmp_path / "r").exists()


class TestCuts:
    def test_logs_have_one_line_an_epoch_and_the_result_is_the_same(self, motif, tmp_path, monkeypatch):
        install(monkeypatch)
        sections = small(epochs=3, loggers=["tensorboard"])
        straight = mphil.train(motif, "brittle", out=tmp_path / "straight", **sections)
        for step in (2, 6, 11):
            monkeypatch.setattr(Brittle, "trouble", "interrupt")
            monkeypatch.setattr(Brittle, "at", step)
            with pytest.raises(KeyboardInterrupt):
                mphil.train(motif, "brittle", out=tmp_path / "cut", resume=True, **sections)
        monkeypatch.setattr(Brittle, "trouble", "")
        cut = mphil.train(motif, "brittle", out=tmp_path / "cut", resume=True, **sections)
        assert timeless(cut.result) == timeless(straight.result)
        for name, read in (("log.csv", csv.DictReader), ("log.jsonl", lambda file: map(json.loads, file))):
            with (tmp_path / "cut" / name).open() as cut_file, (tmp_path / "straight" / name).open() as file:
                rows, expected = list(read(cut_file)), list(read(file))
            assert [timeless(row) for row in rows] == [timeless(row) for row in expected]
            assert [int(row["epoch"]) for row in rows] == [1, 2, 3]
        assert events(tmp_path / "cut") == events(tmp_path / "straight")

    def test_nan_keeps_the_run_resumable(self, motif, tmp_path, monkeypatch):
        install(monkeypatch)
        straight = mphil.train(motif, "brittle", **SMALL)
        monkeypatch.setattr(Brittle, "trouble", "loss")
        with pytest.raises(DataError, match="epoch 2, step 6"):
            mphil.train(motif, "brittle", out=tmp_path / "r", **SMALL)
        assert not (tmp_path / "r" / "result.json").exists()
        monkeypatch.setattr(Brittle, "trouble", "")
        again = mphil.train(motif, "brittle", out=tmp_path / "r", resume=True, **SMALL)
        assert timeless(again.result) == timeless(straight.result)

    def test_a_lock_is_free_after_an_interrupt(self, motif, tmp_path, monkeypatch):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", "interrupt")
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                mphil.train(motif, "brittle", out=tmp_path / "r", resume=True, **SMALL)
            monkeypatch.setattr(Brittle, "at", 7)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder / "tensorboard")).Reload()
    names = [name for name in accumulator.Tags()["scalars"] if name != "seconds"]
    return {name: [(e.step, e.value) for e in accumulator.Scalars(name)] for name in names}


def test_fingerprint_tells_settings_data_and_split_apart(motif):
    def of(data=motif, **sections):
        config, _ = resolve(sections, data)
        return fingerprint(config, data)

    assert of() == of(train={"checkpoint_minutes": 9, "loggers": ["tensorboard"], "threads": 2})
    changed = [
        of(seed=1),
        of(train={"lr": 0.5}),
        of(method={"name": "erm"}),
        of(motif.subset(0.5)),
        of(with_labels(motif, motif.store.y.flip(0))),
    ]
    assert len({of(), *changed}) == 6


def test_differences_name_the_key_and_both_values(motif):
    one, _ = resolve({"train": {"lr": 0.5}}, motif)
    other, _ = resolve({"encoder": {"width": 16}}, motif)
    assert differences(one, one) == []
    assert differences(one, other) == ["encoder.width is 128 there, 16 here", "train.lr is 0.5 there, 0.001 here"]


def test_execute_takes_resolved_settings(motif):
    config, data = resolve(small(epochs=1) | {"method": {"name": "erm"}}, motif)
    assert execute(config, data, None).result["method"] == "erm"


def test_other_numerics_are_another_run(motif, monkeypatch):
    config, _ = resolve({}, motif)
    before = fingerprint(config, motif)
    monkeypatch.setattr(run_module, "NUMERICS", NUMERICS + 1)
    assert fingerprint(config, motif) != before


@pytest.fixture(scope="module")
def several_bands():
    """A benchmark and settings whose batches have more rows than one thread takes at once."""
    return mphil.benchmark("good-motif-basis", graphs=200), SMALL | {
        "train": SMALL["train"] | {"batch_size": 60, "epochs": 2},
        "encoder": {"width": 64, "layers": 2},
    }


@pytest.mark.parametrize("method", ["erm", "mphil", "mphil+", "gsat"])
def test_threads_change_no_bit(several_bands, method):
    data, settings = several_bands
    before = torch.get_num_threads()
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            runs.append(mphil.train(data, method, **settings | {"train": settings["train"] | {"threads": threads}}))
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    assert len({weights_digest(run.method.state_dict()) for run in runs}) == 1
    assert runs[0].scores == runs[1].scores == runs[2].scores
    assert {run.result["machine"]["threads"] for run in runs} == {1}


def test_a_run_goes_on_with_other_threads(several_bands, tmp_path):
    data, settings = several_bands

    class Cut(mphil.Callback):
        def on_epoch(self, history, progress):
            if len(history) == 2:
                raise KeyboardInterrupt

    def run(threads, folder, **more):
        train = settings["train"] | {"threads": threads}
        return mphil.train(data, "erm", out=folder, **more, **settings | {"train": train})

    whole = run(1, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(2, tmp_path / "cut", callbacks=[Cut()])
    again = run(3, tmp_path / "cut", resume=True)
    assert weights_digest(again.method.state_dict()) == weights_digest(whole.method.state_dict())
    assert again.scores == whole.scores


def test_settings_that_came_later_count_when_they_are_used(motif):
    """At their default they leave the identity of earlier runs as it was."""
    plain, _ = resolve({"method": {"name": "erm"}}, motif)
    used = plain.model_copy(update={"train": plain.train.model_copy(update={"distract": 0.5})})
    assert fingerprint(plain, motif) != fingerprint(used, motif)
    for section, values in (("train", plain.train.model_dump()), ("benchmark", {"task": "", "graphs": 300})):
        identify(values, section)
        assert not {"distract", "task"} & values.keys()
    values = used.train.model_dump()
    identify(values, "train")
    assert values["distract"] == 0.5
