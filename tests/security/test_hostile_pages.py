"""Names from outside, made to do harm, in every page that there is a template for."""

import copy
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files

import pytest

from mphil.benchmarks.catalogue import benchmark
from mphil.lab.report.document import Bars, Chapter, Document, DrawnMolecules, ReportTable
from mphil.lab.report.rendering import html
from mphil.model.bundle.folder import trust_values
from mphil.pages import demo_page, gallery_page
from mphil.pages.card import card_page
from mphil.pages.check_page import check_page
from mphil.pages.regulatory import chapters, regulatory_page
from mphil.pages.samples import sample_page
from mphil.pages.sphere_map import molecule_map
from mphil.pages.template import page
from mphil.serve.pages import operations_page
from mphil.tables.inspection import check
from tests.products import molecules, write_table
from tests.security.test_hostile_text import CONTROL, HOSTILE, MARKUP, assert_page
from tests.unit.pages.conftest import view as demo_view  # noqa: F401
from tests.unit.pages.test_gallery_page import view as gallery_view  # noqa: F401
from tests.unit.pages.test_map import made

SHARED = {"layout", "macros"}
MADE: dict[str, Callable[[pytest.FixtureRequest], list[str]]] = {}
"""Name of a template to the pages it makes."""


def template(name: str):
    def listed(make):
        MADE[name] = make
        return make

    return listed


@template("sections")
def cards_and_reports(request):
    bundle = request.getfixturevalue("product").bundle
    config = copy.deepcopy(bundle.config.model_dump(mode="json"))
    metrics, trust = copy.deepcopy(dict(bundle.metrics)), trust_values(bundle.trust)
    config |= {"targets": [MARKUP], "classes": [MARKUP, CONTROL], "versions": {MARKUP: CONTROL}}
    config["data"] |= {"file": MARKUP, "split": MARKUP, "data_digest": CONTROL, "settings": {MARKUP: MARKUP}}
    config["molecules"]["column"] = MARKUP
    config["method"] = {"name": MARKUP, "args": {MARKUP: CONTROL}}
    metrics["scores"] = {**{name: next(iter(metrics["scores"].values())) for name in HOSTILE}, **metrics["scores"]}
    metrics["left_out"] = {MARKUP: CONTROL, "random forest": MARKUP, "calibration": MARKUP}
    found = chapters(config, metrics, trust, weights=MARKUP, digest=CONTROL)
    return [card_page(config, metrics, trust, MARKUP), regulatory_page(found)]


@template("check")
def checked_tables(request):
    labels = [MARKUP, CONTROL] * (len(molecules()) // 2)
    smiles = [*molecules()[:-1], MARKUP]
    columns = {"smiles": smiles, "id": [f"{MARKUP}{i}" for i in range(len(smiles))], MARKUP: labels}
    path = write_table(request.getfixturevalue("tmp_path") / "<x-evil>.csv", columns)
    return [check_page(check(path, targets=[MARKUP]))]


@template("demo")
def demonstrations(request):
    view = request.getfixturevalue("demo_view")
    data = replace(view.data, benchmark=MARKUP, classes=[MARKUP, CONTROL], story=[MARKUP], noun=MARKUP, digest=MARKUP)
    making = replace(view.making, command=MARKUP, machine=MARKUP, versions={MARKUP: CONTROL}, date=MARKUP)
    methods = [replace(one, name=name, label=name) for one, name in zip(view.methods, HOSTILE, strict=False)]
    shown = replace(view.molecules[0], name=MARKUP, caption=MARKUP, truth=MARKUP)
    shown = replace(shown, found={MARKUP: demo_page.FoundAtoms(MARKUP, 0.5)})
    commands = [(MARKUP, CONTROL)]
    view = replace(view, data=data, making=making, methods=methods, molecules=[shown], next_commands=commands)
    return [demo_page.render(view)]


@template("gallery")
def galleries(request):
    view = request.getfixturevalue("gallery_view")
    drawing = gallery_page.Drawing(MARKUP, MARKUP, CONTROL)
    group = replace(view.prototypes[0], name=MARKUP, shared=MARKUP, nearest=[drawing])
    group = replace(group, fragments=[gallery_page.Fragment(MARKUP, (1, 1), (1, 1))])
    row = gallery_page.PartRow(MARKUP, MARKUP, MARKUP, MARKUP, MARKUP)
    view = replace(
        view,
        eyebrow=MARKUP,
        heading=MARKUP,
        lead=HOSTILE,
        centres=MARKUP,
        prototypes=[group],
        explained=[gallery_page.ExplainedView(drawing, [row], MARKUP, MARKUP, [drawing], MARKUP)],
        notes=HOSTILE,
        making=[(MARKUP, CONTROL)],
        map=hostile_map(),
        parts=[gallery_page.PatternView(MARKUP, 1, 1.0, [drawing])],
    )
    return [gallery_page.render(view)]


def hostile_map():
    view = made(names=(MARKUP, CONTROL, "C"))
    parts = [(part, MARKUP, mark) for part, _, mark in view.parts]
    return replace(view, pictures=[MARKUP] * 4, details=HOSTILE[:4], class_names=[MARKUP, CONTROL], parts=parts)


@template("map")
def served_maps(_):
    return [page("map", MARKUP, map=molecule_map(replace(hostile_map(), title=MARKUP), identifier="sphere"))]


@template("samples")
def samples(_):
    pages = []
    for name in ("decoy-scaffold", "good-motif-basis"):
        data = benchmark(name, graphs=60)
        classes = tuple(HOSTILE[i % len(HOSTILE)] for i in range(data.task.n_classes))
        facts = data.statistics() | {"summary": MARKUP, "source": CONTROL}
        pages.append(sample_page(replace(data, name=MARKUP, classes=classes), facts))
    return pages


@template("report")
def lab_reports(_):
    told = " ".join(HOSTILE)
    blocks = [
        ReportTable(told, HOSTILE, [HOSTILE] * 2, frozenset({(0, 1)}), HOSTILE),
        ReportTable(told, HOSTILE, [HOSTILE] * 2, folded=True),
        Bars(told, told, dict.fromkeys(HOSTILE, 0.5), caption=told),
        DrawnMolecules(told, [("CCO", [0.0, 0.5, 1.0], told)], told),
    ]
    chapter = Chapter(MARKUP, told, HOSTILE, blocks, [(told, told)], page="suite")
    return list(html(Document([chapter], HOSTILE, [replace(chapter, page=MARKUP)])).values())


@template("operations")
def operations(_):
    field = {"type": MARKUP, "description": MARKUP}
    answer = {"type": "object", "description": MARKUP, "properties": {MARKUP: field}}
    schemas = {"A": answer, "B": {"type": MARKUP}}
    contents = [{MARKUP: {"schema": {"$ref": f"#/components/schemas/{name}"}}} for name in schemas]
    one = {
        "tags": [MARKUP],
        "description": MARKUP,
        "parameters": [{"name": MARKUP, "in": MARKUP, "schema": field, "description": CONTROL}],
        "requestBody": {"content": contents[0] | {CONTROL: {"schema": {"type": MARKUP}}}},
        "responses": {"200": {"content": contents[0]}, "201": {"content": contents[1]}, f"2{MARKUP}": {}},
    }
    return [operations_page({"paths": {MARKUP: {MARKUP: one}}, "components": {"schemas": schemas}})]


@pytest.mark.parametrize("name", sorted(MADE))
def test_names_stay_text(name, request):
    for text in MADE[name](request):
        assert_page(text, "&lt;x-evil")


def test_every_page_is_tested():
    found = {file.name.removesuffix(".html") for file in files("mphil.pages").joinpath("templates").iterdir()}
    assert {name for name in found if not name.startswith("_")} - SHARED == set(MADE)
