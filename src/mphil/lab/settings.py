"""The settings of a cell: all filled in without building the data, and told apart from the defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mphil.benchmarks.base import BENCHMARKS
from mphil.config import EncoderConfig, TrainConfig, check_arguments, keyword_arguments
from mphil.errors import UnknownName
from mphil.methods.base import METHODS
from mphil.methods.published import PRESET, published_encoder
from mphil.training.settings import SECTIONS, Wanted, checked, hyperparameters, split_assignment


def resolved(wanted: Wanted) -> dict[str, dict[str, Any]]:
    """Every key checked and every default filled in, without building the data.

    The encoder keeps what was set: what a benchmark recommends for it is known once it is built.
    """
    for section in wanted:
        if section not in SECTIONS:
            raise UnknownName("section of settings", section, SECTIONS)
    data, method = dict(wanted["benchmark"]), dict(wanted["method"])
    name, preset = str(data.pop("name")), method.pop("preset", None)
    cls = METHODS[str(method.pop("name"))]
    authors = published_encoder(cls.name, name) if preset == PRESET else {}
    encoder = authors | dict(wanted.get("encoder", {}))
    settings = {
        "benchmark": {"name": name} | check_arguments(BENCHMARKS[name].build, data, f"benchmark {name}"),
        "method": {"name": cls.name} | hyperparameters(cls, preset, method, name),
        "encoder": checked(EncoderConfig, "encoder", encoder).model_dump(include=set(encoder)),
        "train": checked(TrainConfig, "train", wanted.get("train", {})).model_dump(),
    }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(settings))
    return plain


def changed(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings that are not the defaults, as `section.key`."""
    method, name = METHODS[str(settings["method"]["name"])], str(settings["benchmark"]["name"])
    defaults = {
        "benchmark": keyword_arguments(BENCHMARKS[name].build),
        "method": keyword_arguments(method.__init__),
        "encoder": {},
        "train": TrainConfig().model_dump(),
    }
    plain = json.loads(json.dumps(defaults))
    return {
        f"{section}.{key}": value
        for section, values in settings.items()
        for key, value in values.items()
        if not (key == "name" and section in ("method", "benchmark"))
        and not (key in plain[section] and plain[section][key] == value)
    }


def toml(value: Any) -> str:
    """A value so that `--set` reads it back.

    Example:
        >>> toml(True), toml([1, 2]), toml("ema-hard"), toml("3")
        ('true', '[1, 2]', 'ema-hard', '"3"')
    """
    if isinstance(value, str) and value == value.strip() and split_assignment(f"key={value}")[1] == value:
        return value
    return json.dumps(value)
