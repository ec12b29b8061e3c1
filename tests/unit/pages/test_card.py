"""The card of a model: everything that is in the bundle's files, and nothing that could run."""

import re

import pytest

from mphil.model.bundle.folder import trust_values
from mphil.pages.card import card_page


@pytest.fixture
def values(product):
    """What a card is made of; free to be changed."""
    import copy

    bundle = product.bundle
    return copy.deepcopy(
        [bundle.config.model_dump(mode="json"), dict(bundle.metrics), trust_values(bundle.trust), "ab" * 32]
    )


def text_of(page):
    return " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_it_says_what_the_files_say(values, product):
    config, metrics, trust, _ = values
    text = text_of(card_page(*values))
    for name, found in metrics["scores"].items():
        row = " ".join(["–" if found[part] is None else f"{found[part]:.3f}" for part in ("id_test", "ood_test")])
        assert f"{name} {row}" in text
    assert f"epoch {metrics['epoch']}" in text
    assert "108, of which 2 were excluded" in text
    assert config["data"]["split_digest"] in text
    assert config["data"]["data_digest"] in text
    assert "ab" * 32 in text
    assert f"rdkit {config['versions']['rdkit']}" in text
    assert f"{trust['bands']['out']:.3g}" in text
    for heading in (
        "Scores",
        "Are the probabilities calibrated?",
        "Sets of classes",
        "In or out of domain",
        "Data",
        "Limits",
    ):
        assert heading in text
    assert product.bundle.card == card_page(*values[:3], product_weights(product))


def product_weights(product):
    import hashlib

    return hashlib.sha256((product.path / "model.safetensors").read_bytes()).hexdigest()


def test_coverage_is_shown_beside_the_promise(values):
    covered = values[1]["trust"]["parts"]["ood_test"]["coverage"]["covered"]
    text = text_of(card_page(*values))
    assert "90 % is the aim" in text
    assert f"OOD test {100 * covered:.1f} %" in text


def test_names_from_a_table_cannot_become_markup(values):
    config, *rest = values
    evil = "<script>alert(1)</script>`x"
    config["targets"] = [evil]
    config["classes"] = [evil, evil]
    config["data"] |= {"file": evil, "split": evil}
    config["molecules"]["column"] = evil
    config["versions"] = {evil: evil}
    page = card_page(config, *rest)
    assert "<script" not in page
    assert "script-src 'none'" in page


def test_what_is_left_out_says_why(values):
    config, metrics, trust, weights = values
    trust["conformal"] = None
    metrics["left_out"] = {"conformal sets": "id_val has no labels", "random forest": "it takes molecules"}
    for found in metrics["trust"]["parts"].values():
        found["coverage"] = None
    text = text_of(card_page(config, metrics, trust, weights))
    assert "There are none: id_val has no labels." in text
    assert "Not compared with a random forest: it takes molecules." in text


def test_scores_that_are_not_defined(values):
    config, metrics, trust, weights = values
    metrics["scores"]["mphil"] = {"id_test": None, "ood_test": None}
    del metrics["trust"]["ood_auroc"]
    text = text_of(card_page(config, metrics, trust, weights))
    assert "MPHIL: no ROC-AUC on the shifted test part" in text


def test_labels_of_a_few_targets_are_told_one_by_one(values):
    config, metrics, trust, weights = values
    config["targets"] = ["toxic", "stable"]
    config["data"]["labels"] = {part: [{"0": 12, "1": 3}, {}] for part in config["data"]["labels"]}
    no, yes = config["classes"]
    assert f"training toxic: {no}: 12, {yes}: 3; stable: – " in text_of(card_page(config, metrics, trust, weights))


def test_many_classes_and_many_tasks(values):
    config, metrics, trust, weights = values
    config["targets"] = [f"task {n}" for n in range(30)]
    config["data"]["labels"] = {part: [{"0": 1}] * 30 for part in config["data"]["labels"]}
    text = text_of(card_page(config, metrics, trust, weights))
    assert "predicts 30 targets" in text
    assert "training 30 targets " in text


def test_without_a_test_part_it_says_which_parts_calibrated(values):
    config, metrics, trust, weights = values
    metrics["trust"] = {"parts": {}, "histogram": metrics["trust"]["histogram"]}
    text = text_of(card_page(config, metrics, {**trust, "calibrated_on": ["id_val", "ood_val"]}, weights))
    assert "Probabilities were calibrated on ID validation and OOD validation; sets and bands were fitted on ID" in text
    older = text_of(card_page(config, metrics, {**trust, "calibrated_on": []}, weights))
    assert "Probabilities were calibrated on ID validation; sets" in older
