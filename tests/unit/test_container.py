"""The Dockerfile, as far as it can be judged without building it."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.command import call

ROOT = Path(__file__).parents[2]
KNOWN = {"FROM", "WORKDIR", "ARG", "RUN", "ENV", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """Instruction and arguments of every step, continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def of(steps, name):
    return [rest for instruction, rest in steps if instruction == name]


def test_every_instruction_is_one(steps):
    assert {name for name, _ in steps} <= KNOWN
    assert [name for name, _ in steps[:2]] == ["ARG", "FROM"]


def test_images_are_slim_and_of_a_version_we_support(steps):
    images = [rest.split()[0] for rest in of(steps, "FROM")]
    assert set(images) == {"${BASE}"}
    assert of(steps, "ARG")[0] == "BASE=python:3.11-slim"


def test_what_is_copied_is_there_and_not_ignored(steps):
    ignore = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignore[0] == "*"
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = [name for rest in of(steps, "COPY") if "--from" not in rest for name in rest.split()[:-1]]
    assert set(copied) == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_nothing_else_reaches_the_image():
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    for name in (".git", ".venv", "runs", "demo", "tests"):
        assert f"!{name}" not in ignore
        assert any(fnmatch.fnmatch(name, line) for line in ignore if line and not line.startswith(("#", "!")))


def test_versions_are_pinned_and_torch_can_be_for_the_cpu(steps):
    installs = [rest for rest in of(steps, "RUN") if rest.startswith("pip install")]
    assert installs
    assert all("-c constraints.txt" in rest for rest in installs)
    assert '${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch' in installs[0]
    assert re.search(r"^torch==\d", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_the_loops_are_compiled_before_the_last_image_begins(steps):
    """Where the package is installed there is a compiler, and setup.py, which uses it."""
    built = next(place for place, (name, rest) in enumerate(steps) if name == "RUN" and "'.[serve]'" in rest)
    last = max(place for place, (name, _) in enumerate(steps) if name == "FROM")
    assert built < last
    assert any("gcc" in rest for name, rest in steps[:built] if name == "RUN")
    assert any("setup.py" in rest.split() for name, rest in steps[:built] if name == "COPY")
    assert not any("MPHIL_FAST" in rest for rest in of(steps, "ENV"))


def test_it_runs_without_rights(steps):
    order = [name for name, _ in steps]
    assert of(steps, "USER") == ["mphil"]
    assert order.index("USER") > max(place for place, name in enumerate(order) if name == "RUN")


def test_the_command_is_one_of_ours(steps):
    entry, command = (json.loads(of(steps, name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["mphil"]
    verb, bundle, *options = command
    assert bundle == of(steps, "VOLUME")[0]
    assert options[options.index("--port") + 1] == of(steps, "EXPOSE")[0]
    told = call(verb, "--help").out
    assert all(option in told for option in options if option.startswith("--"))


def test_health_is_asked_where_the_server_answers(steps):
    program = json.loads(of(steps, "HEALTHCHECK")[0].split("CMD ")[1])
    assert f":{of(steps, 'EXPOSE')[0]}/healthz" in program[2]
    compile(program[2], "health", "exec")


def test_the_documents_show_the_same_port_and_volume(steps):
    text = (ROOT / "docs" / "how-to" / "export.md").read_text()
    run = next(line.strip() for line in text.splitlines() if "docker run" in line and ":/bundle" in line)
    assert f":{of(steps, 'EXPOSE')[0]}" in run
    assert shlex.split(run)[-1] == "mphil"
