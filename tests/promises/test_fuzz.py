"""Parsers under inputs that hypothesis makes up: a value, or one of our errors, and nothing else."""

import json
import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mphil.chem.parse import SmilesError, parse_smiles
from mphil.config import RunConfig
from mphil.errors import MphilError
from mphil.lab.suite import parse_suite
from mphil.model.bundle import read_bundle
from mphil.serve.schemas import ExplainRequest, PredictRequest
from mphil.tables.read import open_table
from tests.bundles import written
from tests.mutated import SEEDS
from tests.security.test_bundles import seal

EXAMPLES = int(os.environ.get("MPHIL_FUZZ", "60"))
"""`MPHIL_FUZZ=20000 pytest tests/promises/test_fuzz.py` fuzzes for longer."""

bounded = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
signs = st.sampled_from("CNOPSFIBcnops[]()=#$:/\\@+-.%0123456789H*~>")


@bounded
@given(st.text(max_size=80) | st.text(signs, max_size=80) | st.sampled_from(SEEDS).flatmap(lambda s: st.just(s[::-1])))
def test_smiles(text):
    with suppress(SmilesError):
        assert parse_smiles(text).GetNumAtoms()


@bounded
@given(
    content=st.binary(max_size=400),
    suffix=st.sampled_from([".csv", ".tsv", ".smi", ".sdf", ".xlsx", ".parquet", ".gz"]),
)
def test_tables(tmp_path, content, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with suppress(MphilError):
        open_table(path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = written(tmp_path_factory.mktemp("fuzz") / "bundle")
    return folder, {name: json.loads((folder / name).read_text()) for name in ("config.json", "trust.json")}


@settings(bounded, max_examples=max(20, EXAMPLES // 3))
@given(data=st.data())
def test_bundles(bundle, data):
    folder, whole = bundle
    name = data.draw(st.sampled_from(sorted(whole)))
    spoilt = json.loads(json.dumps(whole[name]))
    key = data.draw(st.sampled_from(sorted(spoilt)))
    inner = spoilt[key] if isinstance(spoilt[key], dict) and spoilt[key] else spoilt
    inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(values)
    try:
        (folder / name).write_text(json.dumps(spoilt))
        seal(folder)
        with suppress(MphilError):
            read_bundle(folder)
    finally:
        for one, content in whole.items():
            (folder / one).write_text(json.dumps(content))


@bounded
@given(values)
def test_settings(value):
    with suppress(ValueError, MphilError):
        RunConfig.model_validate(value)


@bounded
@given(st.text(max_size=60))
def test_suites(text):
    with suppress(MphilError):
        parse_suite("fuzz", text)


@bounded
@given(values | st.fixed_dictionaries({"smiles": values}))
def test_requests(value):
    for schema in (PredictRequest, ExplainRequest):
        with suppress(ValueError):
            schema.model_validate(value)
