"""A chemist's commands that are stopped or killed: nothing half is left, and they go on."""

import json
import re
import shutil
import signal

import pyarrow
import pytest
from pyarrow import parquet

from mphil.model.bundle import read_bundle
from tests.cluster import local_cluster
from tests.command import call, saved_step, wait_until
from tests.products import SET, binary_table, molecules, rows_of, write_table

pytestmark = pytest.mark.promise("no training lost")

TINY = [text for pair in SET for text in ("--set", pair)]
LONG = ["--set", "encoder.width=8", "--set", "encoder.layers=2", "--set", "train.batch_size=4"]
LONG += ["--set", "train.epochs=4", "--method", "mphil", "--fast", "--no-baselines"]
EVERY_BATCH = ["--set", "train.checkpoint_minutes=0"]


def drafts(folder):
    return [path.name for path in folder.rglob(".*draft-*")]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    """A table, and the bundle of a training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("uncut")
    table = binary_table(folder / "assay.csv")
    assert call("train", table, *LONG, "--out", folder / "out").code == 0
    return table, read_bundle(folder / "out" / "bundle")


class TestTraining:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
    def test_a_training_that_is_cut_ends_like_one_that_is_not(self, commands, uncut, tmp_path, number):
        table, expected = uncut
        folder = tmp_path / "cut"
        command = ["train", table, *LONG, "--out", folder]
        process = commands.start(*command, *EVERY_BATCH)
        wait_until(lambda: saved_step(folder / "mphil") >= 5)
        process.send(number)
        ended = process.wait()
        assert ended.code != 0
        assert not (folder / "bundle").exists()
        if number == signal.SIGINT:
            assert f"Continue with: mphil resume {folder}\n" in ended.err
        assert commands.start(*command).wait().code == 0
        found = read_bundle(folder / "bundle")
        assert (found.config, found.trust) == (expected.config, expected.trust)
        assert all((found.state[name] == expected.state[name]).all() for name in expected.state)
        assert drafts(folder) == []

    @pytest.mark.parametrize("kind", [["--method", "erm", "--fast"], ["--members", "2"]], ids=["one", "committee"])
    def test_what_is_resumed_has_the_bits_of_what_was_not_killed(self, commands, tmp_path, monkeypatch, kind):
        table = binary_table(tmp_path / "assay.csv")
        small = ["--set", "encoder.width=8", "--set", "encoder.layers=2", "--set", "train.batch_size=4"]
        told = ["--target", "active", "--split", "random", "--selection", "id_val", "--seed", "3", *kind, *EVERY_BATCH]
        command = ["train", table, *small, "--set", "train.epochs=3", *told, "--out"]
        process = commands.start(*command, tmp_path / "cut")
        wait_until(lambda: any(saved_step(run) >= 5 for run in (tmp_path / "cut").glob("[!.]*") if run.is_dir()))
        process.send(signal.SIGKILL)
        assert process.wait().code == -signal.SIGKILL
        assert not (tmp_path / "cut" / "bundle").exists()
        assert commands.start("resume", tmp_path / "cut").wait().code == 0
        assert commands.start(*command, tmp_path / "whole").wait().code == 0
        cut, whole = (tmp_path / name / "bundle" for name in ("cut", "whole"))
        names = sorted(path.name for path in whole.iterdir())
        assert sorted(path.name for path in cut.iterdir()) == names
        for name in set(names) - {"config.json", "metrics.json", "manifest.json"}:
            found, expected = (re.sub(rb"\b\d+ s\b", b"", (bundle / name).read_bytes()) for bundle in (cut, whole))
            assert found == expected, name
        assert read_bundle(cut).config == read_bundle(whole).config
        metrics = [json.loads((bundle / "metrics.json").read_text()) for bundle in (cut, whole)]
        assert all(found.pop("seconds") > 0 for found in metrics), "the one thing that may differ, on the card too"
        assert metrics[0] == metrics[1]

    def test_a_committee_that_is_killed_goes_on_with_the_member_it_was_at(self, commands, uncut, tmp_path):
        table, _ = uncut
        small = ["--set", "encoder.width=8", "--set", "encoder.layers=2", "--set", "train.batch_size=4"]
        command = ["train", table, *small, "--set", "train.epochs=3", "--members", "2", "--out", tmp_path / "cut"]
        process = commands.start(*command, *EVERY_BATCH)
        wait_until(lambda: saved_step(tmp_path / "cut" / "erm-descriptors") >= 5)
        process.send(signal.SIGKILL)
        process.wait()
        before = json.loads((tmp_path / "cut" / "mphil+" / "result.json").read_text())
        assert commands.start(*command).wait().code == 0
        after = json.loads((tmp_path / "cut" / "mphil+" / "result.json").read_text())
        assert after["seconds"] == before["seconds"], "a finished member is not trained again"
        assert commands.start(*command[:-1], tmp_path / "whole").wait().code == 0
        cut, whole = (read_bundle(tmp_path / name / "bundle") for name in ("cut", "whole"))
        assert (cut.config, cut.trust) == (whole.config, whole.trust)
        assert all(
            (cut.networks["erm with descriptors"][name] == value).all()
            for name, value in whole.networks["erm with descriptors"].items()
        )

    def test_a_bundle_stays_while_the_next_one_is_made(self, product, commands, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        before = read_bundle(folder / "bundle").digest
        shutil.rmtree(folder / "mphil")
        table = product.folder.parent / "assay.csv"
        process = commands.start("train", table, "--method", "mphil", "--fast", "--out", folder, *TINY)
        wait_until((folder / "mphil" / "config.json").exists)
        process.send(signal.SIGKILL)
        process.wait()
        assert read_bundle(folder / "bundle").digest == before


class TestPredicting:
    def big(self, tmp_path):
        return write_table(tmp_path / "big.csv", {"smiles": molecules() * 100})

    @pytest.mark.parametrize(
        "number",
        [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGTERM))],
    )
    def test_no_half_file(self, product, commands, tmp_path, number):
        out = tmp_path / "out.csv"
        process = commands.start("predict", product.path, self.big(tmp_path), "--out", out)
        wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob(".out.csv.draft-*")))
        process.send(number)
        ended = process.wait()
        assert ended.code != 0
        assert not out.exists()
        if number != signal.SIGKILL:
            assert drafts(tmp_path) == []
            assert f"nothing was written to {out}. Give the same command again" in ended.err

    def test_a_folder_goes_on_file_by_file(self, product, commands, tmp_path):
        folder, out = tmp_path / "in", tmp_path / "out"
        folder.mkdir()
        for name in ("a", "b"):
            parquet.write_table(pyarrow.table({"smiles": molecules()[:20]}), folder / f"{name}.parquet")
        write_table(folder / "c.csv", {"smiles": molecules() * 40})
        process = commands.start("predict", product.path, folder, "--out", out)
        wait_until((out / ".done" / "b.parquet.json").exists)
        process.send(signal.SIGINT)
        ended = process.wait()
        assert "The same command continues with the others." in ended.err
        assert sorted(path.name for path in out.glob("[!.]*")) == ["a.parquet", "b.parquet"]
        again = commands.start("predict", product.path, folder, "--out", out, "--json").wait()
        assert again.code == 0
        found = json.loads(again.out)
        assert found["before"] == ["a.parquet", "b.parquet"]
        assert found["rows"] == 40 * len(molecules()) == len(rows_of(out / "c.csv")) - 1


@pytest.mark.slow
def test_a_folder_on_a_cluster(product, tmp_path):
    """A real Ray on this machine: one file a processor, what is finished is not done again."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(3):
        parquet.write_table(pyarrow.table({"smiles": molecules()[number::3]}), folder / f"{number}.parquet")
    (folder / "3.parquet").write_bytes(b"PAR1 and nothing else")
    with local_cluster(processors=2) as cluster:
        command = ("predict", product.path, folder, "--out", out, "--engine", "ray", "--address", cluster.address)
        ended = call(*command, "--json")
        assert ended.code == 3, ended
        found = json.loads(ended.out)
        assert (found["rows"], list(found["failed"])) == (len(molecules()), ["3.parquet"])
        (folder / "3.parquet").unlink()
        again = json.loads(call(*command, "--json").out)
        assert (again["before"], again["files"]) == (["0.parquet", "1.parquet", "2.parquet"], [])
    local = tmp_path / "local"
    assert call("predict", product.path, folder, "--out", local).code == 0
    for name in ("0.parquet", "1.parquet", "2.parquet"):
        assert parquet.read_table(out / name).equals(parquet.read_table(local / name))
