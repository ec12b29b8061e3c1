"""Where numbers come from: commits, uncommitted changes, and the sources that decide."""

import shutil
import subprocess

import pytest

from mphil.errors import UsageError
from mphil.provenance import PACKAGE, check_committed, checkout, code_digest, machine

NOWHERE = {"commit": None, "dirty": None}


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", folder, *names, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def package(tmp_path):
    """A package in a checkout, all of it committed."""
    folder = tmp_path / "src" / "mphil"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_checkout(package):
    assert checkout(package) == {"commit": git(package, "rev-parse", "HEAD").strip(), "dirty": False}
    check_committed(package)


def test_changes_elsewhere_do_not_count(package):
    (package.parents[1] / "notes.txt").write_text("")
    assert checkout(package)["dirty"] is False


@pytest.mark.parametrize("name", ["__init__.py", "new.py"])
def test_uncommitted_changes(package, name):
    (package / name).write_text("changed = True")
    assert checkout(package)["dirty"] is True
    with pytest.raises(UsageError, match="has uncommitted changes, so the records could not be repeated"):
        check_committed(package)


def test_an_installed_package_in_the_checkout_of_something_else(package):
    installed = package.parents[1] / ".venv" / "mphil"
    shutil.copytree(package, installed)
    assert checkout(installed) == NOWHERE
    check_committed(installed)


def test_no_checkout(tmp_path):
    (tmp_path / "__init__.py").write_text("")
    assert checkout(tmp_path) == NOWHERE


def test_a_checkout_without_a_commit(tmp_path):
    (tmp_path / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    assert checkout(tmp_path) == NOWHERE


def test_no_git(package, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert checkout(package) == NOWHERE


def test_the_state_of_the_code_is_that_of_what_decides_numbers(tmp_path):
    changed = shutil.copytree(PACKAGE, tmp_path / "mphil")
    assert code_digest(changed) == code_digest()
    (changed / "cli" / "train.py").write_text("")
    code_digest.cache_clear()
    assert code_digest(changed) == code_digest()
    with (changed / "nn" / "fast" / "products.c").open("a") as file:
        file.write("/* changed */\n")
    code_digest.cache_clear()
    assert code_digest(changed) != code_digest()


def test_a_machine_says_what_decides_rounding():
    keys = {"system", "processor", "instructions", "compiler", "cores", "threads", "processes"}
    assert machine().keys() == keys
