"""Determinism: the same seed gives the same weights, to the last bit."""

import hashlib

import pytest

from mphil.methods import METHODS
from mphil.model.bundle.folder import weights_digest
from tests.bundles import trained

QUICK = ("erm", "mphil")


def digest(method: str) -> str:
    run = trained(method, graphs=100, epochs=1)
    return weights_digest(run.method.state_dict())


@pytest.mark.parametrize("methods", [QUICK, pytest.param(tuple(sorted(METHODS)), marks=pytest.mark.slow)])
def test_twice(promise, methods):
    first, again = ({name: digest(name) for name in methods} for _ in range(2))
    assert first == again
    whole = hashlib.sha256("".join(first.values()).encode()).hexdigest()[:12]
    promise("determinism", f"{len(methods)} methods trained twice with one thread, sha256 equal ({whole})")
