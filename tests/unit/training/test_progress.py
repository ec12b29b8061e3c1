"""The bar shows epoch and time left on a terminal; elsewhere there is a line every few seconds."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from mphil.methods.base import Progress
from mphil.training.progress import ProgressLines, TrainingBar, training_bar


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
    monkeypatch.setattr("mphil.training.progress.time.monotonic", lambda: now[0])
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
