"""From what a user asked for to the settings of a run: signature < preset < TOML file < --set."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mphil.benchmarks.catalogue import Benchmark, benchmark
from mphil.config import EncoderConfig, NamedArgs, RunConfig, Settings, TrainConfig
from mphil.errors import UnknownName, UsageError
from mphil.methods.base import METHODS, Method, resolve_hyperparameters
from mphil.methods.published import PRESET, published, published_encoder
from mphil.nn.encoders import admit
from mphil.training.recipe import MOLECULES
from mphil.training.trainable import default_env_per_batch

SECTIONS = ("benchmark", "method", "encoder", "train")

Wanted = dict[str, Any]
"""Nested settings: sections `benchmark` and `method` (with their `name`), `encoder`, `train`; and `seed`."""


def read_toml(path: Path) -> Wanted:
    """Settings from a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None


def parse_assignment(text: str) -> Wanted:
    """Settings from `section.key=value`.

    Example:
        >>> parse_assignment("method.temperature=0.2")
        {'method': {'temperature': 0.2}}
    """
    wanted = "section.key=value, such as train.epochs=20"
    key, value = split_assignment(text, wanted)
    section, _, name = key.partition(".")
    if not name and section != "seed":
        raise UsageError(f"--set {text!r}: write {wanted}")
    return {section: {name: value}} if name else {section: value}


def split_assignment(text: str, wanted: str = "key=value") -> tuple[str, Any]:
    """Key and value of `key=value`; the value is read as TOML, or else taken as it stands.

    Example:
        >>> split_assignment("graphs=600"), split_assignment("mode = fast")
        (('graphs', 600), ('mode', 'fast'))
    """
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key:
        raise UsageError(f"--set {text!r}: write {wanted}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def merge(layers: Iterable[Wanted]) -> Wanted:
    """Later layers win, key by key; a benchmark or method given as plain text is its name."""
    merged: Wanted = {}
    for layer in layers:
        for section, values in layer.items():
            if section not in SECTIONS:
                merged[section] = values
                continue
            if section in ("benchmark", "method") and isinstance(values, str):
                values = {"name": values}
            if not isinstance(values, Mapping):
                raise UsageError(f"{section}={values!r}: a section of settings is expected, such as [{section}]")
            merged[section] = merged.get(section, {}) | dict(values)
    return merged


def resolve(wanted: Wanted, data: Benchmark | None = None) -> tuple[RunConfig, Benchmark]:
    """Check every key, fill in every default, and build the benchmark unless it is given.

    An encoder of the user's own is imported here, and tried; stored settings never come this way.

    Args:
        wanted: what the user set, as merged from all layers.
        data: a benchmark that is already built.

    Returns:
        The full settings of the run, and its data.
    """
    for section in wanted:
        if section not in (*SECTIONS, "seed"):
            raise UnknownName("setting", section, (*SECTIONS, "seed"))
    method_args, encoder = dict(wanted.get("method", {})), dict(wanted.get("encoder", {}))
    method_name = _name("method.name", method_args.pop("name", "mphil"))
    preset = method_args.pop("preset", None)
    if preset is not None:
        _name("method.preset", preset)
    name = wanted.get("benchmark", {}).get("name", "") if data is None else data.name
    method_args = hyperparameters(METHODS[method_name], preset, method_args, name)
    for key in ("node", "edge"):
        if key in encoder:
            raise UsageError(f"encoder.{key} comes from the data and cannot be set")
    data = _data(dict(wanted.get("benchmark", {})), data)
    features = {"node": data.store.node_features, "edge": data.store.edge_features}
    authors = published_encoder(method_name, name) if preset == PRESET else {}
    encoder = {**data.encoder, **authors, **encoder, **features}
    train = checked(TrainConfig, "train", wanted.get("train", {}))
    if train.start not in ("", MOLECULES):  # a run may be resumed in another folder
        train = train.model_copy(update={"start": str(Path(train.start).absolute())})
    if train.env_per_batch is None:
        train = train.model_copy(
            update={"env_per_batch": default_env_per_batch(METHODS[method_name], data, train.batch_size)}
        )
    config = checked(
        RunConfig,
        "",
        {
            "benchmark": NamedArgs(name=data.name or "unnamed", args=dict(data.args)),
            "method": NamedArgs(name=method_name, args=method_args),
            "encoder": checked(EncoderConfig, "encoder", encoder),
            "train": train,
            "seed": wanted.get("seed", 0),
        },
    )
    admit(config.encoder)
    return config, data


def hyperparameters(
    method: type[Method], preset: str | None, given: Mapping[str, Any], benchmark: str
) -> dict[str, Any]:
    """Resolved as everywhere; one preset, which all methods have, also depends on the benchmark."""
    if preset == PRESET:
        return resolve_hyperparameters(method, None, published(method.name, benchmark) | dict(given))
    if preset is not None and preset not in method.presets:
        raise UnknownName(f"preset of method {method.name}", preset, [*method.presets, PRESET])
    return resolve_hyperparameters(method, preset, given)


def _data(args: dict[str, Any], built: Benchmark | None) -> Benchmark:
    if built is not None:
        if args:
            raise UsageError(f"benchmark.{next(iter(args))}: the benchmark is already built; set it where it is built")
        return built
    if "name" not in args:
        raise UsageError("no benchmark given; name one with --benchmark, see `mphil benchmarks`")
    return benchmark(_name("benchmark.name", args.pop("name")), **args)


def _name(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{key}={value!r}: a name is expected")
    return value


S = TypeVar("S", bound=Settings)


def checked(model: type[S], section: str, values: Mapping[str, Any]) -> S:
    """The settings of a section; a wrong one is named, an unknown one gets a suggestion."""
    try:
        return model(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        message = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:  # a rule about several settings at once
            raise UsageError(f"{section}: {message}") from None
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            raise UnknownName(f"{section} setting", key, model.model_fields) from None
        raise UsageError(f"{section}.{key}={problem['input']!r}: {message}".lstrip(".")) from None
