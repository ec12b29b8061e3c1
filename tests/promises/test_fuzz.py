"""Parsers under inputs that hypothesis makes up: a value, or one of our errors, and nothing else."""

import gzip
import io
import itertools
import json
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from openpyxl.utils.exceptions import IllegalCharacterError

from mphil.chem.parse import SmilesError, parse_smiles
from mphil.config import RunConfig
from mphil.errors import MphilError
from mphil.lab.records import parse as parse_record
from mphil.lab.suite import parse_suite
from mphil.model.bundle import read_bundle
from mphil.serve.guard import LOCAL, check
from mphil.serve.requests import Refusal
from mphil.serve.schemas import ExplainRequest, PredictRequest
from mphil.tables.inspection import check as check_table
from mphil.tables.read import open_table
from mphil.training.settings import merge, parse_assignment
from tests.bundles import written
from tests.mutated import SEEDS
from tests.promised import amount_of
from tests.security.test_bundles import seal

pytestmark = pytest.mark.promise("fuzzing")

EXAMPLES = 30
"""Of each parser, in `make test` and in each round of `make test-all`."""

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
signs = st.sampled_from("CNOPSFIBcnops[]()=#$:/\\@+-.%0123456789H*~>")
smiles = (
    st.text(max_size=80)
    | st.text(signs, max_size=80)
    | st.lists(st.sampled_from(SEEDS) | st.text(signs, max_size=4), max_size=5).map("".join)
)


class Fuzzed(NamedTuple):
    """What is made up, and what has to stand it: a function of the value and of a folder of its own."""

    inputs: st.SearchStrategy[Any]
    body: Callable[[Any, Path], None]


FUZZED: dict[str, Fuzzed] = {}


def fuzzed(inputs: st.SearchStrategy[Any]) -> Callable[[Callable[[Any, Path], None]], None]:
    def register(body: Callable[[Any, Path], None]) -> None:
        FUZZED[body.__name__] = Fuzzed(inputs, body)

    return register


@fuzzed(smiles)
def molecules(text, folder):
    with suppress(SmilesError):
        assert parse_smiles(text).GetNumAtoms()


@fuzzed(
    st.tuples(
        st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
        st.sampled_from([".csv", ".tsv", ".smi", ".sdf", ".xlsx", ".parquet", ".gz", ""]),
    )
)
def bytes_of_tables(drawn, folder):
    content, suffix = drawn
    path = folder / f"x{suffix}"
    path.write_bytes(content)
    with suppress(MphilError):
        open_table(path)


cells = st.text(max_size=12) | smiles | st.sampled_from(["1", "0", "nan", "inf", "-1e400", "NA", "", '"', "=1+1", "\0"])
rows = st.lists(st.lists(cells, max_size=5), max_size=12)


@fuzzed(st.tuples(rows, st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-16", "latin-1"]), st.booleans()))
def cells_of_tables(drawn, folder):
    table, delimiter, encoding, packed = drawn
    content = "\n".join(delimiter.join(row) for row in [["smiles", "active"], *table]).encode(encoding, "replace")
    path = folder / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    with suppress(MphilError):
        report = check_table(path, workers=0)
        assert len(list(report.survey.statuses())) == report.survey.rows


def workbook(table):
    book = openpyxl.Workbook()
    sheet = book.active
    for row, values_of_row in enumerate(table, 1):
        for column, value in enumerate(values_of_row, 1):
            with suppress(ValueError, IllegalCharacterError):
                sheet.cell(row, column, value)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


@fuzzed(
    st.tuples(
        st.lists(st.lists(cells | st.integers() | st.floats() | st.booleans(), max_size=4), max_size=6),
        st.none() | st.tuples(st.integers(0, 20), st.integers(0, 10_000), st.binary(min_size=1, max_size=20)),
    )
)
def spreadsheets(drawn, folder):
    """A workbook, in one part of which some bytes are others; the archive itself is whole."""
    table, damage = drawn
    content = workbook([["smiles", "active"], *table])
    if damage is not None:
        number, place, junk = damage
        parts = zipfile.ZipFile(io.BytesIO(content))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for index, name in enumerate(parts.namelist()):
                data = parts.read(name)
                at = place % max(1, len(data))
                spoilt = index == number % len(parts.namelist())
                archive.writestr(name, data[:at] + junk + data[at + len(junk) :] if spoilt else data)
        content = buffer.getvalue()
    path = folder / "x.xlsx"
    path.write_bytes(content)
    with suppress(MphilError):
        open_table(path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = written(tmp_path_factory.mktemp("fuzz") / "bundle")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    FUZZED["bundles"] = Fuzzed(st.data(), lambda data, _: spoil_bundle(folder, files, data))


def spoil_bundle(folder, files, data):
    """Some value of a file is another one, or some bytes are; the checksums are right."""
    name = data.draw(st.sampled_from(sorted(files)))
    if name.endswith(".json") and data.draw(st.booleans()):
        spoilt = json.loads(files[name])
        inner = spoilt
        while isinstance(inner, dict) and inner:
            key = data.draw(st.sampled_from(sorted(inner)))
            if not isinstance(inner[key], dict) or data.draw(st.booleans()):
                inner[key] = data.draw(values)
                break
            inner = inner[key]
        content = json.dumps(spoilt).encode()
    else:
        place, junk = data.draw(st.integers(0, len(files[name]))), data.draw(st.binary(max_size=20))
        content = files[name][:place] + junk + files[name][place + data.draw(st.sampled_from([0, len(junk)])) :]
    try:
        (folder / name).write_bytes(content)
        if name != "manifest.json":
            seal(folder)
        with suppress(MphilError):
            read_bundle(folder)
    finally:
        for one, whole in files.items():
            (folder / one).write_bytes(whole)


names = st.sampled_from(["benchmark", "method", "encoder", "train", "seed", "name", "args", "lr", "epochs", "width"])
configs = st.recursive(
    scalars, lambda inner: st.dictionaries(names | st.text(max_size=8), inner, max_size=5) | st.lists(inner, max_size=3)
)


@fuzzed(values | configs)
def configurations(value, folder):
    with suppress(ValueError, MphilError):
        RunConfig.model_validate(value)


@fuzzed(st.lists(st.text(max_size=20) | st.tuples(names, names, scalars).map(lambda t: f"{t[0]}.{t[1]}={t[2]}")))
def settings_of_the_command(texts, folder):
    with suppress(MphilError):
        merge([parse_assignment(text) for text in texts])


@fuzzed(st.text(max_size=60) | st.tuples(names, values).map(lambda t: f"{t[0]} = {json.dumps(t[1])}"))
def suites(text, folder):
    with suppress(MphilError):
        parse_suite("fuzz", text)


@fuzzed(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
def records(line, folder):
    with suppress(ValueError, MphilError):
        parse_record(line)


@fuzzed(values | st.fixed_dictionaries({"smiles": values}) | st.fixed_dictionaries({"smiles": st.lists(smiles)}))
def requests(value, folder):
    for schema in (PredictRequest, ExplainRequest):
        with suppress(ValueError, Refusal):
            schema.model_validate(value)


headers = st.dictionaries(
    st.sampled_from(["host", "origin", "sec-fetch-site", "content-type", "content-length"]),
    st.text(max_size=20) | st.sampled_from(["localhost", "[::1]:1", "http://localhost", "application/json", "²", "-1"]),
)


@fuzzed(st.tuples(st.sampled_from(["GET", "POST", "DELETE", "X"]), st.text(max_size=20), headers))
def heads_of_requests(drawn, folder):
    method, path, head = drawn
    with suppress(Refusal):
        check(method, path, head, LOCAL)


def explore(name: str, folder: Path, number: int) -> None:
    """One round: the same number makes up the same inputs."""
    inputs, body = FUZZED[name]
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    profile = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=quiet)
    seed(number)(profile(given(inputs)(lambda drawn: body(drawn, folder))))()


NAMES = (*FUZZED, "bundles")


@pytest.mark.parametrize("name", NAMES)
def test_briefly(tmp_path, bundle, name):
    explore(name, tmp_path, 0)


@pytest.mark.slow
def test_at_length(tmp_path, bundle, figure):
    """Inputs that no run before has tried: a failure names its number, with which `explore` makes it up again."""
    begun, minutes, first = time.monotonic(), amount_of("minutes of fuzzing", "full"), int(time.time())
    for rounds, name in enumerate(itertools.cycle(NAMES)):
        if time.monotonic() - begun > 60 * minutes:
            break
        try:
            explore(name, tmp_path, first + rounds)
        except BaseException as error:
            error.add_note(f"explore({name!r}, folder, {first + rounds})")
            raise
    assert rounds >= len(NAMES)
    figure(f"{len(NAMES)} parsers, {minutes} minutes, {rounds * EXAMPLES:,} inputs, first number {first}")
