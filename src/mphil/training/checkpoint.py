"""Checkpoints that survive a kill at any moment: tensors in safetensors files, a checksummed manifest written last."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor
from torch.optim import Optimizer

from mphil.errors import IntegrityError
from mphil.files import remove_drafts, write_bytes

VERSION = 1
MANIFEST = "checkpoint.json"

_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FILE = re.compile(rf"{_GROUP.pattern}-[0-9a-f]{{16}}\.safetensors")


class Checkpoints:
    """The latest checkpoint of a run, in a folder of its own.

    A checkpoint is some named groups of tensors and a JSON value. `checkpoint.json` names the file of every group with
    its size and SHA-256; as file names derive from contents, a new checkpoint never touches the files of the old one,
    and replacing the manifest is the one moment at which old becomes new. Nothing is pickled.

    One process writes at a time (see `lock_run`).

    Example:
        >>> import tempfile
        >>> checkpoints = Checkpoints(Path(tempfile.mkdtemp()))
        >>> checkpoints.write({"state": {"weight": torch.ones(2)}}, {"step": 7})
        >>> checkpoints.meta()["step"], checkpoints.load("state")["weight"]
        (7, tensor([1., 1.]))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, tensors: Mapping[str, Mapping[str, Tensor]], meta: Mapping[str, Any]) -> None:
        """Replace the checkpoint: old or new is complete at every moment, even under `kill -9` or on a full disk.

        Args:
            tensors: group name to named tensors; a group of the previous checkpoint that is not given is kept.
            meta: anything JSON holds; NaN and infinities are refused.
        """
        files = dict(self._read()["files"]) if self.exists() else {}
        self.folder.mkdir(parents=True, exist_ok=True)
        contents = {group: render_tensors(_portable(named)) for group, named in tensors.items()}
        entries = {group: _describe(group, data) for group, data in contents.items()}
        manifest = _render({"version": VERSION, "meta": dict(meta), "files": files | entries})
        # What an attempt that was killed left behind would fill the disk, attempt after attempt.
        self._remove_all_but({entry["file"] for entry in files.values()})
        for group, data in contents.items():
            write_bytes(self.folder / entries[group]["file"], data)
        write_bytes(self.folder / MANIFEST, manifest)
        self._remove_all_but({entry["file"] for entry in (files | entries).values()})

    def exists(self) -> bool:
        """Whether anything was ever written; says nothing about its soundness."""
        return (self.folder / MANIFEST).exists()

    def meta(self) -> dict[str, Any]:
        """The JSON value written with the checkpoint."""
        meta: dict[str, Any] = self._read()["meta"]
        return meta

    def groups(self) -> list[str]:
        """Names of the groups of tensors."""
        return list(self._read()["files"])

    def load(self, group: str) -> dict[str, Tensor]:
        """The tensors of a group, on the CPU.

        Raises:
            IntegrityError: a file is missing or is not, byte for byte, what was written.
            KeyError: the checkpoint has no such group.
        """
        entry = self._read()["files"][group]
        path = self.folder / entry["file"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _damaged(path, f"cannot be read ({error.strerror})") from error
        if len(data) != entry["bytes"]:
            raise _damaged(path, f"has {len(data)} bytes, {entry['bytes']} were written")
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise _damaged(path, "does not match its checksum")
        try:
            return parse_tensors(data)
        except SafetensorError as error:
            raise _damaged(path, f"holds no tensors ({error})") from error

    def _read(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        try:
            text = path.read_bytes()
            manifest: dict[str, Any] = json.loads(text)
            version, checksum = manifest["version"], manifest.pop("sha256")
            # Rendering again compares every byte, not only the values: nothing in the file can change unnoticed.
            intact = _checksum(manifest) == checksum and _render(manifest) == text
        except OSError as error:
            raise _damaged(path, f"cannot be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(path, "is not a checkpoint's manifest") from error
        if version != VERSION:
            raise IntegrityError(
                f"{path}: checkpoint version {str(version)[:20]}, this mphil reads {VERSION}; "
                "use the mphil that wrote it, or start again with another --out"
            )
        if not intact:
            raise _damaged(path, "does not match its checksum")
        if not _well_formed(manifest):
            raise _damaged(path, "names files that are no checkpoint's")
        return manifest

    def _remove_all_but(self, keep: set[str]) -> None:
        for path in self.folder.glob("*.safetensors"):
            if path.name not in keep and _FILE.fullmatch(path.name):
                path.unlink(missing_ok=True)
        remove_drafts(self.folder)


def flatten_optimizer(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and a JSON value; `restore_optimizer` is its inverse.

    Returns:
        Tensors named `<parameter number>.<quantity>` or `group.<number>.<setting>`, not copied, and
        `{"groups": settings of each parameter group, "values": state that is no tensor}`.
    """
    state = optimizer.state_dict()
    flat = {f"{number}.{name}": value for number, named in state["state"].items() for name, value in named.items()}
    tensors = {name: value for name, value in flat.items() if isinstance(value, Tensor)}
    values = {name: value for name, value in flat.items() if name not in tensors}
    groups = []
    for number, group in enumerate(state["param_groups"]):
        tensors |= {f"group.{number}.{name}": value for name, value in group.items() if isinstance(value, Tensor)}
        groups.append({name: value for name, value in group.items() if not isinstance(value, Tensor)})
    return tensors, {"groups": groups, "values": values}


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Put a flattened state back into an optimiser of the same parameters; tensors are copied.

    Raises:
        IntegrityError: the state belongs to other parameters.
    """
    now = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in now] != [group["params"] for group in meta["groups"]]:
        raise IntegrityError("the optimiser state belongs to a model with other parameters; resume with its own config")
    groups = [
        {name: _like(value, current.get(name)) for name, value in saved.items()}
        for saved, current in zip(meta["groups"], now, strict=True)
    ]
    state: dict[int, dict[str, Any]] = {}
    for key, value in (meta["values"] | {name: tensor.clone() for name, tensor in tensors.items()}).items():
        owner, name = key.split(".", 1)
        if owner == "group":
            number, name = name.split(".", 1)
            groups[int(number)][name] = value
        else:
            state.setdefault(int(owner), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _portable(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU: safetensors takes neither strided tensors nor two names for one memory."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in named.items()
    }


def _describe(group: str, data: bytes) -> dict[str, Any]:
    if not _GROUP.fullmatch(group):
        raise ValueError(f"group {group!r} cannot be a file name; use letters, digits, '.', '_' and '-'")
    digest = hashlib.sha256(data).hexdigest()
    return {"file": f"{group}-{digest[:16]}.safetensors", "sha256": digest, "bytes": len(data)}


def _well_formed(manifest: Mapping[str, Any]) -> bool:
    """Whether the files named are files of this folder; a manifest from elsewhere may name any file of the machine."""
    files = manifest.get("files")
    return (
        isinstance(manifest.get("meta"), dict)
        and isinstance(files, dict)
        and all(
            isinstance(entry, dict)
            and entry.keys() == {"file", "sha256", "bytes"}
            and _FILE.fullmatch(str(entry["file"])) is not None
            for entry in files.values()
        )
    )


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode()


def _render(body: Mapping[str, Any]) -> bytes:
    # Keys become strings before the checksum is taken, so that what is read back renders to the same bytes.
    body = json.loads(_canonical(body))
    return _canonical({**body, "sha256": _checksum(body)}) + b"\n"


def _damaged(path: Path, what: str) -> IntegrityError:
    return IntegrityError(f"{path} {what}; restore it from a copy, or delete {path.parent} and train again")


def _like(value: Any, current: Any) -> Any:
    """JSON has no tuples: a list takes the type of the setting it replaces."""
    return tuple(value) if isinstance(current, tuple) and isinstance(value, list) else value


@dataclass
class Position:
    """Where the loop stands; with the tensors, all that is needed to go on as if nothing had happened.

    Attributes:
        stage: stages done.
        epoch: epochs done of the present stage.
        batch: batches done of the present epoch.
        step: batches done of the present stage.
        updates: steps of the optimiser done of the present stage.
        seconds: time spent in all.
        cpu_seconds: processor time spent in all by this process.
        loss_sums: terms of the loss, summed over the batches of the present epoch.
        history: a record of every epoch done of the main stage.
        earlier: a record of every epoch done of the stages before it.
    """

    stage: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    updates: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    loss_sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)
