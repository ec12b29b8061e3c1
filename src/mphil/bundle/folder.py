"""A bundle to a folder and back; whatever a file holds is checked before it is used."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as render_arrays
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from mphil.bundle.contents import Bundle, BundleConfig, References, Score, Trust
from mphil.bundle.manifest import (
    CARD,
    CONFIG,
    METRICS,
    MODEL,
    MOLECULES,
    PARTS,
    REFERENCES,
    REMEDY,
    TRUST,
    read_files,
    write_files,
)
from mphil.chem.fingerprint import BITS, NAME
from mphil.chem.schema import SCHEMAS
from mphil.errors import IntegrityError, MphilError, UsageError
from mphil.limits import MAX_REFERENCE_BYTES
from mphil.methods.base import build_method
from mphil.nn.encoders import encoder_class
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.ood import Bands

SMILES = "smiles"
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
        CONFIG: _json(bundle.config.model_dump(mode="json")),
        TRUST: _json(trust_values(bundle.trust)),
        REFERENCES: render_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}),
        METRICS: _json(dict(bundle.metrics)),
        CARD: bundle.card.encode(),
    }
    if references.smiles is not None:
        files[MOLECULES] = _packed(references.smiles)
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
    _check_model(folder, config, state)
    return Bundle(
        config=config,
        state=state,
        trust=_trust(folder, files[TRUST], config),
        references=_references(folder, files, config),
        metrics=_object(folder / METRICS, files[METRICS]),
        card=files[CARD].decode("utf-8", "replace"),
        path=folder,
        digest=digest,
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
        config = BundleConfig.model_validate(values)
    except (ValidationError, MphilError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise _unusable(folder / CONFIG, reason) from None
    reading = config.molecules
    if reading is not None:
        for what, made, ours in (
            ("featuriser", reading.featuriser, SCHEMAS[reading.features].name),
            ("fingerprint", reading.fingerprint, NAME),
        ):
            if made != ours:
                raise IntegrityError(
                    f"{folder}: made with {what} {made[:60]!r}, this mphil has {ours!r}; use the mphil that made it "
                    f"({config.versions.get('mphil', 'unknown version')}), or train again"
                )
    return config


def _check_model(folder: Path, config: BundleConfig, state: Mapping[str, Tensor]) -> None:
    """The weights are those of the model that the settings describe; no memory is taken for it before that is known."""
    try:
        encoder_class(config.encoder.kind)
    except UsageError as error:
        raise UsageError(f"{folder}: {error}") from None
    try:
        with torch.device("meta"), _at_most(SPARE + 10 * len(state)):
            method = build_method(config.method.name, config.task, config.encoder, config.method.args)
    except (MphilError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise _unusable(folder / CONFIG, str(error).splitlines()[0]) from None
    wanted = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in method.state_dict().items()}
    found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in state.items()}
    if wanted != found:
        name = next(name for name in sorted(wanted | found) if wanted.get(name) != found.get(name))
        raise _unusable(folder / MODEL, f"the weights {name[:60]!r} are not those of {config.method.name}")
    if not all(tensor.isfinite().all() for tensor in state.values() if tensor.is_floating_point()):
        raise _unusable(folder / MODEL, "a weight is not a finite number")


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
        )
    except (KeyError, TypeError, AttributeError, MphilError) as error:
        raise _unusable(folder / TRUST, str(error)) from None
    if trust.score not in get_args(Score):
        raise _unusable(folder / TRUST, f"no score is called {str(trust.score)[:60]!r}")
    fits = (trust.calibration.kind, trust.calibration.outputs) == (task.kind, task.n_outputs)
    if trust.conformal is not None:
        shape = (len(trust.conformal.thresholds), len(trust.conformal.thresholds[0]))
        fits = fits and trust.conformal.kind == task.kind and shape == (task.n_tasks, task.n_classes)
    if not fits:
        raise _unusable(folder / TRUST, "it belongs to another task")
    return trust


def _references(folder: Path, files: Mapping[str, bytes], config: BundleConfig) -> References:
    path = folder / REFERENCES
    try:
        arrays = parse_arrays(files[REFERENCES])
    except (SafetensorError, KeyError, ValueError) as error:
        raise _unusable(path, str(error)) from None
    count = len(arrays["rows"]) if "rows" in arrays and arrays["rows"].ndim == 1 else -1
    smiles = None
    expected: dict[str, tuple[str, tuple[int | None, ...]]] = {
        "embeddings": ("float32", (count, None)),
        "labels": ("float32", (count, config.task.n_tasks)),
        "rows": ("int64", (count,)),
    }
    if config.molecules is not None:
        expected["fingerprints"] = ("uint8", (count, BITS // 8))
        smiles = _unpacked(folder / MOLECULES, files.get(MOLECULES))
        if len(smiles) != count:
            raise _unusable(folder / MOLECULES, f"{len(smiles):,} molecules for {count:,} training graphs")
    if arrays.keys() != expected.keys() or not all(_fits(arrays[name], *expected[name]) for name in expected):
        raise _unusable(path, "its arrays are not those of the training graphs")
    if not np.isfinite(arrays["embeddings"]).all():
        raise _unusable(path, "an embedding is not a finite number")
    return References(arrays["embeddings"], arrays["labels"], arrays["rows"], arrays.get("fingerprints"), smiles)


def _fits(array: NDArray[Any], dtype: str, shape: tuple[int | None, ...]) -> bool:
    sizes = zip(array.shape, shape, strict=False)
    return array.dtype == dtype and array.ndim == len(shape) and all(b is None or a == b for a, b in sizes)


def _packed(smiles: Any) -> bytes:
    """Molecules as a gzip CSV of one column, the same bytes every time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([SMILES])
    writer.writerows([one] for one in smiles)
    return gzip.compress(text.getvalue().encode("ascii"), mtime=0)


def _unpacked(path: Path, data: bytes | None) -> list[str]:
    if data is None:
        raise _unusable(path, "it is missing")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_REFERENCE_BYTES + 1)
        if len(text) > MAX_REFERENCE_BYTES:
            raise _unusable(path, f"it unpacks to more than {MAX_REFERENCE_BYTES:,} bytes")
        rows = list(csv.reader(io.StringIO(text.decode("ascii"), newline="")))
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from None
    if not rows or rows[0] != [SMILES] or any(len(row) != 1 for row in rows):
        raise _unusable(path, f"not a column called {SMILES}")
    return [row[0] for row in rows[1:]]


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


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _unusable(path: Path, reason: str) -> IntegrityError:
    return IntegrityError(f"{path} cannot be used ({' '.join(reason.split())[:200]}); {REMEDY}")
