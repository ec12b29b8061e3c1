"""A cluster of two nodes on this machine, one of which is killed during the sweep: no run lost, none counted twice."""

import json
import signal
import sys
import tomllib
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Thread

import pytest

from mphil.errors import UsageError
from mphil.lab.engine import RayEngine
from mphil.lab.records import RecordFile, read_folder
from mphil.lab.sweep import sweep
from tests.cluster import ONE_PROCESSOR, local_cluster
from tests.command import call, wait_until
from tests.unit.lab.made import TINY, cells

pytestmark = pytest.mark.promise("sweeps")

STAND_IN = (sys.executable, str(Path(__file__).parents[1] / "unit" / "lab" / "stand_in.py"))
CELL = cells()[0]


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as made:
        yield made


def asked(*rows):
    return [replace(CELL, row=row, seed=number) for number, row in enumerate(rows)]


def engine(cluster, folder, jobs=None):
    return RayEngine(folder, jobs, cluster.address, STAND_IN)


def is_gone(pid):
    """Whether a process has ended, even if nobody has taken note of it."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


@pytest.mark.slow
def test_one_of_two_nodes_is_killed_during_the_sweep(cluster, tmp_path, figure):
    node = cluster.add_node(**ONE_PROCESSOR)
    wanted, runs = asked("waits", "waits", "good", "good", "good"), tmp_path / "runs"
    attempts = [runs / cell.id / "attempts" for cell in wanted[:2]]

    def kill_one_when_both_are_at_work():
        try:
            wait_until(lambda: all(path.exists() for path in attempts))
            cluster.remove_node(node, allow_graceful=False)
            # A worker may outlive its node by a moment; it must not finish its run in that time.
            wait_until(lambda: any(is_gone(path.with_name("process").read_text()) for path in attempts))
        finally:
            (runs / "go").touch()

    killer = Thread(target=kill_one_when_both_are_at_work)
    killer.start()
    tally = sweep(wanted, engine(cluster, runs), tmp_path, keep=True)
    killer.join()
    assert (tally.run, tally.failed, tally.busy) == (5, [], [])
    assert sorted(len(path.read_text()) for path in attempts) == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / "tiny.jsonl").read_text().splitlines()]
    assert sorted(line["cell"] for line in lines) == sorted(cell.id for cell in wanted)
    again = sweep(wanted, engine(cluster, runs), tmp_path)
    assert (again.run, again.before) == (0, 5)
    assert [path.name for path in runs.iterdir()] == ["go"]
    figure(f"Ray: one of two nodes lost, {len(lines)} runs, each recorded once")


@pytest.mark.slow
def test_every_end_is_told_and_closing_stops_what_is_under_way(cluster, tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    wanted = asked("good", "fails", "dies", "busy", "nowhere", "hangs")
    homes = {cell.row: tmp_path / cell.id for cell in wanted}
    homes["nowhere"].touch()  # a file where the folder should be
    mine = engine(cluster, tmp_path, jobs=len(wanted))
    with closing(mine.run(wanted)) as running:
        found = {outcome.cell.row: outcome for outcome in islice(running, 5)}
        wait_until((homes["hangs"] / "started").exists)
        mine.clear(found["good"].cell)
        assert not homes["good"].exists()
        mine._machines[found["fails"].cell.id] = "0" * 56  # another machine, which is gone by now
        mine.clear(found["fails"].cell)
        wait_until(lambda: not homes["fails"].exists())
    assert (homes["hangs"] / "stopped").exists()
    states = {row: outcome.state for row, outcome in found.items()}
    assert states == {"good": "run", "fails": "failed", "dies": "failed", "busy": "busy", "nowhere": "failed"}
    assert found["fails"].record["error"] == "on purpose"
    assert found["dies"].record["error"].endswith("exit code 9 and left no outcome: out of memory")
    assert "FileExistsError" in found["nowhere"].record["error"]
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.slow
def test_the_command(cluster, tmp_path):
    """The real thing once."""
    (tmp_path / "tiny.toml").write_text(TINY)
    places = ["--out", tmp_path / "results", "--runs", tmp_path / "runs", "--engine", "ray"]
    ended = call("lab", "run", tmp_path / "tiny.toml", *places, "--address", cluster.address, "--seeds", 1, "--dirty")
    assert ended.code == 0, ended
    (record,) = read_folder(tmp_path / "results")[0]
    assert (record["row"], record["seed"], record["machine"]["threads"]) == ("erm", 1, 1)
    assert list((tmp_path / "runs").iterdir()) == []


def test_nobody_at_the_address(tmp_path):
    nowhere = RayEngine(tmp_path, address="127.0.0.1:1", program=STAND_IN)
    with pytest.raises(UsageError, match="--address 127.0.0.1:1: no Ray cluster that can be used \\(.*refused"):
        list(nowhere.run(asked("good")))


def test_without_ray(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="install it with `pip install 'mphil\\[ray\\]'`"):
        RayEngine(tmp_path)


def test_options_that_do_not_fit(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    ended = call("lab", "run", tmp_path / "tiny.toml", "--out", tmp_path, "--dirty", "--address", "127.0.0.1:1")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "error: --address 127.0.0.1:1 goes with --engine ray")
    ended = call("lab", "run", tmp_path / "tiny.toml", "--out", tmp_path, "--dirty", "--engine", "rya")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "error: unknown engine 'rya'; did you mean ray?")


@pytest.mark.slow
def test_tuning_on_the_cluster(cluster, tmp_path):
    small = ["benchmark.graphs=200", "encoder.width=8", "encoder.layers=2", "train.epochs=1", "train.batch_size=60"]
    sets = [word for text in small for word in ("--set", text)]
    places = ["--out", tmp_path / "out", "--runs", tmp_path / "runs", "--engine", "ray", "--address", cluster.address]
    search = [
        "lab",
        "tune",
        "erm",
        "good-motif-basis",
        "--trials",
        2,
        "--also",
        "train.lr=[0.001,0.01]",
        *sets,
        "--dirty",
    ]
    ended = call(*search, *places)
    assert ended.code == 0, ended
    trials, problems = RecordFile(tmp_path / "out" / "erm-good-motif-basis.jsonl").read()
    assert problems == []
    assert sorted(trial["config"]["train"]["lr"] for trial in trials) == [0.001, 0.01]
    assert {trial["machine"]["threads"] for trial in trials} == {1}
    best = max(trials, key=lambda trial: trial["selections"]["ood_val"]["scores"]["ood_val"])
    settings = tomllib.loads((tmp_path / "out" / "erm-good-motif-basis.toml").read_text())
    assert settings["train"]["lr"] == best["config"]["train"]["lr"]
