"""The tree of the package: names say what is inside, and few files lie loose."""

import re
from collections import Counter
from pathlib import Path

import mphil

ROOT = Path(mphil.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def repeated(names):
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_no_two_modules_have_one_name():
    assert repeated(path.name for path in MODULES if path.name != "__init__.py") == []


def test_no_two_public_classes_have_one_name():
    assert repeated(name for path in MODULES for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.M)) == []


def test_ten_files_at_most_lie_loose():
    assert len([path for path in MODULES if path.parent == ROOT]) <= 10
