"""The list of operations for people, written from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mphil.pages.template import Grid, page

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
