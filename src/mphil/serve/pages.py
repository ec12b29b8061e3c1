"""What a browser is given: the page itself, its scripts and styles, the map, the model card, the list of operations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from mphil.pages.elements import stylesheet
from mphil.pages.sphere_map import SCRIPTS as MAP_SCRIPTS
from mphil.pages.sphere_map import molecule_map
from mphil.pages.template import Grid, page, resource
from mphil.serve import answers
from mphil.serve.api import JobOf, PageNumber, ResultsOf, ServiceOf, check_page
from mphil.serve.requests import Refusal, in_time

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


Document = Mapping[str, Any]

EXAMPLE = """curl -H 'content-type: application/json' -d '{"smiles": ["CCO"]}' ADDRESS/api/predict"""
TITLES = {"model": "Ask the model", "files": "Send a file", "state": "Is it there?"}


def operations_page(document: Document) -> str:
    """A page that lists every operation with what it takes and gives.

    Args:
        document: what `/openapi.json` says.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(document, method.upper(), path, operation))
    sections = [(tag, TITLES.get(tag, tag), groups[tag]) for tag in sorted(groups, key=_place)]
    return page("operations", "mphil: the API", example=EXAMPLE, sections=sections)


def _place(tag: str) -> int:
    return list(TITLES).index(tag) if tag in TITLES else len(TITLES)


def _operation(document: Document, method: str, path: str, operation: Document) -> Mapping[str, Any]:
    takes = [*_parameters(operation), *_body(document, operation)]
    answers = [(s, answer) for s, answer in operation["responses"].items() if s.startswith("2")]
    return {
        "name": f"{method} {path}",
        "description": operation.get("description", ""),
        "takes": Grid("Takes", ["Name", "Where", "Kind", "Meaning"], takes, numeric_from=9) if takes else None,
        "answers": [_answer(document, status, answer) for status, answer in answers],
    }


def _parameters(operation: Document) -> list[Sequence[str]]:
    return [
        [one["name"], one["in"], _kind(one["schema"]), one.get("description", "")]
        for one in operation.get("parameters", ())
    ]


def _body(document: Document, operation: Document) -> list[Sequence[str]]:
    found: list[Sequence[str]] = []
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(document, content["schema"])
        fields = schema.get("properties")
        if fields is None:
            found.append(["the file", "body", media, ""])
            continue
        for name, field in fields.items():
            limit = f"at most {field['maxItems']:,}" if "maxItems" in field else ""
            found.append([name, "body", _kind(field), field.get("description", limit)])
    return found


def _answer(document: Document, status: str, answer: Document) -> tuple[str, str]:
    """What an operation gives in a line, and the schema of an object."""
    for media, content in answer.get("content", {}).items():
        schema = _resolved(document, content["schema"])
        if schema.get("type") == "object":
            told = f"{status}: {schema.get('description', media)}"
            return told, json.dumps(schema.get("properties", {}), indent=1)
        return f"{status}: `{media}`", ""
    return f"{status}: nothing", ""


def _resolved(document: Document, schema: Document) -> Document:
    """The schema itself where there is only a reference to it."""
    if "$ref" not in schema:
        return schema
    found: Document = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _kind(schema: Document) -> str:
    """A schema in a word or two."""
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    return str(schema.get("type", "value"))
