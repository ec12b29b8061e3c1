import io

import numpy as np
import pytest
from rdkit import Chem

from mphil.chem import read_rows as batch_module
from mphil.chem.parse import parse_smiles, standardise
from mphil.chem.read_rows import ARRAYS, ReadBatch, join, read_batch, read_rows, texts
from mphil.chem.reader_process import answer, receive, send
from mphil.chem.row_issue import RowIssue
from mphil.chem.schema import featurize
from mphil.testing.trial import MOLECULES

ROWS = ["CCO", "C C", "c1ccccc1C", "", "O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3", "C"]

WHOLE = {"wanted": ["spelling", "graph", "fingerprint"], "definite": True}
"""What a prediction asks for."""


def graphs(rows, **options):
    return read_batch(rows, wanted=["graph"], **options)


def test_every_row_is_a_molecule_or_an_issue():
    batch = graphs(ROWS)
    assert batch.arrays["n_nodes"].tolist() == [3, 7, 1]
    assert [(issue.row, issue.status) for issue in batch.issues] == [(1, "whitespace"), (3, "empty"), (4, "valence")]
    assert all(issue.message for issue in batch.issues)


def test_lenient_rows_are_kept_and_recorded():
    batch = graphs(ROWS, lenient=True)
    assert batch.arrays["n_nodes"].tolist() == [3, 7, 19, 1]
    assert (4, "partial") in [(issue.row, issue.status) for issue in batch.issues]


def test_open_molecules_and_arrows_have_a_status_of_their_own_where_an_answer_is_wanted():
    rows = ["*C", "CCO", "C[2*]", "[NH3]->[Fe]", "[Fe]<-[NH3]", "C[R1]", "[Fe]"]
    batch = read_batch(rows, **WHOLE)
    found = {issue.row: issue.status for issue in batch.issues}
    assert found == {0: "wildcard", 2: "wildcard", 3: "dative", 4: "dative", 5: "wildcard"}
    assert batch.arrays["n_nodes"].tolist() == [3, 1]
    assert {issue.row for issue in graphs(rows).issues} == {5}
    assert read_batch(rows, wanted=["spelling", "size"], definite=True).issues == batch.issues


def test_scaffolds_end_to_end():
    batch = read_batch(["Cc1ccccc1", "CC", "C C", "C1CC1"], wanted=["scaffold"])
    assert batch.arrays["scaffold"].tobytes() == b"c1ccccc1C1CC1"
    assert batch.arrays["scaffold_length"].tolist() == [8, 0, 5]
    assert texts(batch.arrays, "scaffold") == ["c1ccccc1", "", "C1CC1"]


@pytest.mark.parametrize("wanted", [[], ["size"], ["spelling", "scaffold"], ["graph", "features"], list(ARRAYS)])
@pytest.mark.parametrize("rows", [[], ROWS])
def test_what_is_wanted_is_what_comes(wanted, rows):
    batch = read_batch(rows, wanted=wanted)
    assert batch.arrays.keys() == {name for fact in wanted for name in ARRAYS[fact]}


@pytest.mark.parametrize("cut", [0, 1, 3, 6])
@pytest.mark.parametrize("schema", ["good", "drugood"])
def test_joined_batches_are_one_batch(cut, schema):
    whole = graphs(ROWS, schema=schema, lenient=True)
    parts = [graphs(part, schema=schema, lenient=True) for part in (ROWS[:cut], ROWS[cut:])]
    joined = join(parts, [cut, len(ROWS) - cut])
    assert joined.issues == whole.issues
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(joined.arrays[name], array)
        assert joined.arrays[name].dtype == array.dtype


def test_frames_come_back_as_they_were_sent():
    stream = io.BytesIO()
    arrays = {"x": np.arange(6, dtype=np.uint8).reshape(2, 3), "empty": np.empty((0, 4), np.float32)}
    send(stream, {"smiles": ["C\u0421\n\ud800", "\0"]}, arrays)
    send(stream, {"ready": True})
    stream.seek(0)
    message, found = receive(stream)
    assert message == {"smiles": ["C\u0421\n\ud800", "\0"]}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert receive(stream) == ({"ready": True}, {})
    with pytest.raises(EOFError):
        receive(stream)


def test_a_frame_that_is_cut_off_is_no_frame():
    stream = io.BytesIO()
    send(stream, {"issues": []}, {"x": np.zeros(9)})
    for size in (3, 16, 20, len(stream.getvalue()) - 1):
        with pytest.raises(EOFError):
            receive(io.BytesIO(stream.getvalue()[:size]))


def test_a_fault_of_ours_travels_back_as_text():
    message, arrays = answer({"smiles": ["C"], "options": {"wanted": ["graph"], "schema": "none"}})
    assert "KeyError" in message["fault"]
    assert not arrays


def test_issues_of_empty_batches_keep_their_rows():
    empty = ReadBatch({"length": np.empty(0, np.int64)}, [])
    full = ReadBatch({"length": np.array([1])}, [RowIssue("empty", "there is nothing in it", 1)])
    assert join([empty, full, empty, full], [2, 2, 3, 2]).issues == [
        RowIssue("empty", "there is nothing in it", 3),
        RowIssue("empty", "there is nothing in it", 8),
    ]


class TestMolecules:
    def test_the_graph_is_that_of_the_canonical_spelling(self):
        found = read_batch(["OCC", "C C", "C(C)O", "[H]OCC"], **WHOLE)
        plain = graphs(["CCO"] * 3)
        assert found.arrays["canonical"].tobytes() == b"CCO" * 3
        assert found.arrays["canonical_length"].tolist() == [3, 3, 3]
        for name, array in plain.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)
        assert (found.arrays["fingerprint"] == found.arrays["fingerprint"][0]).all()
        assert found.arrays["fingerprint"].shape == (3, 256)
        assert [(issue.row, issue.status) for issue in found.issues] == [(1, "whitespace")]

    @pytest.mark.parametrize(
        "row",
        [
            "O=C([O-])CC[C-]1C2=C3C4=C1[Fe+2]3421567C2=C1[C-]5C6=C27",  # hybridisation around the metal
            "N[C@@H](C)C(=O)O",  # tags of chiral atoms, which go by the order of their bonds
        ],
    )
    def test_other_atoms_in_the_order_of_the_spelling_are_not_enough(self, row):
        found = read_batch([row], **WHOLE, standardised=True)
        spelled = texts(found.arrays, "canonical")
        again = read_batch(spelled, **WHOLE, standardised=True).arrays
        for name in {*again} - {"changed"}:
            np.testing.assert_array_equal(found.arrays[name], again[name])
        mol, _ = standardise(parse_smiles(row))
        assert Chem.MolToSmiles(mol) == spelled[0]
        order = mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]
        moved = featurize([Chem.RenumberAtoms(mol, list(order))])
        assert moved.x[:, 0].tolist() == found.arrays["x"][:, 0].tolist()
        assert (moved.x != found.arrays["x"]).any()

    def test_a_spelling_that_cannot_be_read_again_is_an_issue_of_its_row(self, monkeypatch):
        true = batch_module.MolToSmiles
        monkeypatch.setattr(batch_module, "MolToSmiles", lambda mol: "C1CC" if mol.GetNumAtoms() == 2 else true(mol))
        found = read_batch(["C C", "CC", "CCO", "", "CN"], **{**WHOLE, "wanted": list(ARRAYS)})
        expected = [(0, "whitespace"), (1, "syntax"), (3, "empty"), (4, "syntax")]
        assert [(issue.row, issue.status) for issue in found.issues] == expected
        assert found.arrays["canonical"].tobytes() == b"CCO"
        assert found.arrays["n_nodes"].tolist() == found.arrays["size"].tolist() == [3]


def counted_reads(rows, monkeypatch, **options):
    """The answer about the rows, and every text that RDKit was given to read on the way."""
    read = []
    real = Chem.MolFromSmiles
    with monkeypatch.context() as patch:
        patch.setattr(Chem, "MolFromSmiles", lambda text, *given: read.append(text) or real(text, *given))
        return read_batch(rows, **WHOLE, **options), read


@pytest.mark.parametrize("standardised", [False, True])
def test_a_canonical_row_is_read_once(monkeypatch, standardised):
    rows = ["CCO", "OCC", "c1ccccc1", "C[C@H](N)C(=O)O", "CC(=O)[O-]", "[Na+].CC(=O)[O-]"]
    canonical = [Chem.CanonSmiles(row) for row in rows]
    found, read = counted_reads(canonical, monkeypatch, standardised=standardised)
    assert len(read) == len(rows) + 2 * standardised  # the charged two have another spelling by then
    assert not found.issues


@pytest.mark.parametrize("standardised", [False, True])
def test_reading_once_or_twice_gives_the_same_arrays(standardised):
    rows = [*MOLECULES, "OCC", "C(=O)(O)[C@@H](N)C", "C/C=C\\C", "C C", "F/C=C/F"]
    with pytest.MonkeyPatch.context() as patch:
        once = read_batch(rows, **WHOLE, standardised=standardised)
        patch.setattr(batch_module, "_read_again", lambda mols, spellings, same: read_rows(spellings, lenient=False))
        twice = read_batch(rows, **WHOLE, standardised=standardised)
    assert once.issues == twice.issues
    for name, array in twice.arrays.items():
        assert once.arrays[name].tobytes() == array.tobytes(), name
