"""What a bundle holds, as values in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as render_arrays
from torch import Tensor

from mphil.chem.describe import BITS
from mphil.chem.substructures import Seen
from mphil.config import EncoderConfig, NamedArgs, SelectionRule, Settings
from mphil.limits import MAX_EMBEDDINGS, MAX_NAMES
from mphil.model.committee.trees import Trees
from mphil.registry import Plugin
from mphil.task import Task
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal, Intervals
from mphil.trust.ood import Bands


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The n rows that sets and bands were fitted on.

    Attributes:
        probability: (n, outputs) calibrated, of the classes, or of the positive label of each task.
        labels: (n, tasks) float32, NaN = missing.
        distance: (n,) how far from training they are, by the score of the bundle.
        fingerprints: (n, bytes) uint8 packed bits; of no bytes when the rows are graphs.
    """

    probability: NDArray[np.float64]
    labels: NDArray[np.float32]
    distance: NDArray[np.float64]
    fingerprints: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.distance)

    def render(self) -> bytes:
        """As the bytes of a safetensors file."""
        return render_arrays({name: np.ascontiguousarray(value) for name, value in vars(self).items()})

    @classmethod
    def parse(cls, data: bytes, task: Task, *, molecules: bool) -> HeldOut:
        """What `render` gave, checked.

        Raises:
            ValueError: the arrays are not those of held-out rows of such a task.
        """
        try:
            arrays = parse_arrays(data)
        except (SafetensorError, KeyError) as error:
            raise ValueError(str(error)) from None
        count = len(arrays["distance"]) if "distance" in arrays and arrays["distance"].ndim == 1 else -1
        expected = {
            "probability": ("float64", (count, task.n_outputs)),
            "labels": ("float32", (count, task.n_tasks)),
            "distance": ("float64", (count,)),
            "fingerprints": ("uint8", (count, BITS // 8 if molecules else 0)),
        }
        found = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
        if found != expected:
            raise ValueError("its arrays are not those of held-out rows")
        held = cls(**arrays)
        if not ((held.probability >= 0) & (held.probability <= 1)).all() or not np.isfinite(held.distance).all():
            raise ValueError("a probability or a distance is no such number")
        return held


Score = Literal["tanimoto", "knn", "energy"]
"""How far from training a graph is: by the fingerprint of the nearest training molecule, by the nearest training graphs
as the model sees them, or by its logits."""

LongText = Field(max_length=100_000)


class MoleculeReading(Settings):
    """How molecules were read in training, which is how they are read ever after.

    Attributes:
        column: of the table the model was trained on.
        spelling: the graph is that of the canonical spelling, so that the way a molecule is written does not matter.
        fragments: salts and other parts of a record belong to the graph, or only the largest organic one does.
        standardised: name and version of what is done to a molecule before it becomes a graph, or `none`.
        valence: a molecule with a valence that RDKit does not know is refused.
        features: short name of the feature set.
        featuriser: its name and version.
        fingerprint: name and version of the fingerprint.
    """

    column: str = LongText
    spelling: Literal["canonical"] = "canonical"
    fragments: Literal["kept", "largest organic"] = "kept"
    standardised: Literal["none", "parent/1"] = "none"
    valence: Literal["strict"] = "strict"
    features: Literal["good", "drugood"]
    featuriser: str
    fingerprint: str


class Member(Settings):
    """A model of a committee.

    Attributes:
        name: what it is called in tables of scores.
        kind: a network, or trees on features of molecules.
        seed: of its training.
        weight: how much it counts.
        method: of a network, name and hyperparameters; its encoder has the settings of the bundle, but for its readout.
        readout: of a network whose readout is another than that of the bundle.
        epoch: of a network, the chosen one.
    """

    name: str = LongText
    kind: Literal["network", "forest", "extra-trees", "boosting"]
    seed: int = Field(ge=0)
    weight: float = Field(ge=0, le=1)
    method: NamedArgs | None = None
    readout: Literal["mean", "sum", "max", "attention"] | None = None
    epoch: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _a_network_has_a_method(self) -> Member:
        if (self.kind == "network") != (self.method is not None):
            raise ValueError(f"member {self.name[:60]!r} is a {self.kind}; networks and no others have a method")
        return self


class Committee(Settings):
    """Several models that answer together; the first is the network that the bundle itself describes, or trees alone.

    Attributes:
        features: name and version of the features that trees split on; None when there are no trees.
        members: the models.
        fitted_on: the parts that the weights were fitted on.
    """

    features: str | None
    members: tuple[Member, ...]
    fitted_on: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _members_fit(self) -> Committee:
        names = [member.name for member in self.members]
        begins = [member.kind == "network" for member in self.members]
        if not names or len(set(names)) < len(names) or (any(begins) and not begins[0]):
            raise ValueError("the networks of a committee come first, and no two members have one name")
        if abs(sum(member.weight for member in self.members) - 1) > 1e-6:
            raise ValueError("the weights of the members do not sum to 1")
        if (self.features is None) == any(member.kind != "network" for member in self.members):
            raise ValueError("trees, and nothing else, need features")
        return self


class BundleConfig(Settings):
    """What is needed to build the model again and to name its answers.

    Attributes:
        task: what is asked.
        method: name and hyperparameters.
        encoder: settings of the encoder, with what the nodes and edges carry.
        targets: names of the tasks.
        classes: names of the classes of each task.
        molecules: how molecules are read; None when the model takes graphs.
        selection: the part that chose the epoch.
        epoch: the chosen epoch.
        seed: of the training.
        data: the file, its rows and its split, for the reader.
        versions: of the packages that made it.
        numerics: version of the numerics it was trained with; 0 when that had no number yet.
        committee: the models that answer together; None when there is one model alone.
        plugins: code outside mphil that the model needs.
    """

    task: Task
    method: NamedArgs
    encoder: EncoderConfig
    targets: tuple[str, ...] = Field(max_length=MAX_NAMES)
    classes: tuple[str, ...] = Field(max_length=MAX_NAMES)
    molecules: MoleculeReading | None
    selection: SelectionRule
    epoch: int = Field(ge=0)
    seed: int = Field(ge=0)
    data: dict[str, Any]
    versions: dict[str, str]
    numerics: int = Field(0, ge=0)
    committee: Committee | None = None
    plugins: tuple[Plugin, ...] = ()

    @model_validator(mode="after")
    def _every_answer_has_a_name(self) -> BundleConfig:
        if len(self.targets) != self.task.n_tasks or len(self.classes) != self.task.n_classes:
            raise ValueError(
                f"{len(self.targets)} targets and {len(self.classes)} classes named, the task has "
                f"{self.task.n_tasks} and {self.task.n_classes}"
            )
        if self.committee is not None and self.committee.members[0].method not in (self.method, None):
            raise ValueError("the first member of the committee is not the network of the bundle")
        return self

    @model_validator(mode="after")
    def _encoder_is_soon_built(self) -> BundleConfig:
        tables = len(self.encoder.node.sizes) + self.encoder.layers * len(self.encoder.edge.sizes)
        if tables > MAX_EMBEDDINGS:
            raise ValueError(f"the features make {tables:,} tables of codes, at most {MAX_EMBEDDINGS:,} are built")
        return self

    def encoder_of(self, member: Member) -> EncoderConfig:
        """The encoder of a network of the committee."""
        return self.encoder if member.readout is None else self.encoder.model_copy(update={"readout": member.readout})

    @property
    def has_network(self) -> bool:
        """Whether there is a network; else trees answer alone."""
        return self.committee is None or self.committee.members[0].kind == "network"


@dataclass(frozen=True)
class Trust:
    """What was learned on held-out graphs about how far to trust the model.

    Attributes:
        score: which score says how far from training a graph is.
        fitted_on: the part everything was fitted on, but for the calibration where `calibrated_on` names others.
        calibration: from logits to probabilities; its method is `none` when there was nothing to fit it on.
        conformal: sets of classes; None for a regression, or when there was nothing to fit them on.
        bands: from scores to words; None likewise.
        left_out: what is missing, and why.
        intervals: around the numbers of a regression; None for classes, or when there was nothing to fit them on.
        calibrated_on: the parts that the calibration was fitted on; none in older bundles, where it is `fitted_on`.
    """

    score: Score
    fitted_on: str
    calibration: Calibration
    conformal: Conformal | None = None
    bands: Bands | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    intervals: Intervals | None = None
    calibrated_on: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class References:
    """What is kept of the m training graphs, to compare new graphs with them.

    Attributes:
        embeddings: (m, p) float32; p = 0 when the method has none.
        labels: (m, tasks) float32, NaN = missing.
        rows: (m,) number of each in the file it came from, from 0.
        fingerprints: (m, bytes) uint8 packed bits; None when they are no molecules.
        smiles: (m,) canonical spelling; None likewise.
        names: (m,) what the table calls them; None without such a column.
        seen: their elements and ring systems; None in older bundles, and when they are no molecules.
    """

    embeddings: NDArray[np.float32]
    labels: NDArray[np.float32]
    rows: NDArray[np.int64]
    fingerprints: NDArray[np.uint8] | None = None
    smiles: Sequence[str] | None = None
    names: Sequence[str] | None = None
    seen: Seen | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Bundle:
    """A trained model with everything that its answers need.

    Attributes:
        config: what the model is.
        state: its weights by name.
        trust: how far to trust it.
        references: the training graphs.
        metrics: scores, for people and machines.
        card: the page that describes it, HTML.
        path: the folder it was read from, or None.
        digest: checksum of its manifest, which names it; empty when it was not read from a folder.
        held_out: the rows that sets and bands were fitted on; None when the bundle keeps none.
        networks: weights by name of the further networks of a committee, by the name of the member.
        trees: an ensemble for each task, by the name of the member.
    """

    config: BundleConfig
    state: Mapping[str, Tensor]
    trust: Trust
    references: References
    metrics: Mapping[str, Any]
    card: str = ""
    path: Path | None = None
    digest: str = ""
    held_out: HeldOut | None = None
    networks: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    trees: Mapping[str, tuple[Trees, ...]] = field(default_factory=dict)
