"""What a browser is given: the page itself, its scripts and styles, the map, the model card, the list of operations."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from mphil.pages.sphere import SCRIPTS as MAP_SCRIPTS
from mphil.pages.sphere import molecule_map
from mphil.pages.svg import stylesheet
from mphil.pages.template import page, resource
from mphil.serve import answers
from mphil.serve.api import JobOf, PageNumber, ResultsOf, ServiceOf, check_page
from mphil.serve.deadline import in_time
from mphil.serve.operations import operations_page
from mphil.serve.refusal import Refusal

SCRIPTS = ("main.js", "api.js", "elements.js", "table.js", "details.js")
STYLES = "style.css"

INSIDE = "frame-ancestors 'self'"
"""Policy of the map: its own, in the document, lists its scripts by their hash; our page may show it in a frame."""

CARD = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""Policy of the card, which comes with the bundle: to be looked at, nothing in it runs."""

router = APIRouter(include_in_schema=False)


def asset(name: str) -> str:
    """Text of a file of the page."""
    return files("mphil.serve").joinpath("page", name).read_text(encoding="utf-8")


@router.get("/")
async def index() -> HTMLResponse:
    """The page."""
    return HTMLResponse(asset("index.html"))


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """A script or the style sheet, by its exact name; nothing else of the disk can be asked for."""
    if name == STYLES:
        return Response("\n".join([stylesheet(), resource("style.css"), asset(STYLES)]), media_type="text/css")
    if name in SCRIPTS:
        return Response(asset(name), media_type="text/javascript")
    raise Refusal(404, "there is no such file", "open / instead")


@router.get("/map/{job_id}")
async def sphere_map(
    request: Request,
    job: JobOf,
    results: ResultsOf,
    service: ServiceOf,
    number: Annotated[PageNumber, Query(alias="page")] = 1,
    target: str | None = None,
) -> HTMLResponse:
    """The molecules of a page of answers on the sphere, among those of training."""
    check_page(results, number)
    task = service.task(target)

    def draw() -> str:
        explained = answers.explained_page(service, job, results, number)
        labels = answers.labels_of(results, number, explained)
        around = service.surroundings(task)
        view = around.map(explained.new_molecules(task, around.levels), labels)
        return page(
            "map",
            "Map",
            scripts=[] if view is None else MAP_SCRIPTS,
            styles=["gallery.css", "map.css"],
            map=None if view is None else molecule_map(view, identifier="sphere"),
        )

    return HTMLResponse(await in_time(request, service.ask(draw)), headers={"content-security-policy": INSIDE})


@router.get("/card")
async def card(service: ServiceOf) -> HTMLResponse:
    """The model card of the bundle."""
    text = service.predictor.bundle.card
    if not text:
        raise Refusal(404, "the bundle has no card", "train it again to get one")
    return HTMLResponse(text, headers={"content-security-policy": CARD})


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The operations of the API."""
    return HTMLResponse(operations_page(request.app.openapi()))
