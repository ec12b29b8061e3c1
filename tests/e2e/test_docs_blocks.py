"""Every code block of README and docs runs, page by page, in a folder with the files that the page speaks of.

Settings and data are made small (`SMALLER`, `smaller`); what cannot run here is in `NOT_RUN` with the reason. The
options of all commands are checked against the command line, whether they run or not.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import mphil
from mphil.cli import app
from tests.command import call, wait_until
from tests.documents import PAGES, ROOT, Block, blocks, inline_commands, words
from tests.products import SET, binary_table, molecules, write_table
from tests.served import Client

NOT_RUN = {
    r"make ": "sets up an environment of its own, or is what runs these tests",
    r"pip install ": "changes the environment of the tests",
    r"docker ": "needs Docker; tests/unit/test_container.py reads the Dockerfile",
    r"ray start ": "needs several machines",
    r".*--address HEAD": "needs a cluster; tests/fault/test_ray.py has one on this machine",
    r"torchrun .*": "has several processes; tests/fault/test_torchrun.py runs it",
    r"(OMP_NUM_THREADS=1 )?python benchmarks/": "takes minutes to hours; what it found is recorded",
    r"mphil (train|lab run|benchmarks \w+) .*(good-hiv|good-pcba|drugood|good-cmnist)": "needs a publisher's file",
    r".*train.device=cuda": "needs a GPU",
}
"""Commands that do not run here, by how they begin, and why."""

SMALLER = [
    (r"graphs=[\d_]+", "graphs=600"),
    (r'"graphs": [\d_]+', '"graphs": 600'),
    (r'"epochs": \d+', '"epochs": 1'),
    (r"epochs=\d+", "epochs=1"),
    (r'benchmark\("good-motif-basis"\)', 'benchmark("good-motif-basis", graphs=600)'),
    (r'method="(\w+)", seed=0\)', r'method="\1", seed=0, train={"epochs": 1})'),
    (r"seeds=\[0, 1, 2\]", "seeds=[0, 1]"),
]
"""What is replaced in blocks of Python."""

SMALL = ["--set", "encoder.width=8", "--set", "encoder.layers=2", "--set", "train.epochs=1"]
TINY = [text for pair in SET for text in ("--set", pair)]
SLOW = {
    "README.md",
    "docs/how-to/export.md",
    "docs/how-to/lab.md",
    "docs/how-to/migrate.md",
    "docs/how-to/plugins.md",
    "docs/how-to/splits.md",
    "docs/how-to/targets.md",
    "docs/how-to/tune.md",
    "docs/tutorials/first-model.md",
    "docs/tutorials/reproduce.md",
    "docs/tutorials/write-a-benchmark.md",
    "docs/tutorials/write-a-method.md",
    "docs/tutorials/write-an-encoder.md",
}
"""Pages that train many models."""


def smaller(command: list[str]) -> list[str]:
    """The same command with little to do."""
    verb = command[1]
    command = [re.sub(r"train\.(window|min_epochs)=\d+", r"train.\1=1", word) for word in command]
    if verb == "train" and "--benchmark" in command:
        own = command[command.index("--benchmark") + 1] == "mutag"
        return [*command, *SMALL, *([] if own else ["--set", "benchmark.graphs=600"])]
    if verb == "train":
        return [*command, *TINY, *([] if {"--fast", "--method"} & {*command} else ["--members", "1"])]
    if command[:3] == ["mphil", "lab", "run"] and command[3] != "mine.toml":
        return [*command, "--dry-run"]
    if command[:3] == ["mphil", "lab", "run"]:
        only = ["--methods", "erm", "--seeds", "0", "--dirty", "--set", "benchmark.graphs=600"]
        return [*command, *SMALL, *only]
    if command[:3] == ["mphil", "lab", "tune"]:
        few = ["--trials", "1", "--dirty", "--set", "benchmark.graphs=600"]
        return [*command, *SMALL, *few]
    if command[:3] == ["mphil", "benchmarks", "show"] and "--plugin" not in command:
        return [*command, "--set", "graphs=600"]
    return command


class Session:
    """A reader at a terminal, who types what a page says."""

    def __init__(self, folder: Path, commands) -> None:
        self.folder, self._commands, self._servers = folder, commands, []
        self.names: dict[str, object] = {"__name__": "example"}

    def follow(self, block: Block) -> None:
        if block.kind == "toml":
            tomllib.loads(block.text)
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            text = block.text
            for pattern, replacement in SMALLER:
                text = re.sub(pattern, replacement, text)
            exec(compile(text, f"{block.page}:{block.line}", "exec"), self.names)
        elif block.kind == "sh":
            for command in block.commands:
                if not any(re.match(pattern, command) for pattern in NOT_RUN):
                    self.type(command)
        else:
            assert block.kind in ("toml", "text"), f"{block.page}:{block.line}: a block of {block.kind or 'nothing'}"

    def type(self, command: str) -> None:
        first, *rest = words(command)
        if command.startswith("mphil serve"):
            self._serve(rest)
        elif first == "mphil":
            ended = call(*smaller(words(command))[1:])
            assert ended.code == 0, f"{command}\n{ended.out[-2000:]}\n{ended.err[-2000:]}"
        elif first == "curl":
            self._ask(command)
        elif first == "python":
            subprocess.run([sys.executable, *rest], cwd=self.folder, check=True, capture_output=True)
        else:
            assert first in ("export", "cd"), f"what is {command!r}?"

    def _serve(self, arguments: list[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            client = Client(free.getsockname()[1])
        kept = [str(self.folder / a) if "/" in a else a for a in arguments if a != "--open"]
        process = self._commands.start(*kept, "--port", client.port)
        self._servers.append((process, client))
        wait_until(lambda: _answers(client, "/healthz"))

    def _ask(self, command: str) -> None:
        if not shutil.which("curl"):
            return
        client = self._servers[-1][1]
        wait_until(lambda: _answers(client, "/readyz"))
        text = command.replace("localhost:8765", f"127.0.0.1:{client.port}")
        subprocess.run([*words(text), "--fail", "-sS"], cwd=self.folder, check=True, capture_output=True)

    def leave(self) -> None:
        for process, _ in self._servers:
            process.send(signal.SIGINT)
        for process, _ in self._servers:
            assert process.wait().code == 130


def _answers(client: Client, path: str) -> bool:
    try:
        return client.get(path).status == 200
    except OSError:
        return False


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the tables and the model that the pages speak of."""
    for name in ("assay.csv", "my.csv", "measured.csv"):
        binary_table(tmp_path / name)
    table = {"smiles": molecules(), "active": [int("N" in m) for m in molecules()]}
    write_table(tmp_path / "panel.csv", table | {"toxic": [int("Cl" in m) for m in molecules()]})
    potency = [5.8 + 1.4 * ("N" in m) + 0.01 * len(m) for m in molecules()]
    write_table(tmp_path / "potency.csv", table | {"pIC50": potency})
    (tmp_path / "my.toml").write_text("[train]\nepochs = 1\n")
    (tmp_path / "library").mkdir()
    for name in ("new.csv", "library/one.csv"):
        write_table(tmp_path / name, {"smiles": molecules()[:30]})
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "results").symlink_to(ROOT / "benchmarks" / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=(name := page.relative_to(ROOT).as_posix()), marks=[pytest.mark.slow] * (name in SLOW))
        for page in PAGES
        if blocks(page)
    ],
)
def test_blocks_run(page, folder, product, commands, plugged, monkeypatch):
    if "--out runs/first" not in page.read_text():
        shutil.copytree(product.path.parent, folder / "runs" / "first")
    graphs = mphil.benchmark("good-motif-basis", graphs=600).store.to_pyg()
    monkeypatch.setattr("torch_geometric.datasets.TUDataset", lambda folder, name: graphs)  # it would be downloaded
    session = Session(folder, commands)
    try:
        for block in blocks(page):
            session.follow(block)
    finally:
        session.leave()


def _commands_of(page: Path) -> list[str]:
    typed = [command for block in blocks(page) if block.kind == "sh" for command in block.commands]
    return [text[text.index("mphil ") :] for text in typed if re.match(r"mphil |docker run .* mphil |torchrun ", text)]


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs" / "reference").glob("*.md"))], ids=lambda p: p.name)
def test_commands_and_options_exist(page):
    for text in [*_commands_of(page), *inline_commands(page)]:
        group, rest = get_command(app), [word for word in text.split()[1:] if word != "..."]
        while hasattr(group, "commands") and rest and not rest[0].startswith("-") and rest[0] in group.commands:
            group = group.commands[rest.pop(0)]
        verbs = getattr(group, "commands", None)
        assert not (verbs and rest and re.match(r"[a-z]+$", rest[0])), f"{page.name}: {text}"
        known = {flag for option in group.params for flag in (*option.opts, *option.secondary_opts)}
        used = {word.split("=")[0].rstrip(",;") for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known | {"--help", "--version"}, f"{page.name}: {text}"


def test_commands_stand_in_blocks():
    """A command that begins a line of text was not indented: it would be shown as text and never run."""
    for page in PAGES:
        typed = {command[:20] for block in blocks(page) for command in block.commands}
        texts = [line.split(" #")[0] for line in page.read_text().splitlines() if re.match(r" *mphil [a-z]+ ", line)]
        lines = [" ".join(text.split()) for text in texts]
        assert [line for line in lines if line[:20] not in typed] == [], page


def test_what_does_not_run_is_there():
    """A reason that no command has any more is taken away."""
    typed = [c for page in PAGES for block in blocks(page) if block.kind == "sh" for c in block.commands]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, command) for command in typed), pattern
