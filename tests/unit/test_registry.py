import sys

import pytest

from mphil.errors import UnknownName, UsageError
from mphil.registry import Registry


@pytest.fixture
def colours():
    registry = Registry("colour")
    registry.add("red", 1)
    registry.add("blue", 2)
    return registry


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose modules register themselves in `<package>.TABLE`."""
    folder = tmp_path / "animals_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from mphil.registry import Registry\nTABLE = Registry('animal', 'animals_of_a_test')\n"
    )
    for name in ("cat", "dog"):
        (folder / f"{name}.py").write_text(f"from animals_of_a_test import TABLE\nTABLE.add('{name}', len('{name}'))\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "animals_of_a_test"
    for name in [module for module in sys.modules if module.startswith("animals_of_a_test")]:
        del sys.modules[name]


def test_names_are_sorted_and_entries_found(colours):
    assert list(colours) == ["blue", "red"]
    assert len(colours) == 2
    assert colours["red"] == 1
    assert "red" in colours
    assert "green" not in colours


def test_a_duplicate_is_an_error_and_changes_nothing(colours):
    with pytest.raises(UsageError, match="colour 'red' is registered twice"):
        colours.add("red", 3)
    assert colours["red"] == 1


def test_unknown_name_offers_the_nearest(colours):
    with pytest.raises(UnknownName, match="unknown colour 'bleu'; did you mean blue") as caught:
        colours["bleu"]
    assert caught.value.suggestions == ["blue"]
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2


def test_unknown_name_without_a_near_one_lists_all(colours):
    with pytest.raises(UnknownName, match="known: blue, red"):
        colours["xyz"]


def test_unknown_name_in_an_empty_registry():
    with pytest.raises(UnknownName, match="known: none"):
        Registry("colour")["red"]


@pytest.mark.parametrize("ask", [list, len, lambda table: table["cat"], lambda table: "cat" in table])
def test_first_question_imports_the_package(package, ask):
    table = __import__(package).TABLE
    assert f"{package}.cat" not in sys.modules
    ask(table)
    assert list(table) == ["cat", "dog"]
    assert table["dog"] == 3
