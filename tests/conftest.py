"""Settings of the whole test suite, and the command as a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests import promised
from tests.command import CommandServer

# A suite started in the background inherits an ignored Ctrl-C, and would wait for interrupts that never come.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What tests keep is not what the user keeps; all workers share it, and `make clean` takes it away.
os.environ.setdefault("MPHIL_CACHE", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "mphil"))

# Tensors are tiny here: further threads only wait for each other, and several workers share the cores.
torch.set_num_threads(1)

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.register_profile("full", deadline=None, max_examples=100)
hypothesis.settings.load_profile(os.environ.get("MPHIL_EXAMPLES", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", type=Path, metavar="FILE", help="add what full tests of promises measure to FILE")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--promises")
    if file is not None and not hasattr(config, "workerinput"):  # a worker of pytest-xdist tells the one who counts
        config.pluginmanager.register(promised.Records(file))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every report say which promise its test is about, even where the test is skipped or fails."""
    for item in items:
        if (marker := item.get_closest_marker("promise")) is not None:
            (name,) = marker.args
            assert name in promised.PROMISES, f"{item.nodeid}: there is no promise {name!r}"
            item.user_properties.append(("promise", name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each promise of docs/explanation/reliability.md, with its figure or why there is none."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    reports = [report for report in reports if isinstance(report, pytest.TestReport)]
    if any("promise" in dict(report.user_properties) for report in reports):
        terminalreporter.section("promises")
        asked_for_all = terminalreporter.config.args_source is not pytest.Config.ArgsSource.ARGS
        for line in promised.lines(reports, every=asked_for_all):
            terminalreporter.write_line(line)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says what a test of a promise has measured."""
    return lambda text: record_property("figure", text)


@pytest.fixture(params=["small", pytest.param("full", marks=pytest.mark.slow)])
def amount(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Callable[[str], int]:
    """How much of something to try (see `tests/promised.py`): little in `make test`, much in `make test-all`."""
    record_property("size", request.param)
    return lambda name: promised.amount_of(name, request.param)


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


@pytest.fixture(scope="session")
def client():
    """A server with a small model, for all tests that ask one; whoever spoils it sees to it that it answers again."""
    from tests.served import predictor, served

    with served(predictor()) as client:
        yield client


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
