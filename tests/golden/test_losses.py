"""Three steps of every method end where they ended before: whoever changes a number does it on purpose."""

from __future__ import annotations

import pytest

from mphil.methods import METHODS
from tests.golden.losses import COMMAND, kinds, losses_after_training, read

CASES = [pytest.param(name, kind, id=f"{name}-{kind}") for name in METHODS for kind in kinds(METHODS[name])]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_losses_after_three_steps(name, kind):
    golden = read().get(name, {}).get(kind)
    assert golden is not None, f"no golden losses of {name} on {kind}: run `{COMMAND} {name}` and commit the file"
    found = losses_after_training(name, kind)
    assert found.keys() == golden.keys(), f"other terms than before; if that is meant, run `{COMMAND} {name}`"
    assert found == pytest.approx(golden, rel=1e-6, abs=1e-9), f"if that is meant, run `{COMMAND} {name}`"


def test_the_file_has_no_methods_that_are_gone():
    gone = sorted(read().keys() - set(METHODS))
    assert not gone, f"run `{COMMAND}`"
