"""The bar, the lines and the logs of training."""

from __future__ import annotations

import csv
import io
import json
import sys
import types

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from mphil.errors import UsageError
from mphil.methods.base import Progress
from mphil.training.callbacks import (
    FileLog,
    MLflowLog,
    ProgressLines,
    TensorBoardLog,
    TrainingBar,
    WandbLog,
    check_loggers,
    flat,
    open_logger,
    training_bar,
)


@pytest.fixture
def bar():
    now = [0.0]
    shown = Bar(console=Console(file=io.StringIO()), get_time=lambda: now[0], auto_refresh=False)
    shown.now = now
    return shown


def test_it_follows_steps_and_epochs(bar):
    line = TrainingBar(bar, "erm on toys", Progress(0, 0, 12, 3))
    task = bar.tasks[0]
    assert (task.description, task.completed, task.total, task.fields["epoch"]) == ("erm on toys", 0, 12, "1/3")
    line.on_step(Progress(5, 1, 12, 3), {})
    assert (task.completed, task.fields["epoch"]) == (5, "2/3")
    line.on_epoch([{"scores": {"id_val": 0.25, "ood_val": None}}], Progress(8, 2, 12, 3))
    assert task.fields["note"] == "id_val 0.250"
    line.on_epoch([{"scores": {"id_val": 0.25, "ood_val": 0.5}}], Progress(12, 3, 12, 3))
    assert task.fields["note"] == "id_val 0.250 ood_val 0.500"


def test_time_left_of_a_resumed_run_counts_only_its_own_steps(bar):
    line = TrainingBar(bar, "resumed", Progress(900, 9, 1000, 10))
    assert bar.tasks[0].completed == 900
    for step in range(901, 911):
        bar.now[0] += 2.0
        line.on_step(Progress(step, 9, 1000, 10), {})
    assert bar.tasks[0].time_remaining == pytest.approx(90 * 2, rel=0.15)


def test_a_finished_run_is_not_in_an_epoch_beyond_its_last(bar):
    TrainingBar(bar, "done", Progress(12, 3, 12, 3))
    assert bar.tasks[0].fields["epoch"] == "3/3"


def test_a_line_every_few_seconds_without_a_terminal(monkeypatch):
    now, written = [0.0], io.StringIO()
    monkeypatch.setattr("mphil.training.callbacks.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    lines = ProgressLines(Console(file=written), "erm on [toys]")
    for step in range(1, 13):
        now[0] += 1.0
        lines.on_step(Progress(step, step // 4, 12, 3), {})
        if step == 6:
            lines.on_epoch([{"scores": {"id_val": 0.25, "ood_val": None}}], Progress(step, 1, 12, 3))
    assert written.getvalue() == "erm on [toys]: epoch 2/3\nerm on [toys]: epoch 3/3, id_val 0.250\n"


def test_a_short_training_is_silent_without_a_terminal(capsys):
    with training_bar("erm on toys", Progress(0, 0, 4, 1)) as line:
        line.on_step(Progress(1, 0, 4, 1), {"classification": 1.0})
    assert capsys.readouterr() == ("", "")


def record(epoch, score=0.5, **losses):
    losses = losses or {"classification": 1.0 / epoch}
    scores = {"id_val": score, "ood_val": None}
    return {"epoch": epoch, "step": 10 * epoch, "losses": losses, "scores": scores, "seconds": 1.5 * epoch}


def read_csv(folder):
    with (folder / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def events(folder):
    """Scalars that TensorBoard itself reads, name to (step, value) pairs."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder / "tensorboard")).Reload()
    names = accumulator.Tags()["scalars"]
    return {name: [(e.step, pytest.approx(e.value)) for e in accumulator.Scalars(name)] for name in names}


def test_flat():
    assert flat(record(2)) == {
        "epoch": 2,
        "step": 20,
        "losses/classification": 0.5,
        "scores/id_val": 0.5,
        "scores/ood_val": None,
        "seconds": 3.0,
    }


class TestFiles:
    def test_one_line_an_epoch(self, tmp_path):
        log, history = FileLog(tmp_path), []
        for epoch in (1, 2, 3):
            history.append(record(epoch))
            log.on_epoch(history, Progress())
            assert [row["epoch"] for row in read_csv(tmp_path)] == [str(e + 1) for e in range(epoch)]
        assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == history
        assert read_csv(tmp_path)[1]["losses/classification"] == "0.5"
        assert read_csv(tmp_path)[1]["scores/ood_val"] == "", "what is undefined is an empty cell"

    def test_what_a_killed_run_wrote_is_replaced(self, tmp_path):
        FileLog(tmp_path).on_epoch([record(1), record(2, score=0.1)], Progress())
        FileLog(tmp_path).on_epoch([record(1), record(2, score=0.9)], Progress())
        assert [row["scores/id_val"] for row in read_csv(tmp_path)] == ["0.5", "0.9"]

    def test_a_loss_that_begins_later_has_its_column(self, tmp_path):
        FileLog(tmp_path).on_epoch([record(1), record(2, classification=0.5, late=0.25)], Progress())
        assert [row["losses/late"] for row in read_csv(tmp_path)] == ["", "0.25"]


class TestTensorBoard:
    def test_events_can_be_read_back(self, tmp_path):
        log = TensorBoardLog(tmp_path, 0)
        log.on_epoch([record(1)], Progress())
        log.on_epoch([record(1), record(2, score=0.75)], Progress())
        log.close()
        found = events(tmp_path)
        assert found["scores/id_val"] == [(10, 0.5), (20, 0.75)]
        assert found["losses/classification"] == [(10, 1.0), (20, 0.5)]
        assert set(found) == {"losses/classification", "scores/id_val", "seconds"}

    @pytest.mark.parametrize("resumed_at", [10, 13])
    def test_a_resumed_run_takes_back_what_it_repeats_and_nothing_else(self, tmp_path, resumed_at):
        first = TensorBoardLog(tmp_path, 0)
        first.on_epoch([record(1)], Progress())
        first.on_epoch([record(1), record(2, score=0.1)], Progress())
        first.close()
        second = TensorBoardLog(tmp_path, resumed_at)
        second.on_epoch([record(1), record(2, score=0.9)], Progress())
        second.close()
        assert events(tmp_path)["scores/id_val"] == [(10, 0.5), (20, 0.9)]


class TestWandb:
    def test_a_resumed_run_is_the_same_run(self, tmp_path, monkeypatch):
        pytest.importorskip("wandb")
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("WANDB_SILENT", "true")
        for epochs in (1, 2):
            log = WandbLog(tmp_path, {"train.lr": 0.1})
            log.on_epoch([record(epoch + 1) for epoch in range(epochs)], Progress())
            log.close()
        number = (tmp_path / "wandb-run.txt").read_text()
        assert list((tmp_path / "wandb").glob(f"offline-run-*/run-{number}.wandb"))


class TestMLflow:
    def test_a_resumed_run_is_the_same_run(self, tmp_path, monkeypatch):
        mlflow = pytest.importorskip("mlflow")
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        for epochs in (1, 2):
            log = MLflowLog(tmp_path, {"train.lr": 0.1})
            log.on_epoch([record(epoch + 1) for epoch in range(epochs)], Progress())
            log.close()
        client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
        number = (tmp_path / "mlflow-run.txt").read_text()
        assert client.get_run(number).data.params == {"train.lr": "0.1"}
        assert client.get_run(number).info.status == "FINISHED"
        found = [(metric.step, metric.value) for metric in client.get_metric_history(number, "losses/classification")]
        assert found == [(10, 1.0), (20, 0.5)]


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "module", "extra"),
        [
            ("tensorboard", "torch.utils.tensorboard", "log"),
            ("wandb", "wandb", "wandb"),
            ("mlflow", "mlflow", "mlflow"),
        ],
    )
    def test_not_installed(self, tmp_path, monkeypatch, name, module, extra):
        monkeypatch.setitem(sys.modules, module, None)
        message = rf"train.loggers: {name} is not installed: pip install 'mphil\[{extra}\]'"
        with pytest.raises(UsageError, match=message):
            check_loggers([name], tmp_path)
        with pytest.raises(UsageError, match=message):
            open_logger(name, tmp_path, 0, {})
        assert not list(tmp_path.iterdir())

    def test_a_run_without_a_folder(self):
        check_loggers([], None)
        with pytest.raises(UsageError, match="train.loggers: tensorboard logs runs that have a folder; give one with"):
            check_loggers(["tensorboard"], None)
