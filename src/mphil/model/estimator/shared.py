"""What all estimators share: settings, fit, save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mphil.chem.row_issue import OK
from mphil.model.bundle import Bundle, write_bundle
from mphil.model.committee.trees import TREE_KINDS
from mphil.model.estimator.holdout import gather, know_rows
from mphil.model.estimator.inputs import InputError, Labels, OnBad, groups_of, read_rows, tell, value_errors
from mphil.model.predictor import Predictions, Predictor
from mphil.model.product import Prepared, assemble, choosing_part
from mphil.model.product.assembly import with_facts
from mphil.model.product.build import by_recipe
from mphil.model.product.members import Trained, check_members, train_members, train_trees
from mphil.model.product.tree_runs import tree_config
from mphil.training.run import Run, execute
from mphil.training.settings import merge


class GraphEstimator(BaseEstimator):  # type: ignore[misc]
    """Trains a method on rows in memory and keeps the bundle; what is learned from y is up to the subclass."""

    def __init__(
        self,
        method: str = "mphil",
        *,
        options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float = 0.0,
        patience: int | None = None,
        start: str | None = None,
        encoder: str = "gin",
        layers: int = 3,
        width: int = 128,
        dropout: float = 0.1,
        readout: str = "max",
        validation: float = 0.2,
        on_bad: OnBad = "raise",
        members: int = 0,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.options = options
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.start = start
        self.encoder = encoder
        self.layers = layers
        self.width = width
        self.dropout = dropout
        self.readout = readout
        self.validation = validation
        self.on_bad = on_bad
        self.members = members
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any, groups: Sequence[Any] | None = None) -> Self:
        """Train.

        Args:
            X: (n,) SMILES, RDKit molecules or PyG graphs.
            y: (n,) labels, or (n, tasks) with NaN where one is missing.
            groups: (n,) the domain of each row (assay, batch, month): whole groups are held out to choose the epoch,
                and methods that need environments get them from here.

        Raises:
            InputError: a ValueError that says what cannot be used and why.
        """
        with value_errors():
            self._check_settings()
            rows = read_rows(X)
            labels = self._read_labels(y, len(rows))
            described = bool(self.members or (self.options or {}).get("descriptors"))
            known = know_rows(rows, features=described or self.method in TREE_KINDS)
            tell({one.row: one.message for one in known.issues}, len(rows), self.on_bad, "they are left out", depth=2)
            domains = groups_of(groups, len(rows))
            own = gather(rows, known, labels, domains, share=self.validation, seed=self.seed)
            prepared = self._prepared(own)
            with _own_random_numbers():
                run, trained = self._train(prepared)
                bundle = assemble(prepared, run, prepared.fingerprints, {self.method: {}}, {}, trained)
                self.predictor_ = Predictor(bundle, device=self.device)
        self.bundle_: Bundle = bundle
        self._know(labels)
        self.n_outputs_ = labels.task.n_tasks
        self.history_ = [] if run is None else run.history
        self.skipped_: NDArray[np.int64] = np.array([one.row for one in known.issues], np.int64)
        return self

    def save(self, path: Path | str) -> None:
        """Write the trained model as a bundle, for `mphil.load`, `mphil predict`, `mphil explain` and `mphil serve`."""
        check_is_fitted(self)
        write_bundle(Path(path), self.bundle_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def _read_labels(self, y: Any, rows: int) -> Labels:
        """Understand y."""
        raise NotImplementedError

    def _know(self, labels: Labels) -> None:
        """Set what follows from the labels."""

    def _check_settings(self) -> None:
        if self.on_bad not in get_args(OnBad):
            raise InputError(f"on_bad={self.on_bad!r}: use 'raise' or 'skip'")
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise InputError(f"seed={self.seed!r}: use a whole number from 0 on")
        if self.members:
            check_members(self.members)
        if self.method in TREE_KINDS:
            self._check_no_network()
        if not 0 < self.validation <= 0.5:
            raise InputError(f"validation={self.validation!r}: hold out more than 0 and at most 0.5")

    def _check_no_network(self) -> None:
        """Refuse settings of networks that a method of trees would ignore."""
        names = ("members", "epochs", "batch_size", "lr", "weight_decay", "patience", "start")
        defaults = signature(type(self).__init__).parameters
        for name in (*names, "encoder", "layers", "width", "dropout", "readout"):
            value, default = getattr(self, name), defaults[name].default
            if value != default:
                raise InputError(
                    f"{name}={value!r} is about networks, and {self.method} is trees alone; leave it at {default!r}"
                )

    def _train(self, prepared: Prepared) -> tuple[Run | None, Trained | None]:
        """The run of the first network, if there is one, and all models, if one network is not all."""
        config, data = prepared.config, prepared.data
        if self.method in TREE_KINDS:
            return None, train_trees(self.method, config, data, prepared.features, None)
        run = execute(config, data, None)
        if not self.members:
            return run, None
        features = prepared.features
        return run, train_members(config, data, features, run, None, members=self.members, rule=prepared.rule)

    def _prepared(self, own: Any) -> Prepared:
        """The data with the full settings, as `mphil.model.product` prepares those of a file."""
        data = with_facts(own.benchmark, own)
        rule, graphs = choosing_part(data), len(data.split.train)
        encoder = {name: getattr(self, name) for name in ("layers", "width", "dropout", "readout")}
        given = {name: getattr(self, name) for name in ("epochs", "batch_size", "lr", "patience", "start")}
        train = {name: value for name, value in given.items() if value is not None}
        train |= {"weight_decay": self.weight_decay, "device": self.device}
        if isinstance(self.batch_size, int):
            train["batch_size"] = min(self.batch_size, graphs)
        wanted = {
            "method": {"name": self.method, **(self.options or {})},
            "encoder": encoder | {"kind": self.encoder},
            "train": train,
            "seed": self.seed,
        }
        if self.method in TREE_KINDS:
            config, _ = tree_config(merge([wanted]), data)
            return Prepared(own, data, config, rule)
        return Prepared(own, data, by_recipe([wanted], data, rule), rule)

    def _ask(self, X: Any) -> Predictions:
        """The predictor's answers; rows without one are told of."""
        check_is_fitted(self)
        with value_errors():
            rows = read_rows(X)
            wanted = "molecules" if self.predictor_.takes_molecules else "graphs"
            if rows.kind != wanted:
                raise InputError(f"X holds {rows.kind}, the model was trained on {wanted}")
            if rows.kind == "molecules":
                found: Predictions = self.predictor_.predict(rows.values)
            else:
                found = self.predictor_.predict_graphs(rows.store())
            said = zip(found.status, found.message, strict=True)
            problems = {row: message for row, (status, message) in enumerate(said) if status != OK}
            tell(problems, len(rows), self.on_bad, "they get no answer", depth=3)
        return found


@contextmanager
def _own_random_numbers() -> Iterator[None]:
    """Training sets seeds; outside of the block everything is as before."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
