"""Tables of named things, and plug-ins."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mphil.benchmarks import BENCHMARKS
from mphil.errors import UnknownName, UsageError
from mphil.methods import METHODS, register
from mphil.methods.erm import ERM
from mphil.nn.encoders import ENCODERS
from mphil.registry import Registry, add_plugins, describe, load_plugins
from tests.plugged import SOURCE, install


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


@pytest.fixture
def listed(monkeypatch):
    """Set the variable; modules that were imported by it are forgotten afterwards."""
    before = set(sys.modules)
    yield lambda value: monkeypatch.setenv("MPHIL_PLUGINS", value)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_nothing_is_listed(monkeypatch):
    monkeypatch.delenv("MPHIL_PLUGINS", raising=False)
    assert load_plugins() == frozenset()


def test_files_and_modules(listed, tmp_path):
    file = tmp_path / "plugged_file.py"
    file.write_text("COUNT = [1]\n")
    listed(f"{file}, json ,")
    assert load_plugins() == {"plugged_file", "json"}
    module = sys.modules["plugged_file"]
    load_plugins()
    assert sys.modules["plugged_file"] is module


def test_an_encoder_and_a_method_get_a_name(tmp_path):
    file = tmp_path / "plugged_names.py"
    file.write_text(
        "from mphil.methods import register\nfrom mphil.methods.erm import ERM\n"
        "from mphil.nn.encoders import register_encoder\nfrom mphil.nn.encoders.gin import GIN\n\n"
        "@register_encoder('mine')\nclass Mine(GIN):\n    '''Mine.'''\n\n"
        "@register('ours', paper='none')\nclass Ours(ERM):\n    '''Ours.'''\n"
    )
    program = (
        "import mphil; data = mphil.benchmark('good-motif-basis', graphs=60);"
        "run = mphil.train(data, 'ours', encoder={'kind': 'mine', 'width': 4}, train={'epochs': 1, 'batch_size': 8});"
        "print(type(run.method.encoder).__name__)"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "MPHIL_PLUGINS": str(file), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "Mine\n", done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("import nothing_like_this\n", "ModuleNotFoundError"),
        (None, "FileNotFoundError"),
    ],
)
def test_failures_name_the_variable_and_the_entry(listed, tmp_path, content, message):
    file = tmp_path / "plugged_wrong.py"
    if content is not None:
        file.write_text(content)
    listed(str(file))
    with pytest.raises(
        UsageError, match=rf"plugged_wrong.py \(--plugin or MPHIL_PLUGINS\) cannot be imported: {message}"
    ):
        load_plugins()
    assert "plugged_wrong" not in sys.modules


def test_a_file_does_not_take_the_name_of_a_module(listed, tmp_path):
    (tmp_path / "json.py").write_text("")
    listed(str(tmp_path / "json.py"))
    with pytest.raises(UsageError, match="a module json exists already"):
        load_plugins()


class TestFiles:
    def test_a_file_is_imported_here_and_listed_for_others(self, plugged, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("mine_here.py").write_text(SOURCE)
        monkeypatch.setenv("MPHIL_PLUGINS", "json")
        add_plugins([Path("mine_here.py")])
        add_plugins([Path("mine_here.py")])
        assert os.environ["MPHIL_PLUGINS"] == f"json,{tmp_path / 'mine_here.py'}"
        assert "third-erm" in METHODS
        assert "third-motif" in BENCHMARKS

    @pytest.mark.parametrize("name", ["nothing.py", "folder", "text.txt"])
    def test_other_things_are_refused(self, plugged, tmp_path, name):
        (tmp_path / "folder").mkdir()
        (tmp_path / "text.txt").touch()
        with pytest.raises(UsageError, match="no such Python file"):
            add_plugins([tmp_path / name])

    def test_a_comma_would_be_two_files(self, plugged, tmp_path):
        (tmp_path / "one,two.py").touch()
        with pytest.raises(UsageError, match="a comma cannot be in its path"):
            add_plugins([tmp_path / "one,two.py"])

    def test_a_name_of_ours_is_taken(self, plugged, tmp_path):
        file = tmp_path / "another_erm.py"
        file.write_text(SOURCE.replace("third-erm", "erm"))
        with pytest.raises(UsageError, match=r"'erm' is registered twice, by mphil\.methods\.erm and by another_erm"):
            add_plugins([file])
        assert METHODS["erm"].__module__ == "mphil.methods.erm"


class TestPackages:
    @pytest.fixture
    def folder(self, plugged, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    def test_nothing_is_imported_before_it_is_asked_for(self, folder):
        install(folder)
        assert METHODS["erm"].name == "erm"
        assert "third_party" not in sys.modules
        assert METHODS["third-erm"].name == "third-erm"
        assert "third-gin" in list(ENCODERS)
        assert BENCHMARKS["third-motif"].options == {"graphs": 120, "seed": 0}

    def test_what_is_known_of_it(self, folder):
        install(folder)
        plugin = METHODS.plugin("third-erm")
        assert plugin == describe("method", "third-erm", "third_party", "mphil.methods")
        assert (plugin.file, plugin.package, plugin.version) == ("third_party.py", "mphil-third", "0.1")
        assert plugin.digest == hashlib.sha256(SOURCE.encode()).hexdigest()
        assert plugin.remedy == "install the package: pip install mphil-third==0.1"
        assert METHODS.plugin("erm") is None
        assert METHODS.plugin("unknown") is None

    @pytest.mark.parametrize(
        ("source", "reason"),
        [
            ("import nothing_like_this\n", "ModuleNotFoundError: No module named 'nothing_like_this'"),
            ("", "it registers no method of that name"),
            (SOURCE.replace('"third-erm"', '"erm"'), "'erm' is registered twice"),
        ],
    )
    def test_a_broken_one_is_named_and_breaks_nothing_else(self, folder, caplog, source, reason):
        install(folder, source, "[mphil.methods]\nthird-erm = third_party\n")
        assert "erm" in list(METHODS)
        assert "third_party of mphil-third cannot be loaded" in caplog.text
        assert reason in caplog.text
        with pytest.raises(UsageError, match="repair or uninstall that package"):
            METHODS["third-erm"]
        with pytest.raises(UnknownName, match="unknown method 'nobody'"):
            METHODS["nobody"]
        assert len(caplog.records) == 1


def test_a_notebook_may_define_a_method_again(plugged):
    for paper in ("first", "second"):
        cls = type("Again", (ERM,), {"__module__": "__main__", "__doc__": "Again."})
        register("again-and-again", paper=paper)(cls)
    assert METHODS["again-and-again"].paper == "second"
    assert METHODS.plugin("again-and-again").kind == "method"


@pytest.mark.slow
def test_a_script_that_registers_still_loads_what_is_listed(plugged, tmp_path):
    (tmp_path / "listed_one.py").write_text(SOURCE)
    program = (
        "from mphil.methods import METHODS, register\nfrom mphil.methods.erm import ERM\n"
        "@register('of-a-script', paper='none')\nclass Mine(ERM):\n    '''Mine.'''\n"
        "print('third-erm' in METHODS, 'of-a-script' in METHODS, 'mphil' in METHODS)"
    )
    environment = {
        **os.environ,
        "MPHIL_PLUGINS": str(tmp_path / "listed_one.py"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True True True\n", done.stderr
