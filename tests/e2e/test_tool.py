"""A chemist's first session, in processes of its own."""

import csv
import json
import re

from tests.products import SET, binary_table, molecules, rows_of, write_table

from .test_cli import SCREEN, terminal

TINY = [text for pair in SET for text in ("--set", pair)]


def test_from_a_table_to_answers(commands, tmp_path):
    table = binary_table(tmp_path / "assay.csv")
    trained = commands.start("train", table, "--target", "active", "--out", tmp_path / "first", *TINY).wait()
    assert trained.code == 0, trained.err
    command = re.search(r"next: (mphil predict \S+) new\.csv", trained.out)[1].split()[1:]
    new = write_table(tmp_path / "new.csv", {"id": ["a", "b"], "smiles": ["OCc1ccccc1", "C C"]})
    answered = commands.start(*command, new, "--out", tmp_path / "answers.csv").wait()
    assert (answered.code, answered.err) == (0, "")
    with (tmp_path / "answers.csv").open(newline="") as file:
        good, bad = csv.DictReader(file)
    assert (good["id"], good["smiles"], good["status"]) == ("a", "OCc1ccccc1", "ok")
    assert good["prediction"] in "01"
    assert 0 < float(good["probability"]) < 1
    assert (bad["status"], bad["prediction"]) == ("whitespace", "")


def test_progress_on_a_terminal(commands, product, tmp_path):
    table = write_table(tmp_path / "long.csv", {"smiles": molecules() * 60})
    with terminal() as (path, pieces):
        ended = commands.start("predict", product.path, table, "--json", stderr=path).wait()
    shown = SCREEN.sub("", b"".join(pieces).decode())
    assert ended.code == 0
    assert re.search(r"predicting [━╸╺]+ [\d,]+ of 6,480 [\d,]+ rows/s left \d:\d\d:\d\d", shown), shown[-300:]
    assert json.loads(ended.out)["rows"] == 6_480, "the bar is no part of the output"
    assert len(rows_of(tmp_path / "long-predictions.csv")) == 6_481
