"""No training lost: killed anywhere, it goes on and ends with the same weights, scores and best checkpoint."""

import json
import multiprocessing
import shutil
import signal

import pytest
import sklearn.ensemble
import sklearn.linear_model
import torch._dynamo

from mphil.benchmarks.catalogue import benchmark
from mphil.methods import METHODS
from mphil.model.bundle import read_bundle
from mphil.training.checkpoint import Checkpoints
from mphil.training.run import train
from tests.command import call
from tests.products import binary_table
from tests.strikes import Strikes, points_of, spread

pytestmark = pytest.mark.promise("no training lost")

# Each of the processes below would take seconds to import them.
PRELOADED = (sklearn.ensemble, sklearn.linear_model, torch._dynamo)

QUICK = ("lirs",)
ENCODER = {"width": 8, "layers": 2}
TRAIN = {"epochs": 2, "batch_size": 20, "checkpoint_minutes": 0}
RECIPE = {"schedule": "cosine", "warmup": 0.2, "average": 0.9, "optimizer": "adamw"}


def training(method, folder):
    data = benchmark("decoy-scaffold", graphs=80)
    return lambda out: train(data, method, out=out, resume=True, train=TRAIN | RECIPE, encoder=ENCODER)


def committee(_, folder):
    """Both networks and the forest, by the command."""
    table = binary_table(folder / "assay.csv")
    pairs = [f"encoder.{key}={value}" for key, value in ENCODER.items()]
    pairs += [f"train.{key}={value}" for key, value in (TRAIN | RECIPE).items()]
    words = [word for pair in pairs for word in ("--set", pair)]

    def work(out):
        assert call("train", table, "--members", "2", *words, "--out", out).code == 0

    return work


def ended(work, out, points=None, at=None):
    """The exit code of a process that trains: negative, the signal that ended it."""
    process = multiprocessing.get_context("fork").Process(target=_train, args=(work, out, points, at))
    process.start()
    process.join()
    return process.exitcode


def _train(work, out, points, at):
    Strikes(points, at).install()
    work(out)


def found(folder):
    """What a training leaves, without the time it took: result, tensors of every group, or the bundle."""
    if (folder / "bundle").exists():
        bundle = read_bundle(folder / "bundle")
        networks = {f"{name}.{key}": value for name, state in bundle.networks.items() for key, value in state.items()}
        return (bundle.config, bundle.trust), bundle.state | networks
    result = json.loads((folder / "result.json").read_text())
    del result["seconds"], result["cpu_seconds"]
    for epoch in result.get("earlier_stages", ()):
        del epoch["seconds"]
    checkpoints = Checkpoints(folder / "checkpoint")
    tensors = {f"{group}.{name}": t for group in checkpoints.groups() for name, t in checkpoints.load(group).items()}
    return result, tensors


def assert_survives(work, kills, turn, folder):
    """Kill a training at so many points, one after the other; returns what was going on at each of them."""
    whole, cut, passed = folder / "whole" / "run", folder / "cut" / "run", folder / "points"
    assert ended(work, whole, points=passed) == 0
    chosen = spread(points_of(passed), kills, turn)
    for point in chosen:
        if ended(work, cut, at=point) == 0:  # the second of its kind at a step, of which the first was saved before
            assert_same(cut, whole, chosen)
            shutil.rmtree(cut)
            assert ended(work, cut, at=point) == -signal.SIGKILL, point
    assert ended(work, cut) == 0
    assert_same(cut, whole, chosen)
    return [point.what for point in chosen]


def assert_same(cut, whole, chosen):
    (result, tensors), (expected, wanted) = found(cut), found(whole)
    assert result == expected
    assert tensors.keys() == wanted.keys()
    assert all(torch.equal(tensors[name], wanted[name]) for name in wanted), chosen


def test_killed_at_every_kind_of_point(tmp_path, amount, figure):
    kills = amount("kills of trainings")
    all_of_them = kills > 20
    methods = sorted(METHODS) if all_of_them else QUICK
    names, at = [*methods, *(["the committee"] if all_of_them else [])], []
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        work = (training if name in METHODS else committee)(name, folder)
        share = kills * (number + 1) // len(names) - kills * number // len(names)
        at += assert_survives(work, share, len(at), folder)
    assert len(at) == kills
    of = f"{len(methods)} methods and the committee" if all_of_them else ", ".join(methods)
    figure(f"{kills} SIGKILLs of {of} at {len(set(at))} kinds of points, all ended with the same bits")
