"""Predictions for files of any length: rows stream in, the same rows stream out, each with an answer."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from mphil.errors import UsageError
from mphil.files import cores
from mphil.model.predictor import Predictions, Predictor
from mphil.model.predictor.predictions import is_number
from mphil.model.predictor.reading import as_molecules, cleaned
from mphil.progress import Advance, screening_bar
from mphil.tables.delimited import recoding_note
from mphil.tables.graph_folders import open_graphs
from mphil.tables.pass_through import Piece, TableSource, free_names, open_source
from mphil.tables.pool import Work, WorkerPool
from mphil.tables.write import Writer, open_writer, output_kind
from mphil.trust.ood import VERDICTS

AHEAD = 2
"""Pieces that are being read while the model is at work on another one."""


@dataclass
class Summary:
    """What became of the rows of a file.

    Attributes:
        source: the file.
        out: what was written.
        column: of the molecules; empty for graphs.
        rows: how many there are.
        answered: how many have an answer.
        statuses: status to its rows.
        domains: verdict to its rows.
        escaped: cells that were put behind an apostrophe.
        seconds: how long it took.
        notes: what the owner of the file may want to know.
    """

    source: str
    out: str
    column: str = ""
    rows: int = 0
    answered: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    escaped: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, answers: Predictions) -> None:
        self.rows += len(answers)
        self.answered += int(answers.answered.sum())
        self.statuses.update(answers.status)
        if answers.domain is not None:
            self.domains.update({verdict: int((answers.domain == verdict).sum()) for verdict in VERDICTS})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"statuses": dict(self.statuses.most_common()), "domains": dict(self.domains)}


def screen_file(
    predictor: Predictor,
    path: Path,
    out: Path,
    *,
    column: str | None = None,
    sheet: str = "",
    weighted: bool = False,
    workers: int | WorkerPool | None = None,
    progress: bool = True,
    watch: Advance = lambda rows: None,
) -> Summary:
    """Predict every row of a table: the same rows in the same order, with our columns behind theirs.

    Memory does not grow with the number of rows. Until all is done nothing is called `out`.

    Args:
        predictor: the model.
        path: CSV, TSV, parquet, SDF or .smi; also gzip.
        out: CSV or TSV, also gzip, or parquet, by its name.
        column: of the molecules; that of training, or found, when absent.
        sheet: of a workbook; the first that has molecules when empty.
        weighted: also give conformal sets that are weighted for how the first rows of the table are drawn.
        workers: processes that read molecules, or a pool of them; None chooses by the number of rows and cores.
        progress: show a bar when there is a terminal.
        watch: told after every piece how many rows more are done; what it raises ends the work.

    Raises:
        UsageError: a file, column or format that does not exist.
        DataError: the file cannot be read.
    """
    reading = predictor.bundle.config.molecules
    if reading is None:
        raise UsageError(f"this bundle takes graphs; {path} is a table of molecules")
    output_kind(out)
    if out.exists() and path.exists() and out.samefile(path):
        raise UsageError(f"{out} is the file that is read; choose another --out")
    started = time.monotonic()
    source = open_source(path, column=column, usual=reading.column, sheet=sheet)
    if weighted:
        first = next(iter(source.pieces()), None)
        predictor = predictor.adapt([] if first is None else first.smiles)
    wanted = list(predictor.predict([]).columns())
    added, renamed = free_names(wanted, source.names)
    summary = Summary(str(path), str(out), source.column)
    notes = (*predictor.notes, *source.notes, renamed, _delimiter(source, out), _weights(predictor))
    summary.notes = [note for note in notes if note]
    numbers = [is_number(name) for name in wanted]
    with (
        screening_bar(source.count, progress) as advance,
        open_writer(out, source.names, source.fields, added, numbers) as writer,
    ):
        recoded = _screen(predictor, source, writer, summary, workers, (advance, watch))
        summary.notes += recoding_note(recoded)
    summary.escaped, summary.seconds = writer.escaped, time.monotonic() - started
    return summary


def _delimiter(source: TableSource, out: Path) -> str:
    """What spreadsheet programs that expect semicolons and decimal commas need to know; empty for others."""
    if source.table.format != "delimited" or source.table.delimiter != ";" or output_kind(out)[0] != ".csv":
        return ""
    return "answers are separated by ',' and have decimal points; --out NAME.xlsx opens in any spreadsheet program"


def _weights(predictor: Predictor) -> str:
    """What weighting leaves of the held-out rows, in a sentence; empty without weights."""
    shift = predictor.shift
    if shift is None:
        return ""
    return (
        f"weighted sets: the {len(shift.held):,} held-out rows are worth {shift.effective_rows:.0f} rows drawn like "
        "those of this file"
    )


def _screen(
    predictor: Predictor,
    source: TableSource,
    writer: Writer,
    summary: Summary,
    workers: int | WorkerPool | None,
    watchers: Sequence[Advance],
) -> int:
    """Read, ask and write; returns the bytes that were not UTF-8."""
    pieces = source.pieces()
    beginning = [piece for _, piece in zip(range(2), pieces, strict=False)]
    if workers is None:
        # A process takes a second to begin: not for a file that is read by then.
        workers = cores() if len(beginning) > 1 else 0
    recoded = 0
    with nullcontext(workers) if isinstance(workers, WorkerPool) else WorkerPool(workers) as pool:
        for piece, work in read_ahead(predictor, pool, chain(beginning, pieces)):
            answers = _answer(predictor, piece, work)
            writer.write(piece.columns, list(answers.columns().values()))
            summary.add(answers)
            recoded += piece.recoded
            for watch in watchers:
                watch(len(piece))
    return recoded


def read_ahead(predictor: Predictor, pool: WorkerPool, pieces: Iterator[Piece]) -> Iterator[tuple[Piece, Work]]:
    """Every piece in order, with the next ones being read already."""
    options = predictor.reading
    waiting: deque[tuple[Piece, Work]] = deque()
    for piece in pieces:
        rows = ["" if row in piece.issues else text for row, text in enumerate(cleaned(piece.smiles))]
        waiting.append((piece, pool.begin(rows, options)))
        if len(waiting) > AHEAD:
            yield waiting.popleft()
    yield from waiting


def _answer(predictor: Predictor, piece: Piece, work: Work) -> Predictions:
    answers = predictor.answer(as_molecules(work.finish(), len(piece), predictor.reading["schema"]))
    if not piece.issues:
        return answers
    status, message = list(answers.status), list(answers.message)
    for row, issue in piece.issues.items():
        status[row], message[row] = issue.status, issue.message
    return replace(answers, status=status, message=message)


def screen_graphs(predictor: Predictor, folder: Path, out: Path) -> Summary:
    """Predict every graph of a folder (see `open_graphs`): a row for each, by its number from 0.

    Args:
        predictor: a model that takes graphs.
        folder: a saved graph store, or text files of the TU collection.
        out: CSV or TSV, also gzip, or parquet, by its name.
    """
    if predictor.takes_molecules:
        raise UsageError(f"this bundle takes molecules; {folder} is a folder of graphs")
    output_kind(out)
    started = time.monotonic()
    store = open_graphs(folder)
    with screening_bar(lambda: len(store), shown=True) as advance:
        answers = predictor.predict_graphs(store, advance)
    columns = answers.columns()
    summary = Summary(str(folder), str(out))
    with open_writer(out, ["graph"], None, list(columns), [is_number(name) for name in columns]) as writer:
        writer.write([[str(number) for number in range(len(answers))]], list(columns.values()))
    summary.add(answers)
    summary.seconds = time.monotonic() - started
    return summary
