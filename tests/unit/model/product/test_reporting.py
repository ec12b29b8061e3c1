"""The report for regulators from a trained bundle."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from mphil.errors import UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.predictor import Predictor
from mphil.model.product.reporting import bundle_chapters, training_fit
from mphil.pages.regulatory import OPEN, open_fields, regulatory_markdown, regulatory_page
from mphil.training.metrics import roc_auc
from tests.command import call
from tests.products import binary_table, make

BAD = "</dd><script>bad()</script>|`"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return make(binary_table(folder / "assay.csv"), folder / "run", method="erm")


@pytest.fixture(scope="module")
def found(made):
    return bundle_chapters(made.path)


def test_all_five_principles(found):
    headings = " ".join(one.heading for one in found)
    assert re.findall(r"OECD principle (\d)", headings) == ["1", "2", "3", "4", "4", "5"]


def test_fields_are_filled_from_the_bundle(made, found):
    fields = {name: text for one in found for name, text in one.facts}
    assert fields["2.1 Endpoint"] == "active"
    assert fields["1.3 Identifier of the bundle (SHA-256)"] == read_bundle(made.path).digest
    assert fields["3.7 Seed"] == "0"
    assert fields["5.1 Training set"].startswith(f"{len(made.bundle.references)} rows")
    assert OPEN in fields["2.5 Experimental protocol"]


def test_goodness_of_fit_by_hand(made, found):
    references = made.bundle.references
    predictor = Predictor(made.bundle)
    said = predictor.predict(list(references.smiles)).probability[:, 0]
    known = references.labels[:, 0] == references.labels[:, 0]
    expected = roc_auc(said[known], references.labels[known, 0].astype(float))
    assert training_fit(predictor) == pytest.approx(expected)
    fields = {name: text for one in found for name, text in one.facts}
    assert fields["5.3 Goodness-of-fit"] == f"ROC-AUC {expected:.3f} on the training rows"


def test_what_a_bundle_cannot_know_is_marked(found):
    left = open_fields(found)
    assert "1.4 Author and contact" in left
    assert "2.6 Data quality" in left
    assert "3.7 Seed" not in left


def test_text_cannot_become_markup(made, tmp_path):
    config = made.bundle.config.model_copy(update={"targets": (BAD,), "data": {**made.bundle.config.data, "file": BAD}})
    write_bundle(tmp_path / "bundle", replace(made.bundle, config=config))
    chapters = bundle_chapters(tmp_path / "bundle")
    assert "<script>bad" not in regulatory_page(chapters)
    text = regulatory_markdown(chapters)
    assert "<script>" not in text.replace("\\<", "")


def test_a_bundle_without_scores(made, tmp_path):
    write_bundle(tmp_path / "bundle", replace(made.bundle, metrics={}))
    with pytest.raises(UsageError, match="no scores to report"):
        bundle_chapters(tmp_path / "bundle")


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_command(made, tmp_path, name):
    ended = call("report", made.folder, "--out", tmp_path / name)
    assert ended.code == 0
    assert "1.4 Author and contact" in ended.out
    text = (tmp_path / name).read_text()
    assert OPEN in text
    assert "applicability (OECD principle 3)" in text
    assert "Errors by verdict" in text


def test_command_as_json_and_its_mistakes(made, tmp_path):
    ended = call("report", made.path, "--out", tmp_path / "r.md", "--json")
    assert "2.5 Experimental protocol" in json.loads(ended.out)["to_be_filled_in"]
    ended = call("report", made.path, "--out", tmp_path / "r.pdf")
    assert ended.code == 2
    assert "a report ends in .md or .html" in ended.err
