"""The JSON API: each operation says what it wants, asks the service, and answers."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse

from mphil.limits import MAX_UPLOAD_BYTES
from mphil.serve import answers, schemas
from mphil.serve.explainer import Explainer
from mphil.serve.guard import UPLOAD, too_large
from mphil.serve.jobs import Job, Jobs
from mphil.serve.requests import Refusal, in_time, kind_of
from mphil.serve.results import Results
from mphil.serve.service import ModelService

FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem, "description": text}
    for status, text in {
        400: "The request cannot be carried out as it is.",
        403: "It comes from another page.",
        404: "There is no such thing.",
        413: "It is too large.",
        415: "Its content type is another one.",
        422: "It does not have the form that is described here.",
        503: "Too much is going on; try again.",
        504: "It takes too long.",
    }.items()
}
BINARY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}, "required": True}

router = APIRouter(responses=FAULTS)


async def get_service(request: Request) -> ModelService:
    """The service of the server."""
    service: ModelService = request.app.state.service
    return service


async def get_process(request: Request) -> Explainer:
    """The process of the server for such requests."""
    kind = kind_of(request.scope["path"], int(request.headers["content-length"]))
    process: Explainer = request.app.state.processes[kind]
    return process


async def get_jobs(request: Request) -> Jobs:
    """The files of the server."""
    jobs: Jobs = request.app.state.jobs
    return jobs


async def get_job(jobs: Annotated[Jobs, Depends(get_jobs)], job_id: str) -> Job:
    """The file that the path names."""
    return jobs[job_id]


async def get_results(job: Annotated[Job, Depends(get_job)]) -> Results:
    """The answers to a file, which must be finished."""
    if job.results is None:
        raise Refusal(409, f"the job is {job.state}", "wait until its state is `done`")
    return job.results


ServiceOf = Annotated[ModelService, Depends(get_service)]
ProcessOf = Annotated[Explainer, Depends(get_process)]
JobsOf = Annotated[Jobs, Depends(get_jobs)]
JobOf = Annotated[Job, Depends(get_job)]
ResultsOf = Annotated[Results, Depends(get_results)]
PageNumber = Annotated[int, Query(ge=1, description="Which page, from 1.")]


@router.get("/healthz", tags=["state"])
async def health() -> schemas.Health:
    """Say that the process is up."""
    return schemas.Health(status="up")


@router.get("/readyz", tags=["state"])
async def readiness(service: ServiceOf) -> schemas.Health:
    """Say that the model is loaded and has answered once; 503 before that."""
    if not service.ready:
        raise Refusal(503, "the model has not answered yet", "ask again in a moment")
    return schemas.Health(status="ready")


@router.get("/api/model", tags=["model"])
async def model(request: Request, service: ServiceOf) -> schemas.ModelFacts:
    """Tell what is served: task, data, scores, limits."""
    return await in_time(request, service.ask(lambda: answers.model_facts(service)))


@router.post("/api/predict", tags=["model"], response_model=schemas.PredictResponse)
async def predict(request: Request, body: schemas.PredictRequest, process: ProcessOf) -> Response:
    """Predict molecules; every row comes back, with a status."""
    return Response(await in_time(request, process.ask(body.smiles)), media_type="application/json")


@router.post("/api/explain", tags=["model"], response_model=schemas.ExplainResponse)
async def explain(request: Request, body: schemas.ExplainRequest, service: ServiceOf, process: ProcessOf) -> Response:
    """Predict molecules and say why: atoms, ranked substructures, nearest prototypes."""
    service.task(body.target)
    text = await in_time(request, process.ask(body.smiles, body.target))
    return Response(text, media_type="application/json")


@router.post(UPLOAD, tags=["files"], status_code=202, openapi_extra={"requestBody": BINARY})
async def upload(
    request: Request,
    response: Response,
    jobs: JobsOf,
    name: Annotated[str, Query(max_length=1000, description="Of the file: its end tells its kind.")] = "molecules.csv",
    column: Annotated[str | None, Query(max_length=1000, description="Of the molecules; found when absent.")] = None,
) -> schemas.JobState:
    """Send a table (CSV, TSV, SDF, .smi or parquet, also gzip) as the body; it is predicted in the background."""
    job = jobs.add(name, column)
    try:
        await _receive(request, job)
    except BaseException:
        jobs.remove(job.id)
        raise
    jobs.start(job)
    response.headers["Location"] = f"/api/jobs/{job.id}"
    return answers.job_state(jobs, job)


async def _receive(request: Request, job: Job) -> None:
    """Write the body to disk as it comes, in constant memory."""
    size = 0
    with job.source.open("xb") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > MAX_UPLOAD_BYTES:
                raise too_large(MAX_UPLOAD_BYTES)
            file.write(piece)


@router.get("/api/jobs/{job_id}", tags=["files"])
async def job_state(job: JobOf, jobs: JobsOf) -> schemas.JobState:
    """Tell how far a file is."""
    return answers.job_state(jobs, job)


@router.get("/api/jobs/{job_id}/rows", tags=["files"])
async def rows(
    request: Request, job: JobOf, results: ResultsOf, service: ServiceOf, page: PageNumber = 1
) -> schemas.RowsResponse:
    """Give a page of the answers, with drawings."""
    check_page(results, page)
    return await in_time(request, service.ask(lambda: answers.page_of(service, job, results, page)))


@router.get(
    "/api/jobs/{job_id}/result.csv",
    tags=["files"],
    response_class=FileResponse,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The table."}},
)
async def result(job: JobOf, results: ResultsOf) -> FileResponse:
    """Give the table as `mphil predict` writes it: the same rows and columns, ours behind them."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", job.name.partition(".")[0]).strip("-") or "molecules"
    return FileResponse(results.path, media_type="text/csv; charset=utf-8", filename=f"{stem}-predictions.csv")


@router.delete("/api/jobs/{job_id}", tags=["files"], status_code=204)
async def forget(job: JobOf, jobs: JobsOf) -> None:
    """Stop the work on a file and forget it with its answers."""
    jobs.remove(job.id)


def check_page(results: Results, page: int) -> None:
    """Refuse a page that is not there."""
    if page > results.pages:
        raise Refusal(404, f"there is no page {page:,}", f"the last one is {results.pages:,}")
