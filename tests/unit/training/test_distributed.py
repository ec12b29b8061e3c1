"""Two real processes that share every batch do what one would do with the whole of it."""

import os
import signal
import time
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.together import double_benchmark, outcome, together, train, trainer_of

from mphil.config import RunConfig
from mphil.errors import UsageError
from mphil.methods.base import METHODS
from mphil.nn import world
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.losses import masked_mean
from mphil.training import distributed
from mphil.training import trainer as trainer_module
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints
from mphil.training.distributed import check_parallel, joined, local_device
from mphil.training.run import execute
from mphil.training.trainer import Trainer

RELEASE = dict(METHODS["mphil"].presets["release"]) | {"projection": 5}
REPAIRED = dict(METHODS["mphil"].presets["repaired"])
CODES = {"nodes": "categorical", "edges": "categorical"}
CASES = {
    "erm": ("erm", {}, "multiclass", {}, {"readout": "sum"}),
    "erm, missing labels": ("erm", {}, "multitask", {"missing": 0.6}, {}),
    "erm, virtual node": ("erm", {}, "binary", CODES, {"kind": "vgin", "layers": 3}),
    "erm, bare structure": ("erm", {}, "multiclass", {"nodes": "constant"}, {}),
    "mphil": ("mphil", {}, "multiclass", {}, {}),
    "mphil, missing labels": ("mphil", {"matching": 0.2}, "multitask", {"missing": 0.6} | CODES, {}),
    "mphil, release": ("mphil", RELEASE, "binary", {"missing": 0.3, "edges": "float"}, {}),
    "mphil, hard": ("mphil", {"update": "ema-hard", "differentiable_update": False}, "binary", {}, {"readout": "max"}),
    "mphil, gradient": ("mphil", {"update": "gradient"}, "multiclass", {}, {}),
    "mphil, repaired": ("mphil", REPAIRED, "multiclass", {}, {}),
    "mphil, repaired, missing labels": ("mphil", REPAIRED, "multitask", {"missing": 0.6} | CODES, {}),
    "mphil+": ("mphil+", {}, "binary", {"missing": 0.3}, {}),
    "mphil, epoch mean": ("mphil", {"update": "epoch-mean"}, "multitask", {"missing": 0.3}, {}),
}


RECIPE = {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "cosine", "warmup": 0.2, "average": 0.9, "window": 2}
RECIPES = {
    "accumulated, averaged": RECIPE | {"accumulate": 3},
    "normalised anew": {"renormalise": True},
    "edges dropped": RECIPE | {"edge_drop": 0.6, "distract": 0.5},
}


def assert_same_bits(one, other):
    assert one["losses"] == other["losses"]
    assert one["history"] == other["history"]
    assert one["best"].keys() == other["best"].keys()
    for mine, theirs in ((one["state"], other["state"]), *((one["best"][r], other["best"][r]) for r in one["best"])):
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def train_all():
    return {case: train(*arguments) for case, arguments in CASES.items()}


def train_recipes():
    return {name: train(*CASES["mphil"], **recipe) for name, recipe in RECIPES.items()}


def statistics_of_descriptors():
    """What a network learns of the descriptors of all training graphs before its first step."""
    draw = torch.Generator().manual_seed(0)
    trainer = trainer_of("erm", {"descriptors": True}, "binary", {}, {})
    counts = (torch.rand(61, 2048, generator=draw) < 0.05).byte()
    extras = {"counts": counts, "descriptors": torch.rand(61, 109, generator=draw)}
    store = replace(trainer.benchmark.store, extras=extras)
    trainer = Trainer(trainer.method, replace(trainer.benchmark, store=store), trainer.config, 0)
    trainer.method.prepare(trainer.parts)
    return dict(trainer.method.descriptors.named_buffers())


def test_descriptors_are_spread_as_in_one_process():
    alone, *ranks = *together(statistics_of_descriptors, ranks=1), *together(statistics_of_descriptors)
    assert 0 < alone["common"].sum() < len(alone["common"])
    for found in ranks:
        assert all(torch.equal(found[name], value) for name, value in alone.items())


@pytest.fixture(scope="module")
def runs():
    """All cases by one process, and by each of two."""
    return [*together(train_all, ranks=1), *together(train_all)]


class TestOneOrTwo:
    @pytest.mark.slow
    @pytest.mark.parametrize("case", CASES)
    def test_the_same_training(self, runs, case):
        alone, first, second = (run[case] for run in runs)
        assert_same_bits(first, second)
        assert all(torch.equal(*pair) for pair in zip(first["prototypes"], second["prototypes"], strict=True))
        assert len(first["losses"]) == 8
        for here, there in zip(first["losses"], alone["losses"], strict=True):
            assert here == pytest.approx(there, abs=1e-8)
        for name, tensor in alone["state"].items():
            torch.testing.assert_close(first["state"][name], tensor, atol=1e-6, rtol=0)
        for here, there in zip(first["history"], alone["history"], strict=True):
            assert here["scores"] == pytest.approx(there["scores"])

    def test_recipes(self):
        (alone,), (first, second) = together(train_recipes, ranks=1), together(train_recipes)
        for recipe in RECIPES:
            assert_same_bits(first[recipe], second[recipe])
            if recipe == "edges dropped":  # each process draws for its own graphs
                continue
            for name, tensor in alone[recipe]["state"].items():
                torch.testing.assert_close(first[recipe]["state"][name], tensor, atol=1e-6, rtol=0)
            for rule, best in alone[recipe]["best"].items():
                for name, tensor in best.items():
                    torch.testing.assert_close(first[recipe]["best"][rule][name], tensor, atol=1e-6, rtol=0)
        losses = [run["edges dropped"]["losses"][0] for run in (alone, first)]
        assert losses[0] != pytest.approx(losses[1], abs=1e-8)

    @pytest.mark.slow
    def test_prototypes_move(self, runs):
        prototypes = runs[1]["mphil"]["prototypes"]
        assert len(prototypes) == 8
        assert all(not torch.equal(*pair) for pair in pairwise(prototypes))

    @pytest.mark.slow
    def test_three(self, runs):
        ranks = together(train, *CASES["mphil"], ranks=3)
        assert_same_bits(ranks[0], ranks[2])
        for name, tensor in runs[0]["mphil"]["state"].items():
            torch.testing.assert_close(ranks[0]["state"][name], tensor, atol=1e-6, rtol=0)

    def test_dropout_is_not_the_same_for_different_graphs(self):
        draws = together(dropped)
        assert not torch.equal(*draws)


def dropped():
    """What dropout draws in the first step."""
    trainer = trainer_of("erm", {}, "multiclass", {}, {"dropout": 0.5}, epochs=1, max_steps=1)
    drawn = []
    draw = trainer.method.encoder.dropout.draw
    trainer.method.encoder.dropout.draw = lambda *size: drawn.append(draw(*size)) or drawn[-1]
    trainer.fit()
    return drawn[0][:10]


class Signal(Callback):
    """On one rank, asks this process to stop after a step."""

    def __init__(self, rank, step):
        self.rank, self.step = rank, step

    def on_step(self, progress, losses):
        if (world.rank(), progress.step) == (self.rank, self.step):
            os.kill(os.getpid(), signal.SIGINT)


def train_until(folder, rank, step):
    """Returns the step at which an interrupt on one rank ends the training of this one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Only rank 0 sees the files of the run.
    trainer = trainer_of(*CASES["mphil"], folder if world.rank() == 0 else folder / "elsewhere", checkpoint_minutes=99)
    trainer.callbacks.append(Signal(rank, step))
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    return trainer.at.step


def go_on(folder):
    trainer = trainer_of(*CASES["mphil"], folder if world.rank() == 0 else folder / "elsewhere")
    before = trainer.at.step
    trainer.fit()
    return before, outcome(trainer)


class TestInterrupt:
    @pytest.mark.slow
    @pytest.mark.parametrize(("rank", "step"), [(0, 3), (1, 4)])
    def test_on_one_rank_ends_all_and_the_run_goes_on_with_the_same_bits(self, runs, tmp_path, rank, step):
        assert together(train_until, tmp_path, rank, step) == [step, step]
        assert Checkpoints(tmp_path).meta()["at"]["step"] == step
        (before, first), (_, second) = together(go_on, tmp_path)
        assert before == step
        assert not (tmp_path / "elsewhere").exists()
        uncut = runs[1]["mphil"]
        for run in (first, second):
            assert run["losses"] == uncut["losses"][step:]
            assert all(torch.equal(run["state"][name], tensor) for name, tensor in uncut["state"].items())
            assert run["best"].keys() == uncut["best"].keys()


def stop_by_the_clock():
    if world.rank() == 1:  # an hour a look
        trainer_module.time = type("Clock", (), {"monotonic": staticmethod(lambda: time.monotonic() * 3600)})
    return train(*CASES["erm"], epochs=3, max_minutes=30)


def lose_rank_0():
    trainer = trainer_of(*CASES["erm"])
    trainer.callbacks.append(Fall())
    trainer.fit()


class Fall(Callback):
    def on_step(self, progress, losses):
        if world.rank() == 0 and progress.step == 3:
            raise OSError("no space left")


class TestAgreement:
    def test_there_is_one_clock(self):
        first, second = together(stop_by_the_clock)
        assert len(first["history"]) == 3
        assert first["history"] == second["history"]

    def test_who_loses_a_companion_says_so(self):
        first, second = together(lose_rank_0)
        assert str(first) == "no space left"
        assert isinstance(second, world.Alone)
        assert str(second) == "another process of this training has ended; its own message says why"

    def test_a_loss_that_is_infinite_on_one_rank_stops_both(self):
        first, second = together(diverge)
        assert "the loss is not a finite number at epoch 1, step 2" in str(first)
        assert str(second) == str(first)


def diverge():
    trainer = trainer_of(*CASES["erm"])
    loss = trainer.method.loss

    def broken(batch, progress):
        losses = loss(batch, progress)
        if (world.rank(), progress.step) == (1, 1):
            losses["classification"] = losses["classification"] * torch.inf
        return losses

    trainer.method.loss = broken
    trainer.fit()


def run_in(folder, method):
    """A whole run, with its folder and its result."""
    data = double_benchmark("multiclass", environments=2)
    torch.set_default_dtype(torch.float64)
    encoder = {"width": 6, "layers": 2, "dropout": 0, "node": data.store.node_features}
    config = RunConfig(
        benchmark={"name": "made"}, method={"name": method}, encoder=encoder, train={"epochs": 2, "batch_size": 12}
    )
    run = execute(config, data, folder if world.rank() == 0 else folder / "elsewhere")
    return run.result, sorted(path.name for path in folder.iterdir())


class TestRun:
    def test_one_folder_and_one_result(self, tmp_path):
        (first, files), (second, _) = together(run_in, tmp_path / "run", "mphil")
        assert files == [".lock", "checkpoint", "config.json", "log.csv", "log.jsonl", "result.json"]
        assert first["machine"]["processes"] == 2
        differing = {key for key in first if first[key] != second[key]}
        assert differing <= {"seconds", "cpu_seconds"}

    def test_a_folder_in_the_way_is_refused_by_who_sees_it(self, tmp_path):
        (tmp_path / "letter.txt").touch()
        first, second = together(run_in, tmp_path, "erm")
        assert "is not empty" in str(first)
        assert isinstance(second, world.Alone)

    def test_methods_that_see_a_batch_as_a_whole_are_refused(self, tmp_path):
        for error in together(run_in, tmp_path, "vrex"):
            assert isinstance(error, UsageError)
            assert str(error).startswith("vrex cannot be trained by 2 processes: its loss looks at a batch as a whole")
            assert str(error).endswith("or train one of erm, mphil, mphil+")
        assert list(tmp_path.iterdir()) == []

    def test_each_method_says_for_itself_what_it_can_do(self):
        assert [name for name in METHODS if METHODS[name].parallel] == ["erm", "mphil", "mphil+"]
        check_parallel(METHODS["vrex"])  # alone, everything can be trained


def sums():
    """Values and gradients of what ranks know together."""
    x = torch.tensor([1.0, 2.0]).mul(world.rank() + 1).requires_grad_()
    together = world.total(x)
    ((world.rank() + 1) * together.square()).sum().backward()
    alike = torch.tensor(5.0, requires_grad=True)
    world.share(alike).backward()
    rows = torch.arange(3.0 * world.rank())  # none on rank 0
    return together.tolist(), x.grad.tolist(), alike.grad.item(), world.mean(rows).item(), together.dtype


class TestWorld:
    def test_sums(self):
        first, second = together(sums)
        # sum = (3, 6); d/dx of (1 + 2) sum^2 = 6 sum
        assert first[:3] == ([3.0, 6.0], [18.0, 36.0], 0.5)
        assert second[:3] == first[:3]
        assert (first[3], second[3]) == (0.0, 1.0)

    def test_alone_nothing_is_changed(self):
        x = torch.rand(3, requires_grad=True)
        assert world.total(x) is x
        assert world.share(x) is x
        assert (world.size(), world.rank(), world.anywhere(True), world.anywhere(False)) == (1, 0, True, False)
        assert torch.equal(world.mean(x), x.mean())
        assert world.from_first(lambda: {"any": object}) == {"any": object}

    def test_gradients_of_gradients(self):
        for second in together(curvature):
            assert second == pytest.approx([12.0, 12.0])

    @pytest.mark.parametrize("rows", [(4, 3), (7, 0), (0, 7), (1, 1), (1, 0)])
    @pytest.mark.parametrize("counted", [False, True])
    def test_normalisation(self, rows, counted):
        """Against the layer of one process that sees all rows."""
        draw = torch.Generator().manual_seed(0)
        x, grad = (torch.randn(sum(rows), 3, dtype=torch.float64, generator=draw) * 5 + 1e3 for _ in range(2))
        counts = torch.arange(1, sum(rows) + 1) if counted else None
        expected = normalised(x, grad, counts, (sum(rows), 0))
        found = together(normalised, x, grad, counts, rows)
        for name in ("mean", "variance", "tracked"):
            torch.testing.assert_close(found[0][name], expected[name], atol=1e-9, rtol=1e-9)
            assert torch.equal(found[0][name], found[1][name])
        for name in ("out", "grad"):
            joint = torch.cat([found[0][name], found[1][name]])
            torch.testing.assert_close(joint, expected[name], atol=1e-8, rtol=1e-8)
        for name in ("weight", "bias"):
            torch.testing.assert_close(found[0][name] + found[1][name], expected[name], atol=1e-8, rtol=1e-8)

    def test_masked_mean_of_a_rank_without_labels(self):
        assert together(masked) == [2.0, 0.0]


def curvature():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    cubes = world.total(x).pow(3).sum() / 2
    (slope,) = torch.autograd.grad(cubes, x, create_graph=True)
    slope.sum().backward()
    return [value / total for value, total in zip(x.grad.tolist(), (2.0, 4.0), strict=True)]


def normalised(x, grad, counts, rows):
    """The rows of this rank through a layer, forward and backward."""
    mine = slice(0, rows[0]) if world.rank() == 0 else slice(rows[0], None)
    norm = BatchNorm(3).double()
    torch.nn.init.constant_(norm.weight, 2.0)
    x = x[mine].clone().requires_grad_()
    out = norm(x, None if counts is None else counts[mine])
    out.backward(grad[mine])
    return {
        "out": out.detach(),
        "grad": x.grad,
        "weight": norm.weight.grad,
        "bias": norm.bias.grad,
        "mean": norm.running_mean,
        "variance": norm.running_var,
        "tracked": norm.num_batches_tracked,
    }


def masked():
    mask = torch.tensor([True, world.rank() == 0]) & (world.rank() == 0)
    return masked_mean(torch.tensor([1.0, 3.0]), mask).item()


class TestStart:
    def test_without_torchrun_nothing_is_joined(self, monkeypatch):
        monkeypatch.setenv("WORLD_SIZE", "2")
        with joined("cpu"):
            assert world.size() == 1

    def test_a_card_for_each(self, monkeypatch):
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert [local_device(device) for device in ("cpu", "cuda", "cuda:3")] == ["cpu", "cuda:1", "cuda:3"]
        monkeypatch.delenv("LOCAL_RANK")
        assert distributed.local_device("cuda") == "cuda"
