"""The API of a real server: every row comes back, in the form that the OpenAPI document promises."""

import csv
import gzip
import io
import re
import threading
import time

import jsonschema
import pytest

from mphil.explain.rows import explain_rows
from mphil.model.screening import screen_file
from mphil.serve import jobs
from tests.served import JSON, bundle_folder, predictor

MIXED = ["CCO", "C C", "", "c1ccccc1C(=O)O", "OCC", "[Na+].[Cl-]", "C1CC", "C" * 5000]
BROKEN = 'smiles,note\nCCO,fine\nCCN\nC=C,"an open\nquote\n'


@pytest.fixture(scope="module")
def model():
    return predictor()


@pytest.fixture(scope="module")
def promised(client):
    """Checks an answer against the schema that the document gives for it."""
    document = client.get("/openapi.json").json()

    def check(method, path, answer):
        content = document["paths"][path][method]["responses"][str(answer.status)]["content"]["application/json"]
        schema = content["schema"] | {"components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())
        return answer.json()

    return check


def table(rows, name="id"):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[name, "smiles"], *([i, row] for i, row in enumerate(rows))])
    return text.getvalue().encode()


def test_state(client, promised):
    assert promised("get", "/healthz", client.get("/healthz")) == {"status": "up"}
    assert promised("get", "/readyz", client.get("/readyz")) == {"status": "ready"}


def test_model(client, promised, model):
    told = promised("get", "/api/model", client.get("/api/model"))
    assert told["targets"] == ["label"]
    assert told["classes"] == list(model.bundle.config.classes)
    assert told["digest"] == model.bundle.digest
    assert told["columns"] == list(model.predict([]).columns())
    assert told["members"] == []
    assert told["training_molecules"] == 40
    assert told["coverage"] == 1 - model.bundle.trust.conformal.alpha
    assert str(bundle_folder().parent) not in str(told)


def test_predictions_are_those_of_the_predictor(client, promised, model):
    told = promised("post", "/api/predict", client.post("/api/predict", {"smiles": MIXED}))
    expected = model.predict(MIXED)

    assert [row["smiles"] for row in told["rows"]] == MIXED
    for name, cells in expected.columns().items():
        found = [row["cells"][name] for row in told["rows"]]
        if any(isinstance(cell, float) for cell in cells):
            assert [cell is None for cell in found] == [cell is None for cell in cells]
            assert [c for c in found if c is not None] == pytest.approx([c for c in cells if c is not None], abs=1e-5)
        else:
            assert found == cells, name
    assert told["rows"][0]["cells"] == told["rows"][4]["cells"], "two spellings of ethanol"
    assert [row["canonical"] for row in told["rows"]][:2] == ["CCO", None]


@pytest.mark.parametrize("path", ["/api/predict", "/api/explain"])
def test_strange_characters_cost_their_row_and_no_other(client, promised, path):
    said = client.request("POST", path, r'{"smiles": ["CCO", "\ud800C", "C\udfff", "C\u0000C", "*C", "N->[Fe]"]}', JSON)
    assert said.status == 200
    statuses = [row["cells"]["status"] for row in said.json()["rows"]]
    assert statuses == ["ok", "not-ascii", "not-ascii", "control", "wildcard", "dative"]


def test_a_target_of_half_a_character_is_unknown(client):
    said = client.request("POST", "/api/explain", r'{"smiles": ["CCO"], "target": "\ud800"}', JSON)
    assert said.status == 400
    assert sorted(said.json()) == ["error", "remedy"]


def test_no_rows_are_no_rows(client, promised):
    assert promised("post", "/api/predict", client.post("/api/predict", {"smiles": []}))["rows"] == []


def test_explanations_are_those_of_explain(client, promised, model):
    told = promised("post", "/api/explain", client.post("/api/explain", {"smiles": ["OC(=O)c1ccccc1", "C C"]}))
    expected = explain_rows(model, ["OC(=O)c1ccccc1"]).explanations[0]
    first, second = told["rows"]

    assert second["reasons"] is None
    assert second["cells"]["status"] == "whitespace"
    assert first["reasons"]["weights"] == pytest.approx(expected.weights, abs=1e-3)
    assert [part["smiles"] for part in first["reasons"]["parts"]] == [part.smiles for part in expected.substructures]
    assert [part["atoms"] for part in first["reasons"]["parts"]] == [list(p.atoms) for p in expected.substructures]
    assert first["reasons"]["drawing"].startswith("<svg ")
    assert len(first["reasons"]["prototypes"]) == 3
    assert told["prototypes"] is True


def test_a_file_comes_back_as_mphil_predict_writes_it(client, promised, model, tmp_path):
    content = table([*MIXED, "=1+1"])
    sent = client.send(content, "my assay.csv")
    job = promised("post", "/api/files", sent)["id"]
    assert sent.headers["location"] == f"/api/jobs/{job}"
    client.wait(job)
    state = promised("get", "/api/jobs/{job_id}", client.get(f"/api/jobs/{job}"))
    (tmp_path / "my assay.csv").write_bytes(content)
    screen_file(model, tmp_path / "my assay.csv", tmp_path / "out.csv", workers=0, progress=False)
    result = client.get(f"/api/jobs/{job}/result.csv")
    found = [list(csv.reader(io.StringIO(text))) for text in (result.body.decode(), (tmp_path / "out.csv").read_text())]

    assert (state["state"], state["rows_done"], state["summary"]["rows"]) == ("done", 9, 9)
    assert state["summary"]["answered"] == 4
    assert result.headers["content-type"] == "text/csv; charset=utf-8"
    assert result.headers["content-disposition"] == 'attachment; filename="my-assay-predictions.csv"'
    assert len(found[0]) == len(found[1]) == 10
    for ours, theirs in zip(*found, strict=True):
        assert [cell for cell in ours if not re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell)] == [
            cell for cell in theirs if not re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell)
        ]


def test_rows_come_in_pages_of_a_hundred_with_drawings(client, promised):
    state = client.finish(table(["CCO", "C C", "CCN"] * 40))
    pages = [
        promised("get", "/api/jobs/{job_id}/rows", client.get(f"/api/jobs/{state['id']}/rows?page={number}"))
        for number in (1, 2)
    ]
    rows = [row for page in pages for row in page["rows"]]

    assert state["pages"] == pages[0]["pages"] == 2
    assert [len(page["rows"]) for page in pages] == [100, 20]
    assert [row["row"] for row in rows] == list(range(1, 121))
    assert [row["name"] for row in rows] == [str(i) for i in range(120)]
    assert all((row["drawing"] is None) == (row["smiles"] == "C C") for row in rows)
    assert rows[0]["drawing"].startswith("<svg ")
    assert rows[0]["canonical"] == "CCO"
    missing = client.get(f"/api/jobs/{state['id']}/rows?page=3")
    assert (missing.status, missing.json()["remedy"]) == (404, "the last one is 2")


@pytest.mark.parametrize(
    ("content", "name", "smiles"),
    [
        (b"CCO ethanol\nCCN\n", "a.smi", ["CCO", "CCN"]),
        (gzip.compress(b"id;SMILES\n1;CCO\n2;CCN\n"), "a.csv.gz", ["CCO", "CCN"]),
        ("smiles\tname\nCCO\tÄthanol\n".encode("cp1252"), "a.tsv", ["CCO"]),
        (b"molecule\n  RDKit\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 C   0  0"
         b"\nM  END\n>  <dose>\n3\n\n$$$$\n", "a.sdf", ["C"]),
    ],
    ids=["smi", "gzip", "windows", "sdf"],
)  # fmt: skip
def test_kinds_of_files(client, content, name, smiles):
    state = client.finish(content, name)
    assert state["state"] == "done", state
    rows = client.get(f"/api/jobs/{state['id']}/rows").json()["rows"]
    assert [row["smiles"] for row in rows] == smiles
    assert {row["cells"]["status"] for row in rows} == {"ok"}


def test_a_broken_table_gives_every_row_a_status(client):
    state = client.finish(BROKEN.encode())
    rows = client.get(f"/api/jobs/{state['id']}/rows").json()["rows"]
    assert [(row["smiles"], row["cells"]["status"]) for row in rows] == [
        ("CCO", "ok"),
        ("CCN", "ragged"),
        ("C=C", "open-quote"),
    ]
    assert all(row["drawing"] is None for row in rows[1:])
    assert client.get(f"/map/{state['id']}").status == 200


def test_the_column_can_be_said(client):
    content = b"first,second\nCCO,CCN\nCCC,CCCC\n"
    state = client.finish(content, column="second")
    assert state["summary"]["column"] == "second"
    assert client.finish(content, column="third")["error"].startswith("unknown column of")


def test_a_file_of_no_use_fails_with_a_sentence(client):
    state = client.finish(b"PK\x03\x04 a spreadsheet", "book.xlsx")
    assert state["state"] == "failed"
    sentence = "not a readable Excel workbook (File is not a zip file); save the table as CSV"
    assert state["error"] == f"book.xlsx: {sentence}"
    early = client.get(f"/api/jobs/{state['id']}/rows")
    assert (early.status, early.json()["error"]) == (409, "the job is failed")


def test_a_forgotten_file_is_gone(client):
    state = client.finish(b"smiles\nCCO\n")
    assert client.request("DELETE", f"/api/jobs/{state['id']}").status == 204
    for path in ("", "/rows", "/result.csv"):
        assert client.get(f"/api/jobs/{state['id']}{path}").status == 404


def test_two_clients_at_once_get_their_own_answers(client):
    """Each sends a file and asks questions meanwhile; nobody gets the other's rows."""
    lists = {"C": ["C" * (i + 1) for i in range(30)], "N": ["N" + "C" * (i + 1) for i in range(30)]}
    found, faults = {}, []

    def work(letter, smiles):
        try:
            job = client.send(table(smiles), f"{letter}.csv").json()["id"]
            asked = [client.post("/api/predict", {"smiles": smiles[i : i + 10]}).json() for i in (0, 10, 20)]
            client.wait(job)
            rows = client.get(f"/api/jobs/{job}/rows").json()["rows"]
            found[letter] = (
                [row["cells"]["probability"] for answer in asked for row in answer["rows"]],
                [row["cells"]["probability"] for row in rows],
                [row["smiles"] for row in rows],
            )
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=item) for item in lists.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    for letter, smiles in lists.items():
        asked, filed, spelled = found[letter]
        assert spelled == smiles
        assert asked == pytest.approx(filed, abs=1e-5)
    assert found["C"][0] != pytest.approx(found["N"][0], abs=1e-5)


def test_a_running_file_can_be_watched_and_cancelled_while_questions_are_answered(client):
    job = client.send(b"smiles\n" + b"CCO\n" * 30_000).json()["id"]
    waiting = client.send(b"smiles\nCCO\n").json()
    assert waiting["state"] == "waiting"
    assert waiting["ahead"] == 1
    deadline = time.monotonic() + 60
    while not (state := client.get(f"/api/jobs/{job}").json())["rows_done"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert state["state"] == "running"
    assert state["rows_expected"] == 30_000
    assert client.post("/api/predict", {"smiles": ["CCO"]}).status == 200
    assert client.get(f"/api/jobs/{job}").json()["state"] == "running", "the question did not wait for the file"
    assert client.request("DELETE", f"/api/jobs/{job}").status == 204
    assert client.wait(waiting["id"])["state"] == "done"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/predict", "{", 422),
        ("POST", "/api/predict", '{"smiles": "CCO"}', 422),
        ("POST", "/api/predict", '{"smiles": [1]}', 422),
        ("POST", "/api/predict", '{"smiles": ["C"], "more": 1}', 422),
        ("POST", "/api/predict", '{"smiles": [' + '"C",' * 1000 + '"C"]}', 422),
        ("POST", "/api/explain", '{"smiles": [' + '"C",' * 20 + '"C"]}', 422),
        ("POST", "/api/explain", '{"smiles": ["C"], "target": "lable"}', 400),
        ("GET", "/api/predict", None, 405),
        ("GET", "/api/jobs/none", None, 404),
        ("GET", "/nowhere", None, 404),
        ("GET", "/static/app.py", None, 404),
    ],
)
def test_every_error_has_the_same_form(client, method, path, body, status):
    answer = client.request(method, path, body, {"content-type": "application/json"} if body else {})
    told = answer.json()
    assert answer.status == status
    assert sorted(told) == ["error", "remedy"]
    assert all(isinstance(text, str) and text for text in told.values())
    if status == 400:
        assert "did you mean label?" in told["error"]


def test_the_operations_are_listed_on_a_page_that_needs_nobody_else(client):
    document, page = client.get("/openapi.json").json(), client.get("/docs").body.decode()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page
    assert document["openapi"].startswith("3.")
    assert not re.search(r"https?://", page)
    assert "<script" not in page


def test_jobs_are_few_and_small_enough(client):
    told = client.get("/api/model").json()["limits"]
    assert told["file_rows"] == jobs.MAX_UPLOAD_ROWS
    assert told["page_rows"] == 100
