"""The recipe in the loop: what each setting does, and that with all of them a cut leaves no trace."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.cuts import Cut, Cutter, assert_same, outcome
from tests.graphs import TASKS
from tests.toys import small_benchmark

import mphil
from mphil.benchmarks.catalogue import Benchmark
from mphil.config import EncoderConfig, TrainConfig
from mphil.graphs.loader import derive_seed
from mphil.graphs.split import Split
from mphil.graphs.transforms import add_distractors, drop_edges, mix_features
from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.testing.trial import labelled_molecules
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints
from mphil.training.recipe import Average, learning_rate_factor, renormalise
from mphil.training.trainer import Trainer

RECIPE = {
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "schedule": "cosine",
    "warmup": 0.2,
    "average": 0.9,
    "edge_drop": 0.5,
    "distract": 0.5,
    "window": 2,
    "min_epochs": 2,
}
ARGS = {"gala": {"environments": 2}}
MOLECULES = ("gala",)


@pytest.fixture(scope="module")
def motif():
    return mphil.benchmark("good-motif-basis", graphs=200)


def molecules():
    store = labelled_molecules(TASKS["binary"])
    return Benchmark(TASKS["binary"], store, Split(*torch.arange(12).split([6, 2, 1, 2, 1])))


def trainer_of(data, method="erm", checkpoints=None, **config):
    encoder = EncoderConfig(
        width=8, layers=2, dropout=0.2, node=data.store.node_features, edge=data.store.edge_features
    )
    torch.manual_seed(derive_seed(0, "weights"))
    built = build_method(method, data.task, encoder, ARGS.get(method, {}))
    size = 2 if len(data.split.train) < 30 else 30
    config = TrainConfig(**{"epochs": 3, "batch_size": size, "checkpoint_minutes": 0} | config)
    return Trainer(built, data, config, 0, checkpoints)


def trained(*args, **config):
    trainer = trainer_of(*args, **config)
    trainer.fit()
    return trainer


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.method.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Spy(Callback):
    """Keeps what there is after every batch."""

    def __init__(self, trainer):
        self.trainer, self.rates, self.weights = trainer, [], []
        trainer.callbacks.append(self)

    def on_step(self, progress, losses):
        optimizer = next(iter(self.trainer.optimizers.values()))
        self.rates.append(optimizer.param_groups[0]["lr"])
        self.weights.append(weights(self.trainer))


CUT_METHODS = [
    ("erm", 3),
    ("mphil", 3),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (("gala", 2), ("aia", 1), ("grea", 1))),
]


class TestCuts:
    """Everything at once, cut anywhere and as often as one likes."""

    @pytest.mark.parametrize("minutes", [0, 99], ids=["saves-every-step", "saves-every-epoch"])
    @pytest.mark.parametrize(("method", "accumulate"), CUT_METHODS)
    def test_they_leave_no_trace(self, motif, tmp_path, method, accumulate, minutes):
        data = molecules() if method in MOLECULES else motif
        straight = trained(data, method, Checkpoints(tmp_path / "straight"), accumulate=accumulate, **RECIPE)
        folder = Checkpoints(tmp_path / "cut")
        steps = (1, 3, 4, 6, 8, 11) if method not in MOLECULES else (1, 2, 4, 5, 7, 8)
        for step in steps:
            trainer = trainer_of(data, method, folder, checkpoint_minutes=minutes, accumulate=accumulate, **RECIPE)
            trainer.callbacks.append(Cutter(step))
            with suppress(Cut):
                trainer.fit()
        trainer = trainer_of(data, method, folder, checkpoint_minutes=minutes, accumulate=accumulate, **RECIPE)
        trainer.fit()
        assert_same(outcome(trainer), outcome(straight))
        assert set(folder.groups()) == {"state", "best-id_val", "best-ood_val"}
        for group in folder.groups():
            assert same(folder.load(group), straight.checkpoints.load(group)), group
        again = trained(data, method, folder, checkpoint_minutes=minutes, accumulate=accumulate, **RECIPE)
        assert_same(outcome(again), outcome(straight))

    def test_nor_do_they_with_mixed_features(self, tmp_path):
        data, config = small_benchmark(), RECIPE | {"mix_features": 0.5}
        straight = trained(data, **config)
        for step in (1, 3, 4):
            trainer = trainer_of(data, checkpoints=Checkpoints(tmp_path), **config)
            trainer.callbacks.append(Cutter(step))
            with pytest.raises(Cut):
                trainer.fit()
        assert_same(outcome(trained(data, checkpoints=Checkpoints(tmp_path), **config)), outcome(straight))
        assert outcome(straight)[0] != outcome(trained(data, **RECIPE))[0]

    def test_saved_at_whole_steps_only(self, motif, tmp_path):
        for step, saved in ((2, 0), (4, 3), (6, 4), (8, 7)):
            trainer = trainer_of(motif, "erm", Checkpoints(tmp_path), accumulate=3)
            assert trainer.at.step <= saved
            trainer.callbacks.append(Cutter(step))
            with pytest.raises(Cut):
                trainer.fit()
            assert trainer_of(motif, "erm", Checkpoints(tmp_path), accumulate=3).at.step == saved

    def test_an_interrupt_waits_for_the_whole_step(self, motif, tmp_path):
        class Stop(Callback):
            def on_step(self, progress, losses):
                if progress.step == 5:
                    signal.raise_signal(signal.SIGINT)

        trainer = trainer_of(motif, "erm", Checkpoints(tmp_path), accumulate=3, checkpoint_minutes=99)
        trainer.callbacks.append(Stop())
        with pytest.raises(KeyboardInterrupt):
            trainer.fit()
        assert Checkpoints(tmp_path).meta()["at"]["step"] == 7
        assert_same(
            outcome(trained(motif, "erm", Checkpoints(tmp_path), accumulate=3)),
            outcome(trained(motif, "erm", accumulate=3)),
        )


class TestOptimiser:
    def test_the_rate_follows_the_schedule_in_every_stage_and_group(self):
        trainer = trainer_of(molecules(), "gala", lr=0.01, schedule="linear", warmup=0.3)
        seen = []

        class Rates(Callback):
            def on_step(self, progress, losses):
                rate = trainer.optimizers[progress.stage].param_groups[0]["lr"]
                seen.append((progress.stage, progress.step - 1, progress.total_steps, rate))

        trainer.callbacks.append(Rates())
        trainer.fit()
        assert {stage for stage, *_ in seen} == {"assistant", "main"}
        for stage, step, total, rate in seen:
            factor = learning_rate_factor(Progress(step=step, total_steps=total, stage=stage), trainer.config)
            assert rate == 0.01 * factor

    def test_factors_of_groups_multiply(self, motif):
        trainer = trained(motif, "aia", epochs=1, lr=0.01, schedule="linear")
        rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in trainer.optimizers.items()}
        assert rates == {"stable": pytest.approx(0.01 / 4), "adversary": pytest.approx(5 * 0.01 / 4)}

    def test_adamw_takes_weight_decay_off_the_weights(self, motif):
        """Against Adam followed by the shrinking of Loshchilov & Hutter (2019)."""
        trainer = trainer_of(motif, optimizer="adamw", weight_decay=0.3, lr=0.01, max_steps=1)
        before = weights(trainer)
        trainer.fit()
        plain = trained(motif, lr=0.01, max_steps=1)
        for name, _ in trainer.method.named_parameters():
            moved = weights(plain)[name] - 0.01 * 0.3 * before[name]
            torch.testing.assert_close(weights(trainer)[name], moved, atol=1e-6, rtol=0)

    def test_l2_with_adam_is_something_else(self, motif):
        found = [weights(trained(motif, optimizer=o, weight_decay=0.1, epochs=1)) for o in ("adam", "adamw")]
        assert not same(*found)


class TestAccumulation:
    def test_weights_move_with_whole_steps_and_with_the_rest_of_an_epoch(self, motif):
        trainer = trainer_of(motif, accumulate=3, max_steps=10)
        spy = Spy(trainer)
        trainer.fit()
        heads = [state["head.weight"] for state in spy.weights]
        moved = [step + 2 for step, pair in enumerate(pairwise(heads)) if not torch.equal(*pair)]
        assert moved == [3, 4, 7, 8, 10], "epochs of four batches"
        assert trainer.at.updates == 5

    def test_equal_parts_of_a_batch_are_the_batch(self):
        """Without normalisation over a batch: three batches of 20 graphs are one of 60."""
        data = small_benchmark()
        found = []
        for size, accumulate in ((60, 1), (20, 3)):
            trainer = trainer_of(data, batch_size=size, accumulate=accumulate, epochs=1, lr=0.01)
            trainer.method.double()
            trainer.loader = replace(trainer.loader, store=replace(data.store, x=data.store.x.double()))
            trainer.method.train = lambda mode=True, method=trainer.method: type(method).train(method, False)
            trainer.evaluate = lambda parts: {"id_val": 0.5, "ood_val": 0.5}
            trainer.fit()
            found.append(weights(trainer))
        for name, tensor in found[0].items():
            torch.testing.assert_close(tensor, found[1][name], atol=1e-9, rtol=0)


class TestAverage:
    def test_what_is_scored_kept_and_returned(self, motif):
        """Against averages taken from outside, of a training that is the same with and without an average."""
        trainer, plain = trainer_of(motif, average=0.8), trainer_of(motif)
        scored = []
        score = trainer.evaluate
        trainer.evaluate = lambda parts: scored.append(weights(trainer)) or score(parts)
        spies = Spy(trainer), Spy(plain)
        start = Average(plain.method, 0.8)
        trainer.fit()
        plain.fit()
        assert all(map(same, *(spy.weights for spy in spies))), "the weights of training go their own way"
        for step, state in enumerate(spies[1].weights, 1):
            plain.method.load_state_dict(state)
            start.update(plain.method, step)
            if step % 4 == 0:
                start.write_to(plain.method)
                renormalise(plain.method, plain.loader.epoch(derive_seed(0, "renormalise"), 0))
                assert same(scored[step // 4 - 1], weights(plain))
        assert same(weights(trainer), scored[-1])
        for rule in ("id_val", "ood_val"):
            assert same(trainer.best[rule], scored[trainer.best_epoch(rule) - 1])

    def test_it_begins_with_the_main_stage(self):
        trainer = trained(molecules(), "gala", average=0.9999)
        for name, parameter in trainer.method.named_parameters():
            if name.startswith("assistant"):
                assert torch.equal(trainer.average.values[name], parameter)

    def test_the_result_has_it(self, motif, tmp_path):
        sections = {"train": {"epochs": 2, "batch_size": 30, "average": 0.9}, "encoder": {"width": 8, "layers": 2}}
        run = mphil.train(motif, "erm", out=tmp_path / "run", **sections)
        assert {p: s for p, s in run.result["last"]["scores"].items() if p != "train"} == run.history[-1]["scores"]
        for rule, chosen in run.result["selections"].items():
            epoch = run.history[chosen["epoch"] - 1]
            assert {part: score for part, score in chosen["scores"].items() if part != "train"} == epoch["scores"], rule
        saved = Checkpoints(tmp_path / "run" / "checkpoint").load("best-ood_val")
        assert same(saved, run.method.state_dict())


class TestRenormalise:
    def test_training_keeps_its_statistics(self, motif):
        trainer, plain = trainer_of(motif, renormalise=True), trainer_of(motif)
        spies = Spy(trainer), Spy(plain)
        trainer.fit()
        plain.fit()
        assert all(map(same, *(spy.weights for spy in spies)))
        changed = {name for name, tensor in weights(trainer).items() if not torch.equal(tensor, weights(plain)[name])}
        assert changed
        assert all("running" in name or "tracked" in name for name in changed)


class TestTransforms:
    def test_statistics_are_of_graphs_as_in_training(self, motif):
        """Weights that were trained beside distractors are no good with the statistics of graphs alone."""
        running = {}
        for share in (0.0, 1.0):
            trainer = trainer_of(motif, epochs=1, renormalise=True, distract=share)
            seen = []
            predict = trainer.method.predict
            trainer.method.predict = lambda batch, seen=seen, predict=predict: seen.append(batch) or predict(batch)
            with trainer._settled():
                running[share] = [int(batch.ptr[-1]) for batch in seen]
        assert running[1.0] == [2 * nodes for nodes in running[0.0]]

    @pytest.mark.parametrize(
        ("setting", "value", "stream", "transform"),
        [
            ("edge_drop", 0.6, "edges", drop_edges),
            ("distract", 0.7, "distractors", add_distractors),
            ("mix_features", 0.7, "features", mix_features),
        ],
    )
    def test_training_batches_only_and_nothing_else_shifts(self, motif, setting, value, stream, transform):
        data = small_benchmark() if setting == "mix_features" else motif
        seen = {}
        for given in (0.0, value):
            trainer = trainer_of(data, epochs=1, **{setting: given})
            steps, predict = trainer.method.steps, trainer.method.predict
            record = seen[given] = []
            trainer.method.steps = lambda batch, progress, record=record, steps=steps: (
                record.append((batch, float(torch.rand(())))) or steps(batch, progress)
            )
            trainer.method.predict = lambda batch, predict=predict, method=trainer.method: (
                assert_whole(batch, data, method) or predict(batch)
            )
            trainer.fit()
        for step, ((whole, drawn), (changed, drawn_too)) in enumerate(zip(seen[0.0], seen[value], strict=True)):
            generator = torch.Generator().manual_seed(derive_seed(0, stream, step))
            wanted = transform(whole, value, generator)
            assert torch.equal(changed.edge_index, wanted.edge_index)
            assert torch.equal(changed.x, wanted.x)
            assert changed.num_edges != whole.num_edges or not torch.equal(changed.x, whole.x)
            assert torch.equal(changed.index, whole.index)
            assert drawn == drawn_too


def assert_whole(batch, data, method):
    """Predictions outside of training see the graphs as they are."""
    if not method.training:
        whole = data.store.batch(batch.index)
        assert torch.equal(batch.edge_index, whole.edge_index)
        assert torch.equal(batch.x, whole.x)


class TestWindow:
    def scored(self, motif, monkeypatch, scores, **config):
        trainer = trainer_of(motif, epochs=len(scores), batch_size=120, **config)
        replies = iter(scores)
        monkeypatch.setattr(trainer, "evaluate", lambda parts: dict.fromkeys(("id_val", "ood_val"), next(replies)))
        spy = Spy(trainer)
        trainer.fit()
        return trainer, spy

    def test_the_last_epoch_of_the_best_window_is_kept(self, motif, monkeypatch):
        trainer, spy = self.scored(motif, monkeypatch, [0.9, 0.1, 0.6, 0.7, 0.6, 0.1], window=2)
        assert trainer.best_epoch("ood_val") == 4
        assert same(trainer.best["ood_val"], spy.weights[3])

    def test_early_stopping_watches_the_mean(self, motif, monkeypatch):
        scores = [0.1, 0.9, 0.2, 0.7, 0.8, 0.1, 0.1, 0.1, 0.1]
        assert len(self.scored(motif, monkeypatch, scores, patience=2)[0].at.history) == 4
        assert len(self.scored(motif, monkeypatch, scores, patience=2, window=2)[0].at.history) == 7

    def test_not_stopped_before_the_minimum(self, motif, monkeypatch):
        scores = [0.9, *[0.1] * 7]
        trainer, _ = self.scored(motif, monkeypatch, scores, patience=2, min_epochs=5)
        assert len(trainer.at.history) == 7
        assert trainer.best_epoch("ood_val") == 5
        trainer, _ = self.scored(motif, monkeypatch, scores, max_minutes=1e-9, min_epochs=4)
        assert len(trainer.at.history) == 4
        trainer, _ = self.scored(motif, monkeypatch, scores, max_minutes=1e-9, window=3)
        assert len(trainer.at.history) == 3


class TestCallbacks:
    SECTIONS = {"train": {"epochs": 2, "batch_size": 30}, "encoder": {"width": 8, "layers": 2}}  # noqa: RUF012

    def test_those_of_the_user_are_told(self, motif):
        told = []

        class Mine(mphil.Callback):
            def on_step(self, progress, losses):
                told.append((progress.step, *losses))

            def on_epoch(self, history, progress):
                told.append(history[-1]["epoch"])

        mphil.train(motif, "erm", callbacks=[Mine()], **self.SECTIONS)
        steps = [(n, "classification") for n in range(1, 9)]
        assert told == [*steps[:4], 1, *steps[4:], 2]

    def test_an_exception_is_passed_on_and_the_run_can_be_resumed(self, motif, tmp_path):
        with pytest.raises(Cut):
            mphil.train(motif, "erm", out=tmp_path / "cut", callbacks=[Cutter(6)], **self.SECTIONS)
        assert Checkpoints(tmp_path / "cut" / "checkpoint").meta()["at"]["step"] == 4
        resumed = mphil.train(motif, "erm", out=tmp_path / "cut", resume=True, **self.SECTIONS)
        straight = mphil.train(motif, "erm", **self.SECTIONS)
        assert resumed.result["selections"] == straight.result["selections"]
        assert resumed.result["last5"] == straight.result["last5"]
        assert resumed.result["cpu_seconds"] > 0

    @pytest.mark.parametrize("wrong", [print, Cutter])
    def test_something_else_is_refused(self, motif, wrong):
        with pytest.raises(mphil.errors.UsageError, match=r"callbacks\[0\] is .*mphil.Callback"):
            mphil.train(motif, "erm", callbacks=[wrong], **self.SECTIONS)
