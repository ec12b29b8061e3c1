"""No training lost: killed anywhere, it goes on and ends with the same weights, scores and best checkpoint."""

import json
import signal

import pytest
import torch

from mphil.methods import METHODS
from mphil.model.bundle import read_bundle
from mphil.training.checkpoint import Checkpoints
from tests.products import binary_table
from tests.strikes import points_of, spread

pytestmark = pytest.mark.promise("no training lost")

QUICK = ("mphil", "lirs")
SMALL = ("encoder.width=8", "encoder.layers=2", "train.batch_size=20", "train.epochs=2", "train.checkpoint_minutes=0")
RECIPE = ("train.schedule=cosine", "train.warmup=0.2", "train.average=0.9", "train.optimizer=adamw")


def sets(*pairs):
    return [text for pair in pairs for text in ("--set", pair)]


def training(method):
    return ["train", "--benchmark", "decoy-scaffold", "--method", method, *sets("benchmark.graphs=80", *SMALL, *RECIPE)]


def committee(table):
    return ["train", table, "--members", "2", "--no-baselines", *sets(*SMALL, *RECIPE)]


def found(folder):
    """What a training leaves, without the time it took: result, tensors of every group, or the bundle."""
    if (folder / "bundle").exists():
        bundle = read_bundle(folder / "bundle")
        networks = {f"{name}.{key}": value for name, state in bundle.networks.items() for key, value in state.items()}
        return (bundle.config, bundle.trust), bundle.state | networks
    result = json.loads((folder / "result.json").read_text())
    del result["seconds"], result["cpu_seconds"]
    checkpoints = Checkpoints(folder / "checkpoint")
    tensors = {f"{group}.{name}": t for group in checkpoints.groups() for name, t in checkpoints.load(group).items()}
    return result, tensors


def assert_survives(commands, command, kills, turn, folder):
    """Kill a training at so many points, one after the other; returns what was going on at each of them."""
    whole, cut, passed = folder / "whole" / "run", folder / "cut" / "run", folder / "points"
    ended = commands.start(*command, "--out", whole, points=passed).wait()
    assert ended.code == 0, ended.err
    chosen = spread(points_of(passed), kills, turn)
    again = ["--resume"] if "--benchmark" in command else []
    for point in chosen:
        more = again if (cut / "config.json").exists() else []
        ended = commands.start(*command, "--out", cut, *more, strike=point).wait()
        assert ended.code == -signal.SIGKILL, (point, ended)
    assert commands.start(*command, "--out", cut, *again).wait().code == 0
    (result, tensors), (expected, wanted) = found(cut), found(whole)
    assert result == expected
    assert tensors.keys() == wanted.keys()
    assert all(torch.equal(tensors[name], wanted[name]) for name in wanted), chosen
    return [point.what for point in chosen]


def test_killed_at_every_kind_of_point(commands, tmp_path, amount, figure):
    kills = amount("kills of trainings")
    methods = sorted(METHODS) if kills > 20 else QUICK
    names = [*methods, "the committee"] if kills > 20 else methods
    at = []
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = committee(binary_table(folder / "assay.csv")) if name == "the committee" else training(name)
        share = kills * (number + 1) // len(names) - kills * number // len(names)
        at += assert_survives(commands, command, share, len(at), folder)
    assert len(at) == kills
    of = f"{len(methods)} methods" + (" and the committee" if len(names) > len(methods) else "")
    figure(f"{kills} SIGKILLs of {of} at {len(set(at))} kinds of points, all ended with the same bits")
