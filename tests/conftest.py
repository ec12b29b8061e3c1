"""Settings of the whole test suite, and the command as a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests.command import CommandServer

# A suite started in the background inherits an ignored Ctrl-C, and would wait for interrupts that never come.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What tests keep is not what the user keeps; all workers share it, and `make clean` takes it away.
os.environ.setdefault("MPHIL_CACHE", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "mphil"))

# Tensors are tiny here: further threads only wait for each other, and several workers share the cores.
torch.set_num_threads(1)

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=30)
hypothesis.settings.register_profile("full", deadline=None, max_examples=100)
hypothesis.settings.load_profile(os.environ.get("MPHIL_EXAMPLES", "quick"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each promise of docs/explanation/reliability.md that was tested, with its figure."""
    lines = sorted(
        f"{report.outcome:7}{text}"
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "promise" and report.when == "call"
    )
    if lines:
        terminalreporter.section("promises")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def promise(record_property: Callable[[str, object], None]) -> Callable[[str, str], None]:
    """Says which promise a test is about, and the figure that it measured."""
    return lambda name, figure: record_property("promise", f"{name}: {figure}")


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Starts `mphil` in processes of its own."""
    server = CommandServer(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory):
    """A small model of a yes-or-no label, trained as by the command; its folder must not be changed."""
    from tests.products import binary_table, make

    folder = tmp_path_factory.mktemp("product")
    return make(binary_table(folder / "assay.csv"), folder / "out", baselines=True)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers or lists as a plug-in is forgotten afterwards."""
    from tests.plugged import forgotten

    monkeypatch.setenv("MPHIL_PLUGINS", "")
    with forgotten():
        yield


@pytest.fixture
def shared_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the publishers' files, which the tested code then finds too; without it the test is skipped."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MPHIL_DATA", beside)).expanduser()
    if not folder.is_dir():
        pytest.skip(f"no publishers' files: set MPHIL_DATA, or put them in {beside}")
    monkeypatch.setenv("MPHIL_DATA", str(folder))
    return folder
