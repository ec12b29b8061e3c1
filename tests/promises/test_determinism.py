"""Determinism: the same seed gives the same weights, to the last bit."""

import hashlib

import pytest
import torch

from mphil.methods import METHODS
from mphil.model.bundle.folder import weights_digest
from tests.bundles import trained

pytestmark = pytest.mark.promise("determinism")


def digest(method: str, threads: int) -> str:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return weights_digest(trained(method, graphs=100, epochs=1).method.state_dict())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("methods", "size"), [(("erm", "mphil"), "small"), pytest.param(sorted(METHODS), "full", marks=pytest.mark.slow)]
)
def test_twice_with_one_thread_and_with_two(record_property, figure, methods, size):
    record_property("size", size)
    first = {name: digest(name, 1) for name in methods}
    assert first == {name: digest(name, 1) for name in methods}
    assert first == {name: digest(name, 2) for name in methods}
    whole = hashlib.sha256("".join(first.values()).encode()).hexdigest()[:12]
    figure(f"{len(methods)} methods trained three times, the last with two threads, SHA-256 equal ({whole})")
