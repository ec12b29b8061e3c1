"""A cluster of two nodes on this machine, one of which is killed during the sweep: no run lost, none counted twice."""

import json
import signal
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from mphil.errors import UsageError
from mphil.lab.ray_engine import RayEngine
from mphil.lab.records import read_folder
from mphil.lab.sweep import sweep
from tests.command import call, wait_until
from tests.unit.lab.made import TINY, cells

STAND_IN = (sys.executable, str(Path(__file__).parents[1] / "unit" / "lab" / "stand_in.py"))
CELL = cells()[0]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 1024**2, "node_ip_address": "127.0.0.1", "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster():
    """A node with one processor, on the loopback device only."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)  # or it would look beyond 127.0.0.1
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=NODE)
        yield made
        made.shutdown()


def asked(*rows):
    return [replace(CELL, row=row, seed=number) for number, row in enumerate(rows)]


def engine(cluster, folder, jobs=None):
    return RayEngine(folder, jobs, cluster.address, STAND_IN)


def test_one_of_two_nodes_is_killed_during_the_sweep(cluster, tmp_path):
    node = cluster.add_node(**NODE)
    wanted, runs = asked("waits", "waits", "good", "good", "good"), tmp_path / "runs"
    attempts = [runs / cell.id / "attempts" for cell in wanted[:2]]

    def kill_one_when_both_are_at_work():
        wait_until(lambda: all(path.exists() for path in attempts))
        cluster.remove_node(node, allow_graceful=False)
        # A worker may outlive its node by a moment; it must not finish its run in that time.
        wait_until(lambda: any(path.with_name("stopped").exists() for path in attempts))
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


def test_every_end_is_told_and_files_are_cleared(cluster, tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    wanted = asked("good", "fails", "dies", "busy")
    tally = sweep(wanted, engine(cluster, tmp_path / "runs"), tmp_path)
    assert (tally.run, [cell.row for cell in tally.busy]) == (1, ["busy"])
    assert {record["error"] for record in tally.failed} == {
        "on purpose",
        "the worker ended with exit code 9 and left no outcome: out of memory",
    }
    assert not (tmp_path / "runs" / wanted[0].id).exists()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_closing_stops_the_workers_and_waits_for_them(cluster, tmp_path):
    wanted = asked("good", "hangs")
    home = tmp_path / wanted[1].id
    with closing(engine(cluster, tmp_path, jobs=2).run(wanted)) as running:
        assert next(running).cell.row == "good"
        wait_until((home / "started").exists)
    assert (home / "stopped").exists()


def test_a_folder_that_cannot_be_made_is_a_failure(cluster, tmp_path):
    (tmp_path / "runs").touch()
    (outcome,) = engine(cluster, tmp_path / "runs").run(asked("good"))
    assert outcome.state == "failed"
    assert "NotADirectoryError" in outcome.record["error"]


def test_the_command(cluster, tmp_path):
    """The real thing once."""
    (tmp_path / "tiny.toml").write_text(TINY)
    places = ["--out", tmp_path / "results", "--runs", tmp_path / "runs", "--engine", "ray"]
    ended = call("lab", "run", tmp_path / "tiny.toml", *places, "--address", cluster.address, "--seeds", 1)
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
    ended = call("lab", "run", tmp_path / "tiny.toml", "--out", tmp_path, "--address", "127.0.0.1:1")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "error: --address 127.0.0.1:1 goes with --engine ray")
    ended = call("lab", "run", tmp_path / "tiny.toml", "--out", tmp_path, "--engine", "rya")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "error: unknown engine 'rya'; did you mean ray?")
