"""What was chosen for a training, why, and how to choose otherwise: a section of the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mphil.pages.elements import MISSING
from mphil.pages.template import Section
from mphil.pages.view import PART_NAMES

Values = Mapping[str, Any]

QUESTIONS = {
    "scaffold": "it asks about ring systems that training has not seen",
    "cluster": "it asks about molecules unlike those of training",
    "size": "it asks about other sizes than those of training",
    "time": "it asks about what came later than training",
    "random": "it asks about rows like those of training",
    "predefined": "the table says which row is in which part",
}


def choices_section(config: Values) -> Section | None:
    """Every choice with its reason and the option that changes it; None where no file was trained on."""
    data = config["data"]
    if "duplicates" not in data:
        return None
    facts = [("Answer", _answer(config)), ("Split", _split(data)), ("Models", _models(config))]
    if networks(config):
        facts += [("Epoch", _epoch(config)), ("Training", _training(config))]
    if config["molecules"]:
        facts += [("Molecules", _molecules(config["molecules"])), ("Contradicting rows", _duplicates(config))]
    return Section("choices", "What was chosen, and why", facts=facts)


def networks(config: Values) -> int:
    """How many networks answer; 0 when trees answer alone."""
    committee = config.get("committee")
    return sum(one["kind"] == "network" for one in committee["members"]) if committee else 1


def _answer(config: Values) -> str:
    if config["task"]["kind"] == "regression":
        return "numbers, since the labels are measurements; --threshold NUMBER makes two classes"
    classes = ", ".join(config["classes"][:4]) + (", ..." if len(config["classes"]) > 4 else "")
    if threshold := config["data"].get("threshold"):
        return f"{classes}: active is {threshold}, as --threshold says"
    return f"{classes}, since the labels are few different values; --target names other columns"


def _split(data: Values) -> str:
    why = QUESTIONS.get(data["split"], "it asks about values that training has not seen")
    return f"{data['split']}: {why}; --split chooses another, --test FILE an external test set"


def _models(config: Values) -> str:
    committee = config.get("committee")
    if not committee:
        return f"one network, {config['method']['name']}, as --fast says; without it, a committee"
    members = committee["members"]
    if len(members) == 1:
        return f"{members[0]['name']}, as --method says; without it, a committee"
    count = networks(config)
    trees = len(members) - count
    told = f"{count} network{'s' if count > 1 else ''}"
    told += f" and {trees} ensembles of trees" if trees else ""
    return f"{told}, since models of several kinds make different mistakes; --members, --method and --fast change it"


def _epoch(config: Values) -> str:
    part = PART_NAMES[config["selection"]]
    why = "its rows are as new as those to come" if config["selection"] == "ood_val" else "its labels can be scored"
    return f"the best on {part}, since {why}; --selection chooses on the other part"


def _training(config: Values) -> str:
    settings, rows = config["data"]["settings"], config["data"]["parts"]["train"]
    if not {"epochs", "batch_size", "lr"} <= settings.keys():
        return MISSING
    told = f"{settings['epochs']} epochs, batches of {settings['batch_size']}, learning rate {settings['lr']:g}"
    start = " and the pretrained weights that networks start from" if settings.get("start") else ""
    return f"{told}: by the number of training rows, {rows:,}{start}; --set train.epochs=30 and the like change it"


def _molecules(reading: Values) -> str:
    if reading["standardised"] == "none":
        return "as they are written, as --no-standardise says"
    return (
        "the largest organic fragment, neutralised where that is safe, since a salt and its parent are one molecule; "
        "--no-standardise leaves them as they are"
    )


def _duplicates(config: Values) -> str:
    rule = config["data"]["duplicates"]
    if rule == "majority" and config["task"]["kind"] == "regression":
        rule = "median"
    told = {"keep": "all are kept", "drop": "all are dropped"}.get(rule, f"their {rule} is taken")
    return f"{told}; --duplicates keep, drop or majority chooses"
