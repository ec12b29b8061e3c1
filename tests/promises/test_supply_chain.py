"""Supply chain: nothing in the package unpickles, evaluates text or starts a shell."""

import ast
import re
from pathlib import Path

import pytest

import mphil

pytestmark = pytest.mark.promise("supply chain")

SOURCE = Path(mphil.__file__).parent
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "torch.save", "yaml.load", "subprocess.getoutput"}
EXPLAINED: dict[str, str] = {}
"""`file: finding` to the reason why it is harmless."""


def findings(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [f"import {name}" for name in names if name.partition(".")[0] in MODULES]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            found += [called] if called in CALLS else []
            for option in node.keywords:
                unsafe = {"shell": True, "allow_pickle": True, "weights_only": False}.get(option.arg or "")
                if unsafe is not None and getattr(option.value, "value", None) is unsafe:
                    found.append(f"{called}({option.arg}={unsafe})")
    return [f"{path.relative_to(SOURCE)}: {what}" for what in found]


def test_no_pickle_eval_or_shell(figure):
    files = sorted(SOURCE.rglob("*.py"))
    found = [what for path in files for what in findings(path) if what not in EXPLAINED]
    assert found == []
    figure(f"{len(files)} source files, 0 findings; advisories are not checked, which needs a network")


def test_the_search_finds_what_it_looks_for(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.promises.test_supply_chain.SOURCE", tmp_path)
    path = tmp_path / "bad.py"
    path.write_text("import pickle\nimport torch\ntorch.load(1)\neval('1')\nrun('x', shell=True)\n")
    assert len(findings(path)) == 4


def test_every_pinned_version_has_its_checksums(figure):
    root = Path(__file__).parents[2]
    pins = {line for line in (root / "constraints.txt").read_text().splitlines() if "==" in line}
    hashed = (root / "constraints-hashes.txt").read_text().replace("\\\n", " ").splitlines()[1:]
    assert {line.split(" ")[0] for line in hashed} == pins, "run .ci/hashes"
    assert all(re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+", line) for line in hashed)
    figure(f"{len(pins)} pinned packages with the SHA-256 of every file")
