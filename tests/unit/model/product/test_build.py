"""From a file to a bundle: what is trained, chosen, kept, refused and taken up again."""

import csv
import json
import shutil

import pytest
import torch

from mphil.config import TrainConfig
from mphil.errors import DataError, IntegrityError, UnknownName, UsageError
from mphil.model.bundle import read_bundle
from mphil.model.product import choosing_part, prepare, train_product
from mphil.model.product.defaults import train_defaults
from mphil.training.checkpoint import Checkpoints
from mphil.training.recipe import MOLECULES
from tests.products import TINY, binary_table, make, molecules, rows_of, write_table


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestProduct:
    def test_what_is_in_the_folder(self, product):
        names = {path.name for path in product.folder.iterdir()}
        assert names == {"bundle", "mphil", "erm", "issues.csv", "parts.csv", "product.json", ".lock"}
        assert list(product.bundle.metrics["scores"]) == ["random forest", "erm", "mphil"]
        for name in ("erm", "mphil"):
            result = json.loads((product.folder / name / "result.json").read_text())
            scores = result["selections"]["ood_val"]["scores"]
            told = product.bundle.metrics["scores"][name]
            assert told == {part: scores[part] for part in ("id_test", "ood_test")}

    def test_the_rows_that_were_set_aside(self, product):
        header, *rows = rows_of(product.folder / "issues.csv")
        assert header == ["row", "line", "id", "status", "message"]
        assert [row[:4] for row in rows] == [["8", "9", "m7", "whitespace"], ["51", "52", "m50", "aromaticity"]]
        assert product.bundle.config.data["set_aside"] == 2
        assert product.bundle.config.data["rows"] == 108
        assert product.bundle.config.data["graphs"] == 106

    def test_the_weights_are_those_of_the_chosen_epoch(self, product, tmp_path):
        chosen = Checkpoints(product.folder / "mphil" / "checkpoint").load("best-ood_val")
        assert all(torch.equal(product.bundle.state[name], tensor) for name, tensor in chosen.items())
        assert (product.bundle.config.selection, product.bundle.metrics["selection"]) == ("ood_val", "ood_val")

    def test_the_other_rule(self, product, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        table = product.folder.parent / "assay.csv"
        wanted = {"benchmark": {"path": str(table)}, "method": {"name": "mphil"}, **TINY}
        # Early stopping watches the part that chooses, and is a setting of the run.
        with pytest.raises(IntegrityError, match="train.patience_on is ood_val there, id_val here"):
            train_product(prepare(wanted, selection="id_val"), folder, baselines=False)
        wanted["train"] = {**TINY["train"], "patience_on": "ood_val"}
        made = train_product(prepare(wanted, selection="id_val"), folder, baselines=False)
        chosen = Checkpoints(folder / "mphil" / "checkpoint").load("best-id_val")
        assert all(torch.equal(made.bundle.state[name], tensor) for name, tensor in chosen.items())
        assert read_bundle(made.path).config.selection == "id_val"

    def test_training_graphs_are_the_references(self, product):
        references = product.bundle.references
        with (product.folder.parent / "assay.csv").open() as file:
            rows = list(csv.DictReader(file))
        from rdkit import Chem

        for place, row in enumerate(references.rows.tolist()):
            assert references.smiles[place] == Chem.CanonSmiles(rows[row]["smiles"].partition(".")[0])
            label = rows[row]["active"]
            assert str(references.labels[place, 0]) == (f"{label}.0" if label else "nan")

    def test_doing_it_again_changes_nothing(self, product, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        before = contents(folder)
        make(product.folder.parent / "assay.csv", folder, baselines=True)
        assert contents(folder) == before


class TestFolder:
    def test_something_else_is_in_it(self, tmp_path):
        table, out = binary_table(tmp_path / "a.csv"), tmp_path / "out"
        out.mkdir()
        (out / "thesis.tex").write_text("chapter 1")
        with pytest.raises(UsageError, match="is not empty .thesis.tex.; choose another --out"):
            make(table, out)
        assert contents(out) == {"thesis.tex": b"chapter 1"}

    def test_another_method(self, product, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        with pytest.raises(UsageError, match="holds a training of mphil, not of erm"):
            make(product.folder.parent / "assay.csv", folder, method="erm")

    def test_other_data(self, product, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        table = write_table(tmp_path / "b.csv", {"smiles": molecules(), "active": [i % 2 for i in range(108)]})
        before = contents(folder / "bundle")
        with pytest.raises(IntegrityError, match="holds a different run"):
            make(table, folder)
        assert contents(folder / "bundle") == before

    def test_a_damaged_marker(self, product, tmp_path):
        folder = shutil.copytree(product.folder, tmp_path / "out")
        (folder / "product.json").write_text("{")
        with pytest.raises(IntegrityError, match="product.json cannot be read"):
            make(product.folder.parent / "assay.csv", folder)


class TestChoice:
    def table(self, tmp_path, part_of, label_of=lambda i: i % 2):
        smiles = molecules()
        return write_table(
            tmp_path / "a.csv",
            {
                "smiles": smiles,
                "active": [label_of(i) for i in range(len(smiles))],
                "split": [part_of(i) for i in range(len(smiles))],
            },
        )

    def test_a_split_without_id_validation(self, tmp_path):
        """Train, validation, test: trust is then fitted on what there is, and says so."""
        table = self.table(tmp_path, lambda i: ("train", "train", "train", "valid", "test")[i // 2 % 5])
        made = make(table, tmp_path / "out", split="predefined")
        assert (made.bundle.config.selection, made.bundle.trust.fitted_on) == ("ood_val", "ood_val")
        assert made.bundle.trust.calibrated_on == ("ood_val",)
        assert list(made.bundle.metrics["trust"]["parts"]) == ["ood_test"]
        assert made.bundle.metrics["scores"]["mphil"]["id_test"] is None
        assert "ROC-AUC" in made.bundle.card

    def test_validation_labels_that_are_all_alike(self, tmp_path):
        names = ("train", "train", "id_val", "ood_val", "ood_test")
        table = self.table(tmp_path, lambda i: names[i // 2 % 5], lambda i: 1 if i // 2 % 5 == 3 else i % 2)
        wanted = {"benchmark": {"path": str(table), "split": "predefined", "targets": ("active",)}, **TINY}
        prepared = prepare(wanted)
        assert (prepared.rule, prepared.config.train.patience_on) == ("id_val", "id_val")
        with pytest.raises(DataError, match="no epoch can be chosen on ood_val: .* use --selection id_val"):
            choosing_part(prepared.data, "ood_val")
        with pytest.raises(UnknownName, match="selection rule"):
            prepare(wanted, selection="ood_tset")

    def test_no_validation_at_all(self, tmp_path):
        """A table that says train and test gets a validation part out of train."""
        table = self.table(tmp_path, lambda i: "train" if i % 4 else "test")
        wanted = {"benchmark": {"path": str(table), "split": "predefined", "targets": ("active",)}, **TINY}
        prepared = prepare(wanted)
        assert list(prepared.data.split.sizes.values()) == [73, 8, 0, 0, 27]
        assert prepared.rule == "id_val"
        alike = self.table(tmp_path, lambda i: "train" if i % 4 else "test", lambda i: int(i % 4 == 0))
        with pytest.raises(DataError, match="no epoch can be chosen: .* use another --split, or more rows"):
            prepare({**wanted, "benchmark": {**wanted["benchmark"], "path": str(alike)}})


class TestEarlyRefusals:
    """What cannot be trained is refused before any time is spent."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"method": {"name": "mphli"}}, "did you mean mphil"),
            ({"method": {"name": "mphil", "prototypes": 0}}, "1 <= prototypes"),
            ({"train": {"batch_size": 10_000}}, "train.batch_size is 10000"),
            ({"train": {"epoch": 1}}, "did you mean epochs"),
            ({"benchmark": {"path": "", "target": ("active",)}}, "unknown option of benchmark own-data 'target'"),
        ],
    )
    def test_settings(self, tmp_path, change, message):
        wanted = {"benchmark": {"path": str(binary_table(tmp_path / "a.csv"))}} | change
        with pytest.raises(UsageError, match=message):
            prepare(wanted)


class TestDefaults:
    @pytest.mark.parametrize("graphs", [1, 7, 40, 600, 2_000, 2_001, 30_000, 10**6])
    def test_they_are_settings_that_can_be_used(self, graphs):
        found = train_defaults(graphs)
        TrainConfig(**found)
        assert 1 <= found["batch_size"] <= graphs

    def test_more_rows_mean_fewer_epochs(self):
        sizes = [100, 5_000, 50_000, 10**6]
        epochs = [train_defaults(n)["epochs"] for n in sizes]
        assert epochs == sorted(epochs, reverse=True)

    @pytest.mark.parametrize("given", [{"epochs": 1}, {"epochs": 3}, {"max_steps": 4}, {"epochs": 40, "window": 2}])
    def test_they_fit_what_is_given(self, given):
        found = TrainConfig(**train_defaults(600, given))
        assert found.window <= found.epochs
        assert found.min_epochs <= found.epochs
        assert found.model_dump(include=set(given)) == given

    def test_networks_for_molecules_start_from_pretrained_weights(self, tmp_path):
        table = {"path": str(binary_table(tmp_path / "a.csv"))}
        usual = prepare({"benchmark": table}).config.train
        assert usual.start == MOLECULES
        others = [{"train": {"start": ""}}, {"encoder": {"width": 64}}, {"encoder": {"kind": "gcn"}}]
        others.append({"method": {"name": "dir"}})  # its encoders are none that the weights fit
        for other in others:
            train = prepare({"benchmark": table, **other}).config.train
            assert (train.start, train.epochs, train.lr) == ("", 2 * usual.epochs, 2 * usual.lr)

    def test_weights_that_the_method_cannot_take_are_refused_before_training(self, tmp_path):
        table = {"path": str(binary_table(tmp_path / "a.csv"))}
        with pytest.raises(UsageError, match=r"train.start=molecules: no encoder of dir"):
            prepare({"benchmark": table, "method": {"name": "dir"}, "train": {"start": MOLECULES}})

    def test_what_the_user_says_wins(self, tmp_path):
        table = str(binary_table(tmp_path / "a.csv"))
        prepared = prepare({"benchmark": {"path": table}, "train": {"epochs": 3}})
        assert prepared.config.train.epochs == 3
        assert (prepared.config.encoder.readout, prepared.config.encoder.dropout) == ("max", 0.1)
        assert prepared.config.train.batch_size == train_defaults(len(prepared.data.split.train))["batch_size"]
