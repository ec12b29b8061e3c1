"""The list of operations for people, written from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mphil.pages.document import RowGroup, details, paragraph, section, table
from mphil.pages.text import escape

Document = Mapping[str, Any]

EXAMPLE = """curl -H 'content-type: application/json' -d '{"smiles": ["CCO"]}' ADDRESS/api/predict"""
TITLES = {"model": "Ask the model", "files": "Send a file", "state": "Is it there?"}


def operations_page(document: Document) -> str:
    """A page that lists every operation with what it takes and gives.

    Args:
        document: what `/openapi.json` says.
    """
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(document, method.upper(), path, operation))
    body = (
        '<header><p class="eyebrow"><a href="/">mphil</a></p><h1>The API</h1>'
        + paragraph("Programs can do all that the page does. An error is an object with `error` and `remedy`.")
        + f'<pre class="command" tabindex="0"><code>{escape(EXAMPLE)}</code></pre>'
        + '<p class="note">For programs: <a href="/openapi.json">openapi.json</a></p></header><main>'
        + "".join(section(tag, TITLES.get(tag, tag), *groups[tag]) for tag in sorted(groups, key=_place))
        + "</main>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>mphil: the API</title>\n'
        '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/static/style.css">\n</head>\n'
        f'<body class="document">\n{body}\n</body>\n</html>\n'
    )


def _place(tag: str) -> int:
    return list(TITLES).index(tag) if tag in TITLES else len(TITLES)


def _operation(document: Document, method: str, path: str, operation: Document) -> str:
    takes = [*_parameters(operation), *_body(document, operation)]
    parts = [f"<h3><code>{escape(method)} {escape(path)}</code></h3>", paragraph(operation.get("description", ""))]
    if takes:
        parts.append(table("Takes", ["Name", "Where", "Kind", "Meaning"], [RowGroup(takes)], numeric_from=9))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            parts.append(_answer(document, status, answer))
    return f'<article class="operation">{"".join(parts)}</article>'


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


def _answer(document: Document, status: str, answer: Document) -> str:
    for media, content in answer.get("content", {}).items():
        schema = _resolved(document, content["schema"])
        if schema.get("type") == "object":
            text = json.dumps(schema.get("properties", {}), indent=1)
            block = f'<pre class="command" tabindex="0"><code>{escape(text)}</code></pre>'
            return details(f"{status}: {schema.get('description', media)}", block)
        return paragraph(f"{status}: `{media}`", "note")
    return paragraph(f"{status}: nothing", "note")


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
