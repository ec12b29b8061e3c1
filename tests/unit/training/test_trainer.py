"""The loop: its limits, its choices, and that a cut leaves no trace."""

import itertools
import signal
import threading
import time
import types
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.broken import Staged
from tests.cuts import Cut, Cutter, assert_same, outcome
from tests.toys import Brittle, install, measured_benchmark, small_benchmark, with_labels, without_part

import mphil
from mphil.config import EncoderConfig, TrainConfig
from mphil.errors import DataError, UsageError
from mphil.graphs.loader import derive_seed
from mphil.methods import Losses, build_method
from mphil.methods.erm import ERM
from mphil.methods.mphil import MPHIL
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints
from mphil.training.trainer import Trainer

METHODS = {
    "erm": {},
    "mphil": {},
    "mphil-kmeans": {"update": "epoch-kmeans"},
    "mphil-mean": {"update": "epoch-mean"},
    "mphil-gradient": {"update": "gradient"},
    "mphil-repaired": dict(MPHIL.presets["repaired"]),
    "mphil-start": {"start": "class-mean", "update": "gradient"},
    "mphil+-gate": {"keep": 0.5},
    "groupdro": {"step": 0.5},
    "prune": {},
    "leci": {},
    "dive": {},
    "disco": {"experts": 3},
}
STEPS = 12
"""Of the usual run below: 3 epochs of 4 batches."""


class Recorder(Callback):
    def __init__(self):
        self.batches, self.epochs = [], []

    def on_step(self, progress, losses):
        self.batches.append((progress, losses))

    def on_epoch(self, history, progress):
        self.epochs.append((len(history), progress))


@pytest.fixture(scope="module")
def motif():
    return mphil.benchmark("good-motif-basis", graphs=200)


def trainer_of(data, method="erm", checkpoints=None, seed=0, **config):
    encoder = EncoderConfig(width=8, layers=2, node=data.store.node_features, edge=data.store.edge_features)
    torch.manual_seed(derive_seed(seed, "weights"))
    built = build_method(method.partition("-")[0], data.task, encoder, METHODS.get(method, {}))
    config = TrainConfig(**{"epochs": 3, "batch_size": 30, "checkpoint_minutes": 0} | config)
    return Trainer(built, data, config, seed, checkpoints)


@pytest.fixture(scope="module")
def uncut(motif):
    """The outcome of each method's run that nobody disturbed."""
    outcomes = {}
    for method in METHODS:
        trainer = trainer_of(motif, method)
        trainer.fit()
        outcomes[method] = outcome(trainer)
    return outcomes


class TestLimits:
    def test_epochs(self, uncut):
        history, _ = uncut["erm"]
        assert [(record["epoch"], record["step"]) for record in history] == [(1, 4), (2, 8), (3, 12)]

    def test_steps_end_inside_an_epoch_and_the_rest_is_still_reported(self, motif):
        trainer = trainer_of(motif, max_steps=6)
        assert [(r["epoch"], r["step"]) for r in trainer.fit()] == [(1, 4), (2, 6)]
        assert None not in trainer.at.history[-1]["scores"].values()

    def test_steps_beyond_the_epochs_change_nothing(self, motif, uncut):
        trainer = trainer_of(motif, max_steps=99)
        trainer.fit()
        assert_same(outcome(trainer), uncut["erm"])

    @pytest.mark.parametrize(("max_steps", "total"), [(0, 12), (6, 6), (12, 12), (99, 12)])
    def test_methods_are_told_how_long_it_will_be(self, motif, max_steps, total):
        trainer = trainer_of(motif, max_steps=max_steps)
        recorder = Recorder()
        trainer.callbacks.append(recorder)
        trainer.fit()
        assert [progress.step for progress, _ in recorder.batches] == list(range(1, total + 1))
        assert {progress.total_steps for progress, _ in recorder.batches} == {total}
        assert {progress.total_epochs for progress, _ in recorder.batches} == {3}

    def test_minutes_end_with_the_epoch_that_passes_them(self, motif, monkeypatch):
        clock = itertools.count(step=6.0)
        # Not the clock of the process, which servers of other tests read.
        own = types.SimpleNamespace(monotonic=lambda: next(clock), process_time=time.process_time)
        monkeypatch.setattr("mphil.training.trainer.time", own)
        # An epoch reads the clock seven times, of which five steps of training and one of scoring count: half a minute.
        trainer = trainer_of(motif, epochs=9, max_minutes=0.9)
        assert len(trainer.fit()) == 2
        assert trainer.at.seconds == 60

    @pytest.mark.parametrize(("on", "epochs"), [("ood_val", 5), ("id_val", 3)])
    def test_patience_watches_the_part_it_was_given(self, motif, monkeypatch, on, epochs):
        scores = iter([(0.5, 0.5), (0.5, 0.6), (0.4, 0.8), (0.6, 0.8), (0.9, 0.7), (1.0, 1.0)])
        trainer = trainer_of(motif, epochs=6, max_steps=6, batch_size=120, patience=2, patience_on=on)
        keys = ("id_val", "ood_val")
        monkeypatch.setattr(trainer, "evaluate", lambda parts: dict(zip(keys, next(scores), strict=True)))
        assert len(trainer.fit()) == epochs

    def test_no_patience_never_stops(self, motif, monkeypatch):
        trainer = trainer_of(motif, epochs=6, batch_size=120)
        monkeypatch.setattr(trainer, "evaluate", lambda parts: {"id_val": 0.5, "ood_val": 0.5})
        assert len(trainer.fit()) == 6


class TestSelection:
    def test_both_rules_keep_the_weights_of_their_epoch_and_the_earliest_of_equals(self, motif, monkeypatch):
        scores = [(0.5, 0.7), (0.8, 0.6), (0.8, 0.7), (0.1, 0.2)]
        trainer = trainer_of(motif, epochs=4)
        after = []
        replies = iter(scores)

        def evaluate(parts):
            after.append({name: tensor.clone() for name, tensor in trainer.method.state_dict().items()})
            return dict(zip(("id_val", "ood_val"), next(replies), strict=True))

        monkeypatch.setattr(trainer, "evaluate", evaluate)
        trainer.fit()
        for rule, epoch in (("id_val", 2), ("ood_val", 1)):
            assert all(torch.equal(trainer.best[rule][key], value) for key, value in after[epoch - 1].items())
            trainer.load_best(rule)
            assert torch.equal(trainer.method.head.weight, after[epoch - 1]["head.weight"])

    def test_a_part_that_is_empty_scores_none_and_chooses_nothing(self, motif):
        trainer = trainer_of(without_part(motif, "id_val"))
        assert all(record["scores"]["id_val"] is None for record in trainer.fit())
        assert set(trainer.best) == {"ood_val"}
        assert trainer.evaluate()["id_val"] is None
        assert trainer.evaluate()["ood_test"] is not None

    def test_a_part_without_labels_scores_none(self, motif):
        y = motif.store.y.clone()
        y[motif.split.ood_val] = torch.nan
        trainer = trainer_of(with_labels(motif, y), epochs=1)
        assert trainer.fit()[0]["scores"]["ood_val"] is None


class TestDeterminism:
    def test_the_seed_decides_everything(self, motif, uncut):
        torch.rand(3)
        again, other = trainer_of(motif), trainer_of(motif, seed=1)
        again.fit()
        other.fit()
        assert_same(outcome(again), uncut["erm"])
        assert outcome(other)[0] != uncut["erm"][0]

    def test_checkpoints_and_callbacks_change_nothing(self, motif, uncut, tmp_path):
        trainer = trainer_of(motif, "mphil", Checkpoints(tmp_path))
        trainer.callbacks.append(Recorder())
        trainer.fit()
        assert_same(outcome(trainer), uncut["mphil"])

    def test_losses_are_averaged_over_the_batches_of_an_epoch(self, motif):
        trainer, recorder = trainer_of(motif, "mphil"), Recorder()
        trainer.callbacks.append(recorder)
        for number, record in enumerate(trainer.fit()):
            batches = [losses for _, losses in recorder.batches[4 * number : 4 * number + 4]]
            assert set(record["losses"]) == {"classification", "separation", "matching"}
            for name, value in record["losses"].items():
                assert value == pytest.approx(sum(losses[name] for losses in batches) / 4)

    def test_gradients_are_clipped(self, motif, monkeypatch):
        for clip, check in ((0.01, lambda norm: norm <= 0.01 * 1.001), (0, lambda norm: norm > 0.01)):
            trainer, norms = trainer_of(motif, epochs=1, clip=clip), []
            optimizer = trainer.optimizers["all"]
            step = optimizer.step

            def spy(trainer=trainer, norms=norms, step=step):
                gradients = [p.grad.flatten() for p in trainer.method.parameters() if p.grad is not None]
                norms.append(float(torch.cat(gradients).norm()))
                step()

            monkeypatch.setattr(optimizer, "step", spy)
            trainer.fit()
            assert len(norms) == 4
            assert all(map(check, norms))


class TestCuts:
    """Stopped anywhere, a run that is taken up again ends with the same bits."""

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("minutes", [0, 99], ids=["saves-every-batch", "saves-every-epoch"])
    def test_three_cuts(self, motif, uncut, tmp_path, method, minutes):
        for batch in (2, 5, 11):
            trainer = trainer_of(motif, method, Checkpoints(tmp_path), checkpoint_minutes=minutes)
            trainer.callbacks.append(Cutter(batch))
            with pytest.raises(Cut):
                trainer.fit()
        trainer = trainer_of(motif, method, Checkpoints(tmp_path), checkpoint_minutes=minutes)
        assert trainer.at.step == (10 if minutes == 0 else 8)
        trainer.fit()
        assert_same(outcome(trainer), uncut[method])

    @settings(max_examples=5)
    @given(st.lists(st.integers(1, STEPS), max_size=4), st.booleans())
    def test_cuts_anywhere(self, motif, uncut, tmp_path_factory, batches, every_batch):
        folder, minutes = tmp_path_factory.mktemp("cuts"), 0 if every_batch else 99
        for batch in batches:
            trainer = trainer_of(motif, "mphil", Checkpoints(folder), checkpoint_minutes=minutes)
            trainer.callbacks.append(Cutter(batch))
            try:
                trainer.fit()
            except Cut:
                continue
        trainer = trainer_of(motif, "mphil", Checkpoints(folder), checkpoint_minutes=minutes)
        trainer.fit()
        assert_same(outcome(trainer), uncut["mphil"])

    def test_a_cut_between_scoring_and_saving_tells_the_epoch_again(self, motif, uncut, tmp_path):
        trainer = trainer_of(motif, "erm", Checkpoints(tmp_path))
        trainer.callbacks.append(Cutter(epoch=3))
        with pytest.raises(Cut):
            trainer.fit()
        trainer, recorder = trainer_of(motif, "erm", Checkpoints(tmp_path)), Recorder()
        trainer.callbacks.append(recorder)
        trainer.fit()
        assert [n for n, _ in recorder.epochs] == [3]
        assert recorder.batches == [], "the last batch had been saved"
        assert_same(outcome(trainer), uncut["erm"])

    def test_a_cut_at_the_limit_of_steps_goes_no_further(self, motif, tmp_path, monkeypatch):
        def vanish(parts):
            raise Cut

        straight = trainer_of(motif, max_steps=6)
        straight.fit()
        trainer = trainer_of(motif, "erm", Checkpoints(tmp_path), max_steps=6)
        monkeypatch.setattr(trainer, "evaluate", lambda parts: vanish(parts) if trainer.at.step == 6 else {})
        with pytest.raises(Cut):
            trainer.fit()
        trainer = trainer_of(motif, "erm", Checkpoints(tmp_path), max_steps=6)
        assert (trainer.at.step, trainer.at.batch) == (6, 2)
        trainer.fit()
        assert trainer.at.step == 6
        assert torch.equal(trainer.method.head.weight, straight.method.head.weight)

    def test_a_finished_run_does_nothing_more(self, motif, uncut, tmp_path):
        trainer_of(motif, "mphil", Checkpoints(tmp_path)).fit()
        trainer, recorder = trainer_of(motif, "mphil", Checkpoints(tmp_path)), Recorder()
        trainer.callbacks.append(recorder)
        trainer.fit()
        assert (recorder.batches, recorder.epochs) == ([], [])
        assert_same(outcome(trainer), uncut["mphil"])

    def test_groups_with_an_optimiser_each(self, motif, tmp_path, monkeypatch):
        class Alternating(ERM):
            """Head and encoder take turns."""

            name = "alternating"
            touched = ()

            def param_groups(self):
                return {"body": list(self.encoder.parameters()), "head": list(self.head.parameters())}

            def steps(self, batch, progress):
                for group in ("body", "head"):
                    before = {name: p.detach().clone() for name, p in self.named_parameters()}
                    yield group, Losses(**{group: self.loss(batch, progress).total})
                    moved = {n.partition(".")[0] for n, p in self.named_parameters() if not torch.equal(before[n], p)}
                    Alternating.touched = (*Alternating.touched, moved)

        install(monkeypatch, Alternating)
        straight = trainer_of(motif, "alternating")
        straight.fit()
        assert Alternating.touched[:4] == ({"encoder"}, {"head"}, {"encoder"}, {"head"})
        assert set(straight.at.history[0]["losses"]) == {"body", "head"}
        trainer = trainer_of(motif, "alternating", Checkpoints(tmp_path))
        trainer.callbacks.append(Cutter(6))
        with pytest.raises(Cut):
            trainer.fit()
        trainer = trainer_of(motif, "alternating", Checkpoints(tmp_path))
        trainer.fit()
        assert_same(outcome(trainer), outcome(straight))


class CutInStage(Cutter):
    """Ends training at a batch of one stage."""

    def __init__(self, stage, batch):
        super().__init__(batch)
        self.stage = stage

    def on_step(self, progress, losses):
        if progress.stage == self.stage:
            super().on_step(progress, losses)


class TestStages:
    """A method with an earlier stage of half the epochs."""

    @pytest.fixture(autouse=True)
    def _installed(self, monkeypatch):
        staged = type("Trained", (Staged,), {"name": "staged", "tasks": frozenset({"multiclass"})})
        install(monkeypatch, staged)

    def test_they_come_one_after_the_other(self, motif):
        trainer, recorder = trainer_of(motif, "staged"), Recorder()
        trainer.callbacks.append(recorder)
        before = {name: tensor.clone() for name, tensor in trainer.method.assistant.state_dict().items()}
        trainer.fit()
        told = [(progress.stage, progress.step, progress.total_steps) for progress, _ in recorder.batches]
        assert told == [("first", n, 8) for n in range(1, 9)] + [("main", n, 12) for n in range(1, 13)]
        assert [(record["stage"], record["epoch"]) for record in trainer.at.earlier] == [("first", 1), ("first", 2)]
        assert [record["epoch"] for record in trainer.at.history] == [1, 2, 3]
        assert not torch.equal(before["head.weight"], trainer.method.assistant.head.weight)
        assert (trainer.method.weights.read(motif.split.train) > 1).all()

    @pytest.mark.parametrize("minutes", [0, 99], ids=["saves-every-batch", "saves-every-epoch"])
    def test_cuts_in_every_stage(self, motif, tmp_path, minutes):
        straight = trainer_of(motif, "staged")
        straight.fit()
        for stage, batch in (("first", 2), ("first", 6), ("first", 8), ("main", 1), ("main", 7)):
            trainer = trainer_of(motif, "staged", Checkpoints(tmp_path), checkpoint_minutes=minutes)
            trainer.callbacks.append(CutInStage(stage, batch))
            with pytest.raises(Cut):
                trainer.fit()
        trainer = trainer_of(motif, "staged", Checkpoints(tmp_path), checkpoint_minutes=minutes)
        trainer.fit()
        assert_same(outcome(trainer), outcome(straight))

    def test_the_main_stage_has_the_random_numbers_it_has_alone(self, motif):
        staged, alone = trainer_of(motif, "staged"), trainer_of(motif, "erm")
        orders = {}
        for name, trainer in {"staged": staged, "alone": alone}.items():
            recorder = orders[name] = []
            steps = trainer.method.steps
            trainer.method.steps = lambda batch, progress, seen=recorder, steps=steps: (
                seen.append((progress.stage, batch.index.tolist(), float(torch.rand(())))) or steps(batch, progress)
            )
            trainer.fit()
        assert [seen for seen in orders["staged"] if seen[0] == "main"] == orders["alone"]


class TestInterrupts:
    @pytest.mark.parametrize("step", [0, 5, STEPS - 1])
    def test_amid_a_step_it_is_finished_saved_and_passed_on(self, motif, uncut, tmp_path, monkeypatch, step):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", "interrupt")
        monkeypatch.setattr(Brittle, "at", step)
        trainer = trainer_of(motif, "brittle", Checkpoints(tmp_path), checkpoint_minutes=99)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit()
        assert Checkpoints(tmp_path).meta()["at"]["step"] == step + 1
        trainer = trainer_of(motif, "brittle", Checkpoints(tmp_path), checkpoint_minutes=99)
        trainer.fit()
        assert_same(outcome(trainer), uncut["erm"])

    def test_amid_scoring_the_epoch_is_closed_first(self, motif, uncut, tmp_path, monkeypatch):
        trainer = trainer_of(motif, "mphil-kmeans", Checkpoints(tmp_path), checkpoint_minutes=99)
        score = trainer.evaluate
        monkeypatch.setattr(trainer, "evaluate", lambda parts: signal.raise_signal(signal.SIGINT) or score(parts))
        with pytest.raises(KeyboardInterrupt):
            trainer.fit()
        trainer = trainer_of(motif, "mphil-kmeans", Checkpoints(tmp_path))
        assert (trainer.at.epoch, trainer.at.batch, len(trainer.at.history)) == (1, 0, 1)
        trainer.fit()
        assert_same(outcome(trainer), uncut["mphil-kmeans"])

    def test_amid_the_work_before_an_epoch(self, motif, uncut, tmp_path, monkeypatch):
        trainer = trainer_of(motif, "mphil-kmeans", Checkpoints(tmp_path), checkpoint_minutes=99)
        begin = trainer.method.begin_epoch
        monkeypatch.setattr(trainer.method, "begin_epoch", lambda *a: begin(*a) or signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            trainer.fit()
        trainer = trainer_of(motif, "mphil-kmeans", Checkpoints(tmp_path))
        assert trainer.at.step == 1
        trainer.fit()
        assert_same(outcome(trainer), uncut["mphil-kmeans"])

    def test_without_checkpoints_it_is_just_passed_on(self, motif, monkeypatch):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", "interrupt")
        with pytest.raises(KeyboardInterrupt):
            trainer_of(motif, "brittle").fit()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_training_works_in_a_thread(self, motif, uncut):
        trainer = trainer_of(motif)
        thread = threading.Thread(target=trainer.fit)
        thread.start()
        thread.join()
        assert_same(outcome(trainer), uncut["erm"])


class TestDivergence:
    @pytest.mark.parametrize("trouble", ["loss", "gradient"])
    def test_stops_with_the_terms_and_leaves_the_last_checkpoint(self, motif, uncut, tmp_path, monkeypatch, trouble):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", trouble)
        message = rf"the {trouble} is not a finite number at epoch 2, step 6 \(classification = .*broken = .*train.lr"
        with pytest.raises(DataError, match=message):
            trainer_of(motif, "brittle", Checkpoints(tmp_path)).fit()
        assert Checkpoints(tmp_path).meta()["at"]["step"] == 5
        monkeypatch.setattr(Brittle, "trouble", "")
        trainer = trainer_of(motif, "brittle", Checkpoints(tmp_path))
        trainer.fit()
        assert_same(outcome(trainer), uncut["erm"])

    @pytest.mark.parametrize("clip", [0, 5])
    def test_a_broken_gradient_is_found_with_and_without_clipping(self, motif, monkeypatch, clip):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", "gradient")
        trainer = trainer_of(motif, "brittle", clip=clip)
        with pytest.raises(DataError, match="gradient"):
            trainer.fit()
        assert all(tensor.isfinite().all() for tensor in trainer.method.state_dict().values())


def test_it_learns_what_can_be_learned():
    data = small_benchmark(graphs=200)
    told = replace(data.store, x=data.store.y.repeat_interleave(data.store.n_nodes, 0).expand(-1, 3))
    trainer = trainer_of(replace(data, store=told), epochs=15, lr=0.02)
    first, *_, last = trainer.fit()
    assert last["losses"]["classification"] < first["losses"]["classification"] / 2
    scores = trainer.evaluate()
    assert sum(scores.values()) / len(scores) > 0.7, "guessing gives a third"


def test_the_trainer_checks_its_data(motif):
    with pytest.raises(UsageError):
        trainer_of(motif, batch_size=121)


class TestRegression:
    def test_it_learns_and_chooses_the_epoch_with_the_lowest_error(self):
        data = measured_benchmark(graphs=200)
        trainer = trainer_of(data, epochs=15, batch_size=20, lr=0.01)
        history = trainer.fit()
        errors = [record["scores"]["id_val"] for record in history]
        assert trainer.best_epoch("id_val") == 1 + errors.index(min(errors))
        assert min(errors) < 0.8 * data.task.scales[0], "the mean of the training labels gives 1"

    def test_several_tasks_with_missing_labels(self):
        data = measured_benchmark(2, missing=0.4, graphs=200)
        trainer = trainer_of(data, method="mphil+", epochs=12, batch_size=20, lr=0.01)
        scores = [record["scores"]["id_val"] for record in trainer.fit()]
        assert trainer.best_epoch("id_val") == 1 + scores.index(max(scores))
        assert max(scores) > 0.5

    def test_methods_that_cannot_name_those_that_can(self):
        data = measured_benchmark()
        with pytest.raises(
            UsageError, match=r"vrex is not defined for regression .* methods that can: .*erm, .*mphil\+"
        ):
            trainer_of(data, method="vrex")
