"""`mphil doctor` says what runs and why."""

import json
import os

import pytest

from mphil.nn.fast import library
from tests.command import call


@pytest.fixture(autouse=True)
def asked_again():
    """What runs is decided once in a process; here it is decided in every test."""
    library.status.cache_clear()
    yield
    library.status.cache_clear()


def facts():
    ended = call("doctor", "--json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def test_everything_is_there():
    found = facts()
    assert found["cache folder"] == os.environ["MPHIL_CACHE"]
    assert found["torch threads"] >= 1
    assert found["encoder on the CPU"] in ("fast", "pure torch")
    assert "missing" not in found.values()


def test_why_it_is_not_fast(monkeypatch):
    monkeypatch.setenv("MPHIL_FAST", "0")
    found = facts()
    assert found["encoder on the CPU"] == "pure torch"
    assert "MPHIL_FAST=0" in found["because"]


def test_for_people():
    out = call("doctor").out
    assert "cache folder" in out
    assert "torch threads" in out
