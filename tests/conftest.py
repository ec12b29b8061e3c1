"""Settings of the whole test suite, and the command as a process."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import torch

from tests.command import CommandServer

# Tensors are tiny here: further threads only wait for each other, and several workers share the cores.
torch.set_num_threads(1)

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("mphil", deadline=None)
hypothesis.settings.load_profile("mphil")


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Starts `mphil` in processes of its own."""
    server = CommandServer(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()
