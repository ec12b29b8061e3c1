"""Whatever is wrong: one line that says what to do, the right exit code, nothing lost."""

import json
import shutil

import pytest

from tests.command import call
from tests.toys import Brittle, install
from tests.unit.cli.test_verbs import SMALL

USAGE, DATA, INTEGRITY = 2, 3, 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert call("train", *SMALL, "--method", "erm", "--out", folder).code == 0
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    """A finished run that may be damaged."""
    return shutil.copytree(finished, tmp_path / "copy")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_refused(ended, code, *texts):
    """One line on stderr, nothing on stdout, no traceback."""
    assert ended.code == code, ended
    assert ended.out == ""
    lines = ended.err.strip().splitlines()
    assert len(lines) == 1, ended.err
    assert lines[0].startswith("error: ")
    for text in texts:
        assert text in lines[0]


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "texts"),
        [
            (["--benchmark", "good-motif-bsis"], ["unknown benchmark 'good-motif-bsis'", "good-motif-basis"]),
            ([*SMALL, "--method", "mphli"], ["unknown method 'mphli'", "did you mean mphil"]),
            ([*SMALL, "--preset", "papper"], ["unknown preset", "did you mean paper"]),
            ([*SMALL, "--set", "trian.epochs=3"], ["unknown setting 'trian'", "did you mean train"]),
            ([*SMALL, "--set", "train.epoch=3"], ["unknown train setting 'epoch'", "did you mean epochs"]),
            ([*SMALL, "--set", "method.keeep=3"], ["unknown option of method mphil 'keeep'", "did you mean keep"]),
            ([*SMALL, "--set", "benchmark.grap=3"], ["unknown option of benchmark", "did you mean graphs"]),
            ([*SMALL, "--set", "encoder.with=3"], ["unknown encoder setting 'with'", "did you mean width"]),
            ([*SMALL, "--set", "train.epochs=x"], ["train.epochs='x'"]),
            ([*SMALL, "--set", "train.epochs=0"], ["train.epochs=0"]),
            ([*SMALL, "--set", "train.lr=inf"], ["train.lr=inf"]),
            ([*SMALL, "--set", "train.epochs"], ["--set 'train.epochs'", "section.key=value"]),
            ([*SMALL, "--set", "train.device=tape"], ["train.device='tape'"]),
            ([*SMALL, "--set", "method.prototypes=0"], ["prototypes"]),
            ([*SMALL, "--set", "benchmark.graphs=0"], ["graphs"]),
            ([*SMALL, "--seed", "-1"], ["seed=-1"]),
            ([*SMALL, "--set", "train.batch_size=121"], ["train.batch_size is 121", "120 training graphs"]),
            (["--method", "erm"], ["no benchmark given"]),
        ],
        ids=lambda value: " ".join(value[-2:]) if value[0].startswith("--") else "",
    )
    def test_train(self, tmp_path, arguments, texts):
        assert_refused(call("train", *arguments, "--out", tmp_path / "r"), USAGE, *texts)
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize("text", ["[train\n", "train = 3\n", "trian = {}\n", "seed = 'x'\n"])
    def test_settings_file(self, tmp_path, text):
        (tmp_path / "s.toml").write_text(text)
        ended = call("train", *SMALL, "--config", tmp_path / "s.toml", "--out", tmp_path / "r")
        assert_refused(ended, USAGE)
        assert not (tmp_path / "r").exists()

    def test_missing_settings_file(self, tmp_path):
        assert_refused(call("train", *SMALL, "--config", tmp_path / "s.toml"), USAGE, "s.toml", "No such file")

    @pytest.mark.parametrize(
        ("arguments", "near"),
        [(["trian"], "train"), (["train", "--benchmrk", "x"], "--benchmark"), (["benchmarks", "shwo"], "show")],
    )
    def test_unknown_verbs_and_options(self, arguments, near):
        ended = call(*arguments)
        assert ended.code == USAGE
        assert near in ended.err

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["benchmarks", "show", "spmotiv"], "did you mean spmotif"),
            (["benchmarks", "show", "spmotif", "--set", "graphs"], "write key=value"),
            (["benchmarks", "show", "spmotif", "--set", "grafs=3"], "unknown option"),
            (["methods", "show", "emr"], "did you mean erm"),
            (["resume", "nowhere"], "no run here"),
            (["evaluate", "nowhere"], "no run here"),
            (["predict", "nowhere"], "nowhere is not a bundle and contains none"),
        ],
    )
    def test_other_verbs(self, arguments, text):
        assert_refused(call(*arguments), USAGE, text)

    def test_rules_and_parts(self, finished):
        assert_refused(call("evaluate", finished, "--selection", "ood_tset"), USAGE, "selection rule", "ood_val")
        assert_refused(call("predict", finished, "--part", "ood"), USAGE, "unknown part 'ood'")

    def test_existing_run(self, finished):
        before = contents(finished)
        ended = call("train", *SMALL, "--method", "erm", "--out", finished)
        assert_refused(ended, USAGE, "already holds a run", "mphil resume")
        assert contents(finished) == before

    def test_foreign_files(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("chapter 1")
        assert_refused(call("train", *SMALL, "--out", tmp_path), USAGE, "thesis.tex", "--out")
        assert contents(tmp_path) == {"thesis.tex": b"chapter 1"}


class TestData:
    def test_nan_loss(self, tmp_path, monkeypatch):
        install(monkeypatch)
        monkeypatch.setattr(Brittle, "trouble", "loss")
        arguments = ("train", *SMALL, "--method", "brittle", "--out", tmp_path / "r")
        assert_refused(call(*arguments), DATA, "not a finite number at epoch 2, step 6", "broken = nan", "train.lr")
        before = contents(tmp_path / "r" / "checkpoint")
        assert_refused(call("resume", tmp_path / "r"), DATA, "epoch 2, step 6")
        assert contents(tmp_path / "r" / "checkpoint") == before
        monkeypatch.setattr(Brittle, "trouble", "")
        assert call("resume", tmp_path / "r").code == 0

    @pytest.mark.parametrize("verb", ["train", "predict"])
    def test_a_place_that_cannot_be_written(self, finished, tmp_path, verb):
        (tmp_path / "file").write_text("mine")
        out = ("--out", tmp_path / "file" / "inside.csv")
        ended = call("train", *SMALL, *out) if verb == "train" else call("predict", finished, *out)
        assert_refused(ended, DATA, "cannot read or write", str(tmp_path / "file"))
        assert (tmp_path / "file").read_text() == "mine"

    def test_a_disk_that_is_full(self, tmp_path, monkeypatch):
        def full(handle):
            raise OSError(28, "No space left on device")

        folder = tmp_path / "r"
        monkeypatch.setattr("mphil.training.checkpoint.write_bytes", lambda path, data: full(path))
        arguments = ("train", *SMALL, "--method", "erm", "--out", folder)
        assert_refused(call(*arguments), DATA, "No space left on device")
        monkeypatch.undo()
        assert call("resume", folder).code == 0


class TestIntegrity:
    @pytest.mark.parametrize("file", ["checkpoint.json", "state-*.safetensors", "best-id_val-*.safetensors"])
    @pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
    def test_damaged_checkpoint(self, copied, file, damage):
        path = next((copied / "checkpoint").glob(file))
        data = bytearray(path.read_bytes())
        if damage == "flip":
            data[len(data) // 2] ^= 4
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 3] if damage == "truncate" else data)
        before = contents(copied)
        if (file, damage) == ("checkpoint.json", "remove"):
            assert call("resume", copied).code == 0, "without a manifest there is no checkpoint: it starts again"
            return
        assert_refused(call("resume", copied), INTEGRITY, path.name, "restore it from a copy")
        assert contents(copied) == before

    def test_garbled_settings(self, copied):
        (copied / "config.json").write_text('{"config": ')
        before = contents(copied)
        for verb in ("resume", "evaluate"):
            assert_refused(call(verb, copied), INTEGRITY, "config.json cannot be read")
        assert contents(copied) == before

    @pytest.mark.parametrize("change", ["good-motif-basis-concept", "good-motif-bass"])
    def test_another_benchmark_in_the_settings(self, copied, change):
        text = (copied / "config.json").read_text()
        (copied / "config.json").write_text(text.replace("good-motif-basis", change))
        assert_refused(call("resume", copied), INTEGRITY)

    def test_other_settings(self, finished):
        before = contents(finished)
        ended = call("train", *SMALL, "--method", "erm", "--set", "train.lr=0.5", "--out", finished, "--resume")
        assert_refused(ended, INTEGRITY, "train.lr is 0.001 there, 0.5 here")
        assert contents(finished) == before

    def test_result_of_a_resumed_run_is_unharmed(self, copied):
        before = json.loads((copied / "result.json").read_text())
        (copied / "result.json").unlink()
        assert call("resume", copied).code == 0
        assert json.loads((copied / "result.json").read_text()) == before


def test_a_bug_is_not_hidden(monkeypatch):
    def broken(name):
        raise ZeroDivisionError

    monkeypatch.setattr("mphil.training.run.stored_run", broken)
    with pytest.raises(ZeroDivisionError):
        call("resume", "somewhere")
