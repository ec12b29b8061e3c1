"""A bundle to a folder and back; whatever a file holds is checked before it is used."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as render_arrays
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from mphil.chem.describe import BITS, FEATURES_NAME, FINGERPRINT
from mphil.chem.schema import SCHEMAS
from mphil.chem.substructures import Seen
from mphil.config import EncoderConfig, NamedArgs
from mphil.errors import IntegrityError, MphilError, UsageError
from mphil.limits import MAX_REFERENCE_BYTES
from mphil.methods.base import build_method
from mphil.model.bundle.contents import Bundle, BundleConfig, HeldOut, References, Score, Trust
from mphil.model.bundle.manifest import (
    CARD,
    CONFIG,
    HELD_OUT,
    MEMBERS,
    METRICS,
    MODEL,
    MOLECULES,
    PARTS,
    REFERENCES,
    REMEDY,
    SEEN,
    TRUST,
    read_files,
    render_json,
    write_files,
)
from mphil.model.bundle.members_file import parse_members, render_members
from mphil.model.bundle.retired import renewed
from mphil.model.committee.trees import Trees
from mphil.nn.encoders import encoder_class
from mphil.nn.memory import Memory
from mphil.registry import Plugin
from mphil.training.plugged import check_plugins
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal, Intervals
from mphil.trust.ood import Bands

SMILES = "smiles"
ID = "id"
SPARE = 1_000
"""Weights that a method may make while it is built, beside ten for each that it keeps."""


def write_bundle(folder: Path, bundle: Bundle) -> None:
    """Put a bundle in the place of `folder`; a bundle that is there stays whole until the new one is.

    Args:
        folder: where to.
        bundle: what.
    """
    references = bundle.references
    arrays = {"embeddings": references.embeddings, "labels": references.labels, "rows": references.rows}
    if references.fingerprints is not None:
        arrays["fingerprints"] = references.fingerprints
    files = {
        MODEL: _rendered_state(bundle.state),
        CONFIG: render_json(bundle.config.model_dump(mode="json")),
        TRUST: render_json(trust_values(bundle.trust)),
        REFERENCES: render_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}),
        METRICS: render_json(dict(bundle.metrics)),
        CARD: bundle.card.encode(),
    }
    if references.smiles is not None:
        files[MOLECULES] = _packed(references.smiles, references.names)
    if references.seen is not None:
        files[SEEN] = render_json({name: sorted(found) for name, found in vars(references.seen).items()})
    if bundle.held_out is not None:
        files[HELD_OUT] = bundle.held_out.render()
    if bundle.config.committee is not None:
        files[MEMBERS] = render_members(bundle.networks, bundle.trees)
    write_files(folder, files)


def read_bundle(folder: Path | str) -> Bundle:
    """The bundle in a folder, every file checked.

    Raises:
        UsageError: there is no bundle in the folder.
        IntegrityError: it is damaged, of another format, or was made by a featuriser that this version does not have.
    """
    folder = Path(folder)
    files, digest = read_files(folder)
    config = _config(folder, files[CONFIG])
    state = _tensors(folder / MODEL, files[MODEL])
    if config.has_network:
        _check_model(folder, config, config.method, config.encoder, state, MODEL)
    elif state:
        raise _unusable(folder / MODEL, "it has weights, and the settings tell of no network")
    networks, trees = _members(folder, files.get(MEMBERS), config)
    return Bundle(
        config=config,
        state=state,
        trust=_trust(folder, files[TRUST], config),
        references=_references(folder, files, config),
        metrics=_object(folder / METRICS, files[METRICS]),
        card=files[CARD].decode("utf-8", "replace"),
        path=folder,
        digest=digest,
        held_out=_held_out(folder, files.get(HELD_OUT), config),
        networks=networks,
        trees=trees,
    )


def trust_values(trust: Trust) -> dict[str, Any]:
    """Plain values, for JSON."""
    return {
        "score": trust.score,
        "fitted_on": trust.fitted_on,
        "calibration": trust.calibration.to_dict(),
        "conformal": None if trust.conformal is None else trust.conformal.to_dict(),
        "bands": None if trust.bands is None else trust.bands.to_dict(),
        "left_out": dict(trust.left_out),
        "intervals": None if trust.intervals is None else trust.intervals.to_dict(),
        "calibrated_on": list(trust.calibrated_on),
    }


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of the file that the weights are written to."""
    return hashlib.sha256(_rendered_state(state)).hexdigest()


def _rendered_state(state: Mapping[str, Tensor]) -> bytes:
    # safetensors takes neither strided tensors nor two names for one memory.
    return render_tensors({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()})


def _config(folder: Path, data: bytes) -> BundleConfig:
    values = _object(folder / CONFIG, data)
    values.pop(PARTS, None)
    try:
        plugins = TypeAdapter(tuple[Plugin, ...]).validate_python(values.get("plugins", ()))
    except ValidationError as error:
        raise _unusable(folder / CONFIG, f"plugins: {error.errors()[0]['msg']}") from None
    check_plugins(str(folder), plugins)
    try:
        config = renewed(BundleConfig.model_validate(values))
    except (ValidationError, MphilError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise _unusable(folder / CONFIG, reason) from None
    reading = config.molecules
    if reading is not None:
        for what, made, ours in (
            ("featuriser", reading.featuriser, SCHEMAS[reading.features].name),
            ("fingerprint", reading.fingerprint, FINGERPRINT),
        ):
            if made != ours:
                raise IntegrityError(
                    f"{folder}: made with {what} {made[:60]!r}, this mphil has {ours!r}; use the mphil that made it "
                    f"({config.versions.get('mphil', 'unknown version')}), or train again"
                )
    return config


def _members(
    folder: Path, data: bytes | None, config: BundleConfig
) -> tuple[dict[str, dict[str, Tensor]], dict[str, tuple[Trees, ...]]]:
    """The members of a committee beside the first network, all checked."""
    committee = config.committee
    if (committee is None) != (data is None):
        raise _unusable(folder / MEMBERS, "it and the settings do not both tell of a committee")
    if committee is None or data is None:
        return {}, {}
    if committee.features not in (None, FEATURES_NAME):
        raise IntegrityError(
            f"{folder}: made with features {str(committee.features)[:60]!r}, this mphil has {FEATURES_NAME!r}; "
            f"use the mphil that made it ({config.versions.get('mphil', 'unknown version')}), or train again"
        )
    try:
        networks, trees = parse_members(data, committee, config.task)
    except (SafetensorError, KeyError, ValueError, RuntimeError, MphilError) as error:
        raise _unusable(folder / MEMBERS, str(error).splitlines()[0]) from None
    for member in committee.members[1:]:
        if member.method is not None:
            encoder = config.encoder_of(member)
            _check_model(folder, config, member.method, encoder, networks[member.name], MEMBERS)
    return networks, trees


def _check_model(
    folder: Path,
    config: BundleConfig,
    described: NamedArgs,
    encoder: EncoderConfig,
    state: Mapping[str, Tensor],
    file: str,
) -> None:
    """The weights are those of the model that the settings describe; no memory is taken for it before that is known."""
    try:
        encoder_class(encoder.kind)
    except UsageError as error:
        raise UsageError(f"{folder}: {error}") from None
    try:
        with torch.device("meta"), _at_most(SPARE + 10 * len(state)):
            method = build_method(described.name, config.task, encoder, described.args)
    except (MphilError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise _unusable(folder / CONFIG, str(error).splitlines()[0]) from None
    # What a method remembers of the training graphs has as many rows as there were graphs.
    growing = {f"{name}.values" for name, module in method.named_modules() if isinstance(module, Memory)}
    wanted, found = (
        {name: (tensor.dtype, tuple(tensor.shape[name in growing :])) for name, tensor in tensors.items()}
        for tensors in (method.state_dict(), state)
    )
    if wanted != found:
        name = next(name for name in sorted(wanted | found) if wanted.get(name) != found.get(name))
        raise _unusable(folder / file, f"the weights {name[:60]!r} are not those of {described.name}")
    if not all(tensor.isfinite().all() for tensor in state.values() if tensor.is_floating_point()):
        raise _unusable(folder / file, "a weight is not a finite number")


@contextmanager
def _at_most(most: int) -> Iterator[None]:
    """Stop whoever builds a network of more weights: a million layers take long, even without memory.

    Raises:
        ValueError: there are more.
    """
    thread, count = threading.get_ident(), 0

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count
        count += threading.get_ident() == thread
        if count > most:
            raise ValueError("the model that it describes has more weights than there are")

    hook = register_module_parameter_registration_hook(registered)
    try:
        yield
    finally:
        hook.remove()


def _trust(folder: Path, data: bytes, config: BundleConfig) -> Trust:
    values, task = _object(folder / TRUST, data), config.task
    try:
        trust = Trust(
            score=values["score"],
            fitted_on=str(values["fitted_on"]),
            calibration=Calibration.from_dict(values["calibration"]),
            conformal=None if values["conformal"] is None else Conformal.from_dict(values["conformal"]),
            bands=None if values["bands"] is None else Bands.from_dict(values["bands"]),
            left_out={str(what): str(why) for what, why in values["left_out"].items()},
            intervals=None if values.get("intervals") is None else Intervals.from_dict(values["intervals"]),
            calibrated_on=tuple(map(str, values.get("calibrated_on", ()))),
        )
    except (KeyError, TypeError, AttributeError, MphilError) as error:
        raise _unusable(folder / TRUST, str(error)) from None
    if trust.score not in get_args(Score):
        raise _unusable(folder / TRUST, f"no score is called {str(trust.score)[:60]!r}")
    fits = (trust.calibration.kind, trust.calibration.outputs) == (task.kind, task.n_outputs)
    if trust.conformal is not None:
        shape = (len(trust.conformal.thresholds), len(trust.conformal.thresholds[0]))
        fits = fits and trust.conformal.kind == task.kind and shape == (task.n_tasks, task.n_classes)
    if trust.intervals is not None:
        fits = fits and task.kind == "regression" and len(trust.intervals.quantiles) == task.n_tasks
    if not fits:
        raise _unusable(folder / TRUST, "it belongs to another task")
    return trust


def _held_out(folder: Path, data: bytes | None, config: BundleConfig) -> HeldOut | None:
    try:
        return None if data is None else HeldOut.parse(data, config.task, molecules=config.molecules is not None)
    except ValueError as error:
        raise _unusable(folder / HELD_OUT, str(error)) from None


def _references(folder: Path, files: Mapping[str, bytes], config: BundleConfig) -> References:
    path = folder / REFERENCES
    try:
        arrays = parse_arrays(files[REFERENCES])
    except (SafetensorError, KeyError, ValueError) as error:
        raise _unusable(path, str(error)) from None
    count = len(arrays["rows"]) if "rows" in arrays and arrays["rows"].ndim == 1 else -1
    smiles = names = None
    expected: dict[str, tuple[str, tuple[int | None, ...]]] = {
        "embeddings": ("float32", (count, None)),
        "labels": ("float32", (count, config.task.n_tasks)),
        "rows": ("int64", (count,)),
    }
    if config.molecules is not None:
        expected["fingerprints"] = ("uint8", (count, BITS // 8))
        smiles, names = _unpacked(folder / MOLECULES, files.get(MOLECULES))
        if len(smiles) != count:
            raise _unusable(folder / MOLECULES, f"{len(smiles):,} molecules for {count:,} training graphs")
    if arrays.keys() != expected.keys() or not all(_fits(arrays[name], *expected[name]) for name in expected):
        raise _unusable(path, "its arrays are not those of the training graphs")
    if not np.isfinite(arrays["embeddings"]).all():
        raise _unusable(path, "an embedding is not a finite number")
    told = (arrays["embeddings"], arrays["labels"], arrays["rows"], arrays.get("fingerprints"))
    return References(*told, smiles, names, _seen(folder, files.get(SEEN)))


def _seen(folder: Path, data: bytes | None) -> Seen | None:
    try:
        return None if data is None else TypeAdapter(Seen).validate_json(data, strict=True)
    except ValidationError as error:
        raise _unusable(folder / SEEN, error.errors()[0]["msg"]) from None


def _fits(array: NDArray[Any], dtype: str, shape: tuple[int | None, ...]) -> bool:
    sizes = zip(array.shape, shape, strict=False)
    return array.dtype == dtype and array.ndim == len(shape) and all(b is None or a == b for a, b in sizes)


def _packed(smiles: Sequence[str], names: Sequence[str] | None) -> bytes:
    """Molecules, and their names if they have any, as a gzip CSV, the same bytes every time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([SMILES] if names is None else [SMILES, ID])
    writer.writerows([one] for one in smiles) if names is None else writer.writerows(zip(smiles, names, strict=True))
    return gzip.compress(text.getvalue().encode(), mtime=0)


def _unpacked(path: Path, data: bytes | None) -> tuple[list[str], list[str] | None]:
    if data is None:
        raise _unusable(path, "it is missing")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_REFERENCE_BYTES + 1)
        if len(text) > MAX_REFERENCE_BYTES:
            raise _unusable(path, f"it unpacks to more than {MAX_REFERENCE_BYTES:,} bytes")
        rows = list(csv.reader(io.StringIO(text.decode(), newline="")))
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from None
    if not rows or rows[0] not in ([SMILES], [SMILES, ID]) or any(len(row) != len(rows[0]) for row in rows):
        raise _unusable(path, f"not a column called {SMILES}, with or without one called {ID}")
    smiles = [row[0] for row in rows[1:]]
    if not all(one.isascii() for one in smiles):
        raise _unusable(path, "a molecule is not written in ASCII")
    return smiles, [row[1] for row in rows[1:]] if len(rows[0]) == 2 else None


def _tensors(path: Path, data: bytes) -> dict[str, Tensor]:
    try:
        return parse_tensors(data)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _unusable(path, str(error).splitlines()[0]) from None


def _object(path: Path, data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from None
    if not isinstance(values, dict):
        raise _unusable(path, "not an object")
    return values


def _unusable(path: Path, reason: str) -> IntegrityError:
    return IntegrityError(f"{path} cannot be used ({' '.join(reason.split())[:200]}); {REMEDY}")
