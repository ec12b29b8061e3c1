"""From predictions and explanations to what goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mphil.chem.draw import molecule_svg
from mphil.explain.atoms import NAMES, Explanation
from mphil.explain.rows import ExplainedRows
from mphil.limits import (
    MAX_EXPLAINED_ATOMS,
    MAX_EXPLAINED_ROWS,
    MAX_REQUEST_BYTES,
    MAX_REQUEST_CHARACTERS,
    MAX_REQUEST_ROWS,
    MAX_UPLOAD_BYTES,
    MAX_UPLOAD_ROWS,
    REQUEST_SECONDS,
)
from mphil.model.predictor import Predictions
from mphil.serve import schemas
from mphil.serve.jobs import Job, Jobs
from mphil.serve.results import PAGE, Cells, ResultRow, Results
from mphil.serve.service import ModelService, Surroundings, drawing

SMALL = (230, 160)
LARGE = (520, 380)
"""Pixels of a drawing in the table, and of one that stands alone."""

OUTLINED = 6
"""Parts of a molecule that are drawn."""


def predict(service: ModelService, smiles: Sequence[str]) -> schemas.PredictResponse:
    """The answers about molecules."""
    said = service.predict(smiles)
    rows = _answers(said, smiles)
    return schemas.PredictResponse(columns=list(said.columns()), rows=rows)


def explain(service: ModelService, smiles: Sequence[str], target: str | None) -> schemas.ExplainResponse:
    """The answers about molecules, with their reasons."""
    around = service.surroundings(service.task(target))
    explained = service.explain(smiles, parts=True)
    said = explained.predictions
    found = dict(zip(explained.rows, explained.explanations, strict=True))
    rows = [
        schemas.Explained(
            **answer.model_dump(),
            reasons=_reasons(found[row], said, row, around) if row in found else None,
            nearest_drawing=_nearest_drawing(answer.cells),
        )
        for row, answer in enumerate(_answers(said, smiles))
    ]
    return schemas.ExplainResponse(
        columns=list(said.columns()), scored_by=_scored_by(service), prototypes=around.are_prototypes, rows=rows
    )


def page_of(service: ModelService, job: Job, results: Results, number: int) -> schemas.RowsResponse:
    """The rows of a page, drawn."""
    rows = results.page(number)
    explained = explained_page(service, job, results, number)
    found = dict(zip(explained.rows, explained.explanations, strict=True))
    spelling = explained.predictions.smiles or [""] * len(rows)
    return schemas.RowsResponse(
        page=number,
        pages=results.pages,
        columns=list(results.columns),
        rows=[
            schemas.PageRow(
                row=one.row,
                line=one.line,
                name=one.name,
                smiles=one.smiles,
                cells=one.cells,
                canonical=spelling[place] or None,
                drawing=found[place].svg(width=SMALL[0], height=SMALL[1]) if place in found else None,
                nearest_drawing=_nearest_drawing(one.cells),
            )
            for place, one in enumerate(rows)
        ],
    )


def explained_page(service: ModelService, job: Job, results: Results, number: int) -> ExplainedRows:
    """The atoms of the molecules of a page; a row that the file has no answer for has none here either."""

    def molecules() -> list[str]:
        return [row.smiles if row.cells["status"] == "ok" else "" for row in results.page(number)]

    return service.explained_page((job.id, number), molecules)


def labels_of(results: Results, number: int, explained: ExplainedRows) -> list[str]:
    """What the explained rows of a page are called on the map."""
    rows = [results.page(number)[place] for place in explained.rows]
    return [f"{_where(row)}, {row.name or row.smiles}" for row in rows]


def _where(row: ResultRow) -> str:
    """The number of a row, and the line where that is another."""
    return f"row {row.row}" if row.line == row.row else f"row {row.row}, line {row.line}"


def job_state(jobs: Jobs, job: Job) -> schemas.JobState:
    """How far a file is."""
    summary = None if job.summary is None else schemas.FileSummary.model_validate(job.summary.as_dict())
    return schemas.JobState(
        id=job.id,
        name=job.name,
        state=job.state,
        ahead=jobs.ahead(job),
        rows_done=job.done,
        rows_expected=job.expected,
        pages=job.results.pages if job.results else 0,
        summary=summary,
        error=job.error or None,
        remedy="mend the file and send it again" if job.error else None,
    )


def _scored_by(service: ModelService) -> str:
    """How atoms are scored; of a committee, by whom."""
    committee = service.predictor.bundle.config.committee
    if committee is None:
        return NAMES[service.by]
    return (
        f"{NAMES[service.by]} of {committee.members[0].name}, one of the {len(committee.members)} models that answer,"
    )


def model_facts(service: ModelService) -> schemas.ModelFacts:
    """What is served."""
    bundle = service.predictor.bundle
    config, trust, metrics = bundle.config, bundle.trust, bundle.metrics
    members = config.committee.members if config.committee is not None else ()
    told = ("file", "rows", "graphs", "split", "parts", "threshold")
    return schemas.ModelFacts(
        method=config.method.name,
        members=[member.name for member in members],
        task=config.task.kind,
        targets=list(config.targets),
        classes=list(config.classes),
        columns=list(service.predictor.predict([]).columns()),
        metric=metrics.get("metric"),
        scores=dict(metrics.get("scores", {})),
        data={name: config.data[name] for name in told if name in config.data},
        training_molecules=len(bundle.references),
        calibration=trust.calibration.method,
        coverage=next((1 - one.alpha for one in (trust.conformal, trust.intervals) if one is not None), None),
        domains=trust.bands is not None,
        domain_score=trust.score,
        scored_by=_scored_by(service),
        prototypes=service.surroundings(0).are_prototypes,
        selection=config.selection,
        epoch=config.epoch,
        seed=config.seed,
        digest=bundle.digest,
        versions=config.versions,
        notes=list(service.predictor.notes),
        limits={
            "request_rows": MAX_REQUEST_ROWS,
            "request_bytes": MAX_REQUEST_BYTES,
            "request_characters": MAX_REQUEST_CHARACTERS,
            "explained_rows": MAX_EXPLAINED_ROWS,
            "explained_atoms": MAX_EXPLAINED_ATOMS,
            "request_seconds": int(REQUEST_SECONDS),
            "file_rows": MAX_UPLOAD_ROWS,
            "file_bytes": MAX_UPLOAD_BYTES,
            "page_rows": PAGE,
        },
    )


def _answers(said: Predictions, smiles: Sequence[str]) -> list[schemas.Answer]:
    columns = said.columns()
    return [
        schemas.Answer(
            smiles=text,
            canonical=(said.smiles[row] if said.smiles else "") or None,
            cells={name: cells[row] for name, cells in columns.items()},
        )
        for row, text in enumerate(smiles)
    ]


def _reasons(one: Explanation, said: Predictions, row: int, around: Surroundings) -> schemas.Reasons:
    weights = one.weights.round(4).tolist()
    width, height = LARGE
    parts = [
        schemas.ExplainedPart(
            kind=part.kind,
            smiles=part.smiles,
            name=part.name,
            atoms=list(part.atoms),
            importance=part.importance,
            drop=part.drop,
            change=part.change,
            drawing=molecule_svg(one.smiles, weights=weights, outline=part.atoms, width=width, height=height)
            if place < OUTLINED
            else None,
        )
        for place, part in enumerate(one.substructures)
    ]
    prototypes = [
        schemas.Prototype(
            class_name=near.class_name,
            number=near.number,
            similarity=near.similarity,
            members=near.members,
            molecule=near.molecule,
            drawing=drawing(near.molecule) if near.molecule else None,
        )
        for near in around.near(np.asarray(said.embedding[row]))
    ]
    picture = one.svg(outline=False, width=width, height=height)
    told = one.disagreement
    return schemas.Reasons(drawing=picture, weights=weights, parts=parts, prototypes=prototypes, disagreement=told)


def _nearest_drawing(cells: Cells) -> str | None:
    nearest = cells.get("nearest_training_molecule")
    return drawing(nearest) if isinstance(nearest, str) else None
