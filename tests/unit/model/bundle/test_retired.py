"""Bundles that name hyperparameters by the names they had."""

from dataclasses import replace

import pytest

from mphil.errors import IntegrityError
from mphil.methods import METHODS
from mphil.model.bundle import read_bundle, retired, write_bundle
from mphil.model.bundle.retired import RETIRED, Fixed, Renamed


@pytest.fixture
def old(product, tmp_path, monkeypatch):
    """A function that writes the bundle with other hyperparameters, the first of them, and the method."""
    method = product.bundle.config.method
    first = next(iter(method.args))

    def write(change, **args):
        monkeypatch.setattr(retired, "RETIRED", {method.name: {"before": change}})
        was = method.model_copy(update={"args": args})
        config = product.bundle.config.model_copy(update={"method": was})
        write_bundle(tmp_path / "old", replace(product.bundle, config=config))
        return tmp_path / "old"

    return write, first, method


def test_another_name(old):
    write, first, method = old
    kept = {name: value for name, value in method.args.items() if name != first}
    found = read_bundle(write(Renamed(first), before=method.args[first], **kept))
    assert found.config.method.args == method.args


def test_one_that_is_gone(old):
    write, _, method = old
    assert read_bundle(write(Fixed(0.5), before=0.5, **method.args)).config.method.args == method.args
    with pytest.raises(IntegrityError, match=r"no longer has before=0\.25, it does what it did with 0\.5"):
        read_bundle(write(Fixed(0.5), before=0.25, **method.args))


def test_the_table_names_methods_and_hyperparameters_that_there_are():
    for name, changes in RETIRED.items():
        known = METHODS[name].__init__.__kwdefaults__
        assert not known.keys() & changes.keys(), name
        assert all(change.to in known for change in changes.values() if isinstance(change, Renamed)), name
