"""Write docs/reference from the code, so that it cannot say anything else than the code does."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, get_args

from pydantic import BaseModel
from typer.main import get_command

from mphil.benchmarks import BENCHMARKS
from mphil.chem.parse import MEANINGS, Code
from mphil.cli import app
from mphil.config import EncoderConfig, TrainConfig, keyword_arguments
from mphil.errors import DataError, IntegrityError, Stopped, UsageError
from mphil.lab.cells import Request
from mphil.lab.records import FAILED, NEEDED, read_folder
from mphil.lab.report.document import Document, ReportTable
from mphil.lab.report.make import make_document
from mphil.lab.report.rendering import table_text
from mphil.lab.report.sheets import SheetEntry, fill
from mphil.lab.report.tables import interval, spread
from mphil.lab.statistics import differences
from mphil.lab.suite import load_suite
from mphil.methods import METHODS
from mphil.methods.base import summary
from mphil.model.bundle.contents import BundleConfig, Member, MoleculeReading, References, Trust
from mphil.model.bundle.manifest import FORMAT, KNOWN, MANIFEST, REQUIRED
from mphil.pages.charts import bar_chart
from mphil.pages.elements import on_white
from mphil.provenance import NUMERICS

FOLDER = Path(__file__).parent / "reference"
RECORDS = Path(__file__).parents[1] / "benchmarks" / "results"
README = Path(__file__).parents[1] / "README.md"
PICTURE = Path(__file__).parent / "pictures" / "results.svg"
METHOD = Path(__file__).parent / "explanation" / "method.md"
RELIABILITY = Path(__file__).parent / "explanation" / "reliability.md"
COST = Path(__file__).parents[1] / "src" / "mphil" / "methods" / "cost.json"
NO_RECORDS = f"There are no records of numerics {NUMERICS} yet."
NO_RESULTS = (
    f"No result is recorded with numerics {NUMERICS} yet: the studies that choose settings score validation alone."
)
NOTE = "<!-- Written by `make docs`; edit the code instead. -->\n\n"


def argument_texts(doc: str) -> dict[str, str]:
    """The entries of the Args or Attributes section of a Google docstring."""
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", doc + "\n", re.MULTILINE)
    if section is None:
        return {}
    entries = re.split(r"^    (\w[\w, ]*): ", section.group(1), flags=re.MULTILINE)[1:]
    return {name: formulas(" ".join(text.split())) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def formulas(text: str) -> str:
    """The formulas of a docstring as Markdown has them; bars are spelled out, for they would end a cell of a table."""

    def dollars(found: re.Match[str]) -> str:
        return "$" + found[1].replace(r"\|", r"\Vert ").replace("|", r"\vert ").strip() + "$"

    return re.sub(r":math:`([^`]*)`", dollars, text)


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def methods(names: Iterable[str] = METHODS) -> str:
    cost = json.loads(COST.read_text())
    pages = [
        "# Methods\n",
        "Every method that `--method` takes: what it does, its options, and where it differs from the code of its "
        "authors.\n",
        "Cost: processor time of a training step next to ERM's, on Motif and on molecules, measured by "
        "`benchmarks/cost.py`.\n",
        row("method", "what it does", "needs", "tasks", "cost"),
        row(*["---"] * 5),
    ]
    for name in names:
        cls = METHODS[name]
        needs, tasks = ", ".join(sorted(cls.needs)) or "-", ", ".join(sorted(cls.tasks))
        times = cost.get(name, {})  # a new method has not been measured yet
        spent = " / ".join(f"{times[on]:.1f}" if on in times else "-" for on in ("motif", "molecules"))
        pages.append(row(f"[{name}](#{anchor(name)})", summary(cls), needs, tasks, spent))
    return "\n".join([*pages, "", *map(method, names)])


def heading(name: str) -> str:
    """The title of a method's section; anchors lose plus signs, so they are spelled out too."""
    return f"{name} ({name.replace('+', ' plus')})" if "+" in name else name


def anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading(name)).replace(" ", "-")


def method(name: str) -> str:
    cls = METHODS[name]
    doc = inspect.getdoc(cls) or ""
    texts, options = argument_texts(doc), keyword_arguments(cls.__init__)
    lines = [f"## {heading(name)}\n\n{formulas(doc.splitlines()[0])}\n\nPaper: {cls.paper}.\n"]
    lines += [f"Not defined for {kind} tasks: {why}.\n" for kind, why in cls.refuses.items()]
    if options:
        lines.append("\n".join([row("option", "default", "meaning"), row("---", "---", "---")]))
        lines.append("\n".join(row(f"`{k}`", f"`{v}`", texts.get(k, "")) for k, v in options.items()) + "\n")
    for preset, values in cls.presets.items():
        lines.append(f"Preset `{preset}`: " + ", ".join(f"`{k}={v}`" for k, v in values.items()) + ".\n")
    lines += [formulas(" ".join(part.split())) + "\n" for part in doc.split("\n\n") if part.startswith("Differs from")]
    return "\n".join(lines)


def benchmarks() -> str:
    pages = [
        "# Benchmarks\n",
        "Every benchmark that `--benchmark` takes: what it asks, where its graphs come from, the options of "
        "`--set benchmark.KEY=VALUE`, and where it differs from the published one. How files are fetched: "
        "[Data](../how-to/data.md).\n",
    ]
    for name in BENCHMARKS:
        entry = BENCHMARKS[name]
        options = ", ".join(f"`{k}={v}`" for k, v in entry.options.items())
        pages.append(f"## {name}\n\n{entry.summary}\n\nSource: {entry.source}\n\nOptions: {options or 'none'}.\n")
        if entry.differs:
            pages.append(f"Differs from the original: {entry.differs}\n")
    return "\n".join(pages)


def settings() -> str:
    pages = [
        "# Settings\n",
        "How networks are built and trained; given in a TOML file (`--config`) or with `--set section.key=value`, "
        "which wins.\n",
    ]
    models: dict[str, type[BaseModel]] = {"encoder": EncoderConfig, "train": TrainConfig}
    for section, model in models.items():
        texts = argument_texts(inspect.getdoc(model) or "")
        pages.append(f"## {section}\n")
        pages.append("\n".join([row("key", "default", "meaning"), row("---", "---", "---")]))
        fields = {k: f.default for k, f in model.model_fields.items() if k not in ("node", "edge")}
        pages.append(
            "\n".join(
                row(f"`{section}.{k}`", f"`{v}`" if v != "" else "empty", texts.get(k, "")) for k, v in fields.items()
            )
            + "\n"
        )
    return "\n".join(pages)


def verbs(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command and the commands below it, with the words to type."""
    for name, command in group.commands.items():
        yield prefix + name, command
        if hasattr(command, "commands"):
            yield from verbs(command, f"{prefix}{name} ")


def commands() -> str:
    pages = ["# Commands\n", "Every command with its options, as `mphil COMMAND --help` shows them.\n"]
    for name, command in verbs(get_command(app)):
        pages.append(f"## mphil {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        if command.epilog:
            examples = command.epilog.removeprefix("Example: ").split(", or for researchers ")
            pages.append("Example: " + ", or for researchers ".join(f"`{text}`" for text in examples) + "\n")
        for option in command.params:
            text = getattr(option, "help", None)
            if text:
                given = option.param_type_name == "option"
                flags = "/".join([*option.opts, *option.secondary_opts]) if given else (option.name or "").upper()
                pages.append(f"- `{flags}`: {text}")
        pages.append("")
    return "\n".join(pages)


def spread_of_shares(values: list[float]) -> str:
    """Mean and standard deviation in per cent."""
    return f"{100 * mean(values):.1f} ({100 * stdev(values):.1f})" if len(values) > 1 else f"{100 * values[0]:.1f}"


def results() -> str:
    """What the records of the lab say, without the details of `mphil lab report` and without those of a test."""
    texts = ["# Results\n"]
    chapters = [chapter for chapter in lab().chapters if not chapter.name.startswith("repeat-")]
    if not chapters:
        return "\n".join([*texts, f"{NO_RECORDS} `mphil lab run SUITE` makes some, see [the lab](../how-to/lab.md).\n"])
    texts.append("Written from the records in `benchmarks/results`, each with its command, seed and machine.\n")
    for chapter in chapters:
        table = next((block for block in chapter.blocks if isinstance(block, ReportTable)), None)
        if table is not None:
            texts.append(f"## {chapter.title}\n")
            texts += [f"{text}\n" for text in chapter.intro]
            texts.append(table_text(table) + "\n")
    return "\n".join(texts)


def against() -> list[str]:
    """The methods that the README is about, if they have records."""
    known = {record["row"] for record in read_folder(RECORDS)[0]}
    return [name for name in ("mphil+", "mphil") if name in known]


@cache
def lab() -> Document:
    """The report on all records."""
    return make_document([], RECORDS, Request(), against())


def standing() -> ReportTable | None:
    """Where MPHIL stands, a row for each benchmark; None if nothing is recorded."""
    tables = [chapter.blocks[0] for chapter in lab().chapters if chapter.name == "standing"]
    return tables[0] if tables and isinstance(tables[0], ReportTable) else None


FURTHER = ("mphil+ minus best other", "ranked rows", "suite", "spent")


def headline() -> str:
    """The README's table: where MPHIL stands, without the columns that are only in the results."""
    table = standing()
    if table is None:
        return NO_RESULTS
    kept = [place for place, name in enumerate(table.header) if name not in FURTHER]
    header, *rows = ([line[place] for place in kept] for line in (table.header, *table.rows))
    return table_text(replace(table, header=header, rows=rows))


BARS_A_LINE = 6
"""Benchmarks side by side in the README's picture, which is shown about 900 pixels wide."""


def picture() -> str:
    """The README's picture: the scores of that table as bars, with their standard deviations."""
    table = standing()
    cells = [] if table is None else [dict(zip(table.header, row, strict=True)) for row in table.rows]
    names = [name for name in ("mphil+", "mphil", "erm", "best other") if any(_scored(row, name)[0] for row in cells)]
    lines = [cells[first : first + BARS_A_LINE] for first in range(0, len(cells), BARS_A_LINE)] or [[]]
    width, height = 60 + 140 * BARS_A_LINE, 260
    charts = [
        bar_chart(
            [row["benchmark"] for row in line],
            {name: [_scored(row, name)[0] for row in line] for name in names},
            title="OOD test score in per cent, mean and standard deviation over seeds",
            y_label="",
            errors={name: [_scored(row, name)[1] for row in line] for name in names},
            y_range=(0.0, 100.0),
            show=lambda score: f"{score:.0f}",
            size=(60 + 140 * len(line), height),
        )
        for line in lines
    ]
    placed = "".join(str(chart).replace("<svg ", f'<svg y="{height * n}" ', 1) for n, chart in enumerate(charts))
    size = f'width="{width}" height="{height * len(charts)}"'
    return on_white(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{placed}</svg>') + "\n"


def _scored(cells: dict[str, str], name: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation in a column of the table; None where there is none."""
    found = re.search(r"(\d+\.\d)(?: \((\d+\.\d)\))?(?:,| #|$)", cells.get(name, ""))
    mean_and_deviation = found.groups() if found else (None, None)
    centre, deviation = (float(text) if text else None for text in mean_and_deviation)
    return centre, deviation


def with_headline(readme: str) -> str:
    """The README with its table written anew."""
    begin, end = "<!-- results: written by make docs -->\n", "\n<!-- end of results -->"
    before, rest = readme.split(begin)
    return before + begin + headline() + "\n\n" + tool_summary() + end + rest.split(end)[1]


SAME = "the same"
"""What the table of promises says where `make test-all` does no more than `make test`."""
PROMISED, END_OF_PROMISED = "<!-- measured: written by make docs -->\n", "\n<!-- end of measured -->"


def with_promises(page: str, records: list[dict[str, Any]]) -> str:
    """The page of the promises, with the newest figure of each full test; a promise without one is told too."""
    newest = {record["test"]: record for record in records}
    promised = page.split("## Promises")[1].split("\n\n## ")[0]
    names = re.findall(r"^\| (\w[\w ]+?) \|.*\| ([^|]+?) \|$", promised, re.MULTILINE)[1:]
    lines = [row("promise", "measured", "date", "load"), row(*["---"] * 4)]
    for name, full in names:
        found = [record for record in newest.values() if record["promise"] == name]
        absent = "`make test` runs all of it" if full == SAME else "not yet run in full"
        figures = "; ".join(sorted(map(_told, found))) or absent
        dates, loads = sorted({record["date"] for record in found}), sorted(round(record["load"]) for record in found)
        load = " to ".join(map(str, dict.fromkeys([*loads[:1], *loads[-1:]])))
        lines.append(row(name, figures, ", ".join(dates), load))
    machines = sorted(
        {f"{on['processor']}, {on['cores']} cores" for on in (record["machine"] for record in newest.values())}
    )
    texts = [
        "\n".join(lines),
        f"Measured on: {'; '.join(machines)}. The load is the number of processes that wanted a processor, over a "
        "minute. Records: [promises.jsonl](../../benchmarks/results/promises.jsonl), each with its command and commit.",
    ]
    before, rest = page.split(PROMISED)
    return before + PROMISED + "\n\n".join(texts) + END_OF_PROMISED + rest.split(END_OF_PROMISED)[1]


def _told(record: dict[str, Any]) -> str:
    """What a full test measured; of one that failed, also which it is."""
    figure = str(record["figure"])
    if record["outcome"] == "passed":
        return figure
    return f"**broken**: `{record['test']}`" + (f", {figure}" if figure else "")


DECIDED = "## What was decided\n"
CONTROLS = {"one prototype without separation": "one prototype"}
"""Rows of the suite `decisions` that are compared with another row than `mphil`."""
UNMEASURED = {"aggregate": "nothing: equal probabilities"}
"""Switches whose cost is known without a measurement."""
SHORT = {
    "good-motif-size": "Motif-size",
    "drugood-ec50-assay": "EC50-assay",
    "spmotif-binary-0.60": "SPMotif-binary 0.60",
    "motif-held-out-wheel": "wheel",
    "motif-held-out-tree": "tree",
    "motif-held-out-ladder": "ladder",
    "dev-toxcast-er-scaffold": "toxcast-er-scaffold",
    "dev-hiv-scaffold": "hiv-scaffold",
}
STUDIES = {
    "bases": ("attribution", 4),
    "molecules": ("attribution", -3),
    "switches": ("repaired", 3),
}
"""Tables of studies on the page of the method: suite, and which of its benchmarks, the first ones or the last ones."""


def with_costs(page: str, records: list[dict[str, Any]]) -> str:
    """The page of the method, with the measured cost of each decision in the last column of its table."""
    before, decided = page.split(DECIDED)
    lines = decided.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("| ---")) + 1
    sheet = fill(load_suite("decisions"), Request(), records)
    for number, line in enumerate(lines[first:], first):
        if not line.startswith("|"):
            break
        *cells, _ = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        switches = re.findall(r"`(\w+)", cells[-1])
        told = [UNMEASURED[key] for key in switches if key in UNMEASURED] or ["no switch"] * (not switches)
        for variant in sheet.suite.variants:
            control = CONTROLS.get(variant.name, sheet.suite.against)
            if variant.name not in CONTROLS.values() and variant.settings["method"].keys() & set(switches):
                pairs = {on: (sheet.entries[variant.name, on], sheet.entries[control, on]) for on in sheet.benchmarks}
                found = [f"{SHORT[on]} {gain}" for on, pair in pairs.items() if (gain := _gained(*pair))]
                told.append(f"{variant.name}: {', '.join(found) or 'not measured'}")
        lines[number] = "|".join(["", *cells, f" {';<br>'.join(told)} ", ""]) + "\n"
    return before + DECIDED + "".join(lines)


def with_studies(page: str, records: list[dict[str, Any]]) -> str:
    """The page of the method, with the tables of its studies written anew."""
    for name, (suite, number) in STUDIES.items():
        begin, end = f"<!-- {name}: written by make docs -->\n", f"\n<!-- end of {name} -->"
        before, rest = page.split(begin)
        page = before + begin + study(suite, number, records) + end + rest.split(end)[1]
    return page


def study(suite: str, number: int, records: list[dict[str, Any]]) -> str:
    """Rows by benchmarks: OOD validation, mean (sd) over the seeds of the mean of the last five epochs."""
    sheet = fill(load_suite(suite), Request(), records)
    benchmarks = list(sheet.benchmarks)[:number] if number > 0 else list(sheet.benchmarks)[number:]
    scores = {
        name: [list(sheet.entries[name, on].scores("ood_val", "last5").values()) for on in benchmarks]
        for name in sheet.rows
    }
    most = max((len(found) for line in scores.values() for found in line), default=0)

    def cell(values: Collection[float]) -> str:
        return spread(values) + (f", {len(values)} of {most} seeds" if 0 < len(values) < most else "")

    lines = [row("", *(SHORT[on] for on in benchmarks)), row("---", *["---"] * len(benchmarks))]
    lines += [row(name, *map(cell, found)) for name, found in scores.items() if any(found)]
    return "\n".join(lines)


def _gained(entry: SheetEntry, control: SheetEntry) -> str:
    """By how many points a row is above another on OOD validation, over the seeds that both have."""
    points = differences(entry.scores("ood_val", "last5"), control.scores("ood_val", "last5"))
    if not points:
        return ""
    if len(points) == 1:
        return f"{points[0]:+.1f} (1 seed)"
    return f"{mean(points):+.1f} ({interval(points)}; {len(points)} seeds)"


def promises() -> list[dict[str, Any]]:
    """What full tests of promises have measured."""
    file = RECORDS / "promises.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def faithfulness() -> str:
    """How faithful explanations are: a line per method and way of scoring nodes, mean over seeds."""
    texts = [
        "# Faithfulness of explanations: records\n",
        "Whether the atoms and nodes that explanations name are those that decide.\n",
        "AUC: agreement with the nodes that truly decide; 0.5 is chance. F+ and F-: fall of the probability of the "
        "predicted class when the important fifth of the nodes is removed (high is good), and when only it is kept "
        "(low is good). Means over seeds; explained in [Explanations](../explanation/explain.md).\n",
    ]
    file = RECORDS / "faithfulness.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    records = [record for record in records if record.get("numerics") == NUMERICS]
    if not records:
        command = "`OMP_NUM_THREADS=1 python benchmarks/faithfulness.py`"
        return "\n".join([*texts, f"{NO_RECORDS} {command} makes them.\n"])
    header = ["method", "seeds", "epochs", "part", "accuracy", "nodes scored by", "AUC", "F+", "F-"]
    for name in sorted({record["benchmark"] for record in records}):
        texts.append(f"## {name}\n")
        texts.append("\n".join([row(*header), row(*["---"] * len(header)), *faithfulness_rows(records, name)]) + "\n")
    texts.append(
        f"Records: [{file.name}](../../benchmarks/results/{file.name}); epoch chosen on OOD validation. Commands:\n"
    )
    return "\n".join([*texts, *(f"    {command}" for command in dict.fromkeys(r["command"] for r in records)), ""])


def faithfulness_rows(records: list[dict[str, Any]], name: str) -> list[str]:
    groups = defaultdict(list)
    for record in records:
        if record["benchmark"] == name:
            for part, ways in record["faithfulness"].items():
                for by, found in ways.items():
                    key = (record["method"], record["epochs"], record["graphs"], part, by)
                    groups[key].append((record["scores"][part], found))
    lines = []
    for (method, epochs, _, part, by), group in groups.items():
        values = [[found["auc"], found["fidelity_plus"]["0.8"], found["fidelity_minus"]["0.8"]] for _, found in group]
        means = [f"{mean(column):.3f}" for column in zip(*values, strict=True)]
        lines.append(row(method, len(group), epochs, part, spread_of_shares([score for score, _ in group]), by, *means))
    return lines


def last_records(name: str, number: int = 1) -> list[dict[str, Any]]:
    """The newest lines of a file of records, the newest last."""
    return [json.loads(line) for line in (RECORDS / name).read_text().splitlines()[-number:]]


def told_by(name: str, record: dict[str, Any]) -> str:
    """Where figures come from."""
    on = record["machine"]
    return (
        f"Record: last line of [{name}](../../benchmarks/results/{name}); {on['processor']}, {on['cores']} cores, load "
        f"{on['load']}, torch {on['torch']}.\n\n    {record['command']}\n"
    )


def speed() -> str:
    """Goals and figures of speed, what grows with what, and how the loops may be compiled."""
    goals = json.loads((RECORDS.parent / "goals.json").read_text())
    repeated = last_records("speed.jsonl", 3)
    record, (growth,), (ways,) = repeated[-1], *map(last_records, ("complexity.jsonl", "compile_choice.jsonl"))
    lines = [row("", "plain", "ours", "times", "wanted", "reached"), row(*["---"] * 6)]
    for name, found in record["rows"].items():
        goal, times = goals.get(name), [other["rows"][name]["times"] for other in repeated]
        verdict = "" if goal is None else f"{sum(value >= goal for value in times)} of {len(times)}"
        amounts = [found.get(side, "") for side in ("plain", "ours")]
        lines.append(row(name, *amounts, " / ".join(map(str, times)), goal or "", verdict))
    texts = [
        "# Speed: records\n",
        "What was measured of time and memory; explained in [Speed](../explanation/speed.md).\n",
        "## Against plain PyG\n",
    ]
    texts.append(
        "Processor seconds for 1,000 graphs, one thread, and megabytes of memory, of the newest record; ratios of the "
        "newest three, in their order.\n"
    )
    texts.append("\n".join(lines) + "\n")
    for name, found in record["profile"].items():
        texts.append(
            f"Matrix products on {name}, with the normalisation between them: {100 * found['products']:.0f} % of the "
            f"time of training, at {found['gigaflops']:.0f} of {found['attainable_gigaflops']:.0f} attainable "
            "gigaflops a second, if zeros that are not multiplied count as if they were.\n"
        )
    texts += [told_by("speed.jsonl", record), "## What grows with what\n"]
    texts.append("![Time of a training step against sizes](../pictures/complexity.svg)\n")
    lines = [row("", "sizes", "milliseconds", "exponent", "of the paper's count"), row(*["---"] * 5)]
    for name, found in growth["found"].items():
        sizes = (" / ".join(map(str, found[key])) for key in ("sizes", "milliseconds"))
        lines.append(row(name, *sizes, found["exponent"], found["counted_exponent"]))
    texts += ["\n".join(lines) + "\n", told_by("complexity.jsonl", growth), "## How the loops are compiled\n"]
    texts.append("Sum of messages, forward and backward, in milliseconds; seconds until the first result.\n")
    lines = [row("", "molecules", "motif", "seconds"), row(*["---"] * 4)]
    for name, found in ways["milliseconds"].items():
        left_out = [found["left out"], "", ""] if "left out" in found else None
        lines.append(row(name, *(left_out or (found[key] for key in ("molecules", "motif", "seconds")))))
    texts += ["\n".join(lines) + "\n", told_by("compile_choice.jsonl", ways)]
    return "\n".join([*texts, *what_users_wait_for(), *products(), *growth_of_commands()])


def what_users_wait_for() -> list[str]:
    """The goals of waiting.py beside the newest three records."""
    script, records = _script("waiting"), last_records("waiting.jsonl", 3)
    lines = [row("", "began", "wanted", "hoped for", "measured", "reached"), row(*["---"] * 6)]
    for name, newest in records[-1]["rows"].items():
        _, *goals = script.GOALS.get(name, ("", None, None, None))
        found = [record["rows"][name] for record in records]
        values = " / ".join(str(one["value"]) for one in found if "value" in one)
        held = [script.reached(name, one) for one in found]
        verdict = "" if None in held else f"{sum(map(bool, held))} of {len(held)}"
        cells = ["" if goal is None else goal for goal in goals]
        lines.append(row(name, *cells, values or f"not measured: {newest['skipped']}", verdict))
    peers = ", ".join(f"{name} {version}" for name, version in records[-1]["peers"].items())
    return [
        "## What users wait for\n",
        "One thread; processor time, or the ratio to the peer named, of the newest three records in their order. "
        f"Peers: {peers}.\n",
        "\n".join(lines) + "\n",
        told_by("waiting.jsonl", records[-1]),
    ]


def products() -> list[str]:
    """What our matrix products bring."""
    (record,) = last_records("products.jsonl")
    lines = [row("", "rows", "width", "a product", "a training step"), row(*["---"] * 5)]
    for name, found in record["found"].items():
        ratios = (
            f"{found[what]['times']} ({found[what]['quartiles'][0]} to {found[what]['quartiles'][1]})"
            for what in ("product", "training step")
        )
        lines.append(row(name, found["rows"], found["width"], *ratios))
    texts = ["## Our products\n", "Processor time with the BLAS of torch over that with ours: median (quartiles).\n"]
    return [*texts, "\n".join(lines) + "\n", told_by("products.jsonl", record)]


def growth_of_commands() -> list[str]:
    """What commands take at 1, 10 and 100 times their usual size."""
    script = _script("growth")
    found = script.recorded()
    newest = list(found.values())[-1]
    on, runs = newest["machine"], {record["what"]: record["runs"] for record in found.values()}
    return [
        "## More rows, more records\n",
        "Commands at 1, 10 and 100 times their usual size, as far as recorded: processor seconds, seconds on the "
        "clock and megabytes, each with the workers of the process. Exponents are those since the size before, 1 is "
        "linear; *beyond the start* leaves out what is there at any size, and takes three sizes.\n",
        "\n".join(row(*cells) for cells in (script.HEADER, ["---"] * len(script.HEADER), *script.lines(found))) + "\n",
        "\n".join(f"- {what}: `{command}`" for what, command in runs.items()) + "\n",
        f"Records: [growth.jsonl](../../benchmarks/results/growth.jsonl); {on['processor']}, {on['cores']} cores, of "
        f"which one is used, torch {newest['versions']['torch']}.\n",
        "    OMP_NUM_THREADS=1 python benchmarks/growth.py\n",
    ]


@cache
def tool_report() -> str:
    """Scores of the default of `mphil train FILE` and of its models, table by table."""
    script = _script("product")
    return str(script.report(script.present(), script.recorded(script.RIVAL)))


def tool_rival() -> str:
    """The same beside chemprop, on the tables and seeds that it was trained on."""
    script = _script("product")
    rivals = script.recorded(script.RIVAL)
    trained = {(one["table"], one["seed"]) for one in rivals}
    both = [record for record in script.present() if (record["table"], record["seed"]) in trained]
    return str(script.report(both, rivals)) if both else "No records of the present defaults yet."


def tool_weights() -> str:
    """Scores on validation parts for what the networks of a committee weigh before a label is seen."""
    records = _script("product").present(RECORDS / "committee.jsonl")
    return str(_script("committee").report(records)) if records else "No records of the present defaults yet."


def tool_calibration() -> str:
    """Calibration error of the default of `mphil train FILE`."""
    script = _script("product")
    return str(script.calibration(script.present()))


def tool_calibrations() -> str:
    """Calibrations beside one another on validation parts."""
    records = _script("product").present(RECORDS / "calibration.jsonl")
    script = _script("calibration")
    if not records:
        return "No records of the present defaults yet."
    told = "What became of the error on test parts of the same runs, which chose nothing:"
    return f"{script.report(records, script.SHOWN)}\n\n{told}\n\n{script.tested_report(records)}"


def tool_coverage() -> str:
    """Coverage of conformal sets under a shift."""
    script = _script("coverage")
    records = script.recorded(RECORDS / "coverage.jsonl")
    return str(script.report(records)) if records else "No records of the present numerics yet."


def tool() -> str:
    """How good the tool's default is beside the models in it."""
    texts = [
        "# The tool on tables: records\n",
        "What `mphil train FILE` gives by default, the committee, beside each model in it: ROC-AUC in per cent, mean "
        "over seeds, epochs chosen on OOD validation. Tables are made from public files as users' own might look. "
        "Recipes of networks were chosen on validation parts of the `dev` tables. The members of the committee, and "
        "what networks weigh before a label is seen, were first chosen on test parts of seven other tables "
        "(`CHOSEN_ON` in the script; that comparison has no record). That all networks but the first take descriptors "
        "was chosen on validation parts of the `dev` tables. Tables with a star share labelled test rows with those "
        "and count in no mean and no rank. Ranks are of the columns, 1 the best; a part whose labels are all alike is "
        "not scored.\n",
        tool_report() + "\n",
        "## Beside chemprop\n",
        "The same, on the tables and seeds that chemprop 2.3 was trained on: its defaults, 50 epochs, the epoch of the "
        "least loss on both validation parts (`benchmarks/rival_chemprop.py`, "
        "[chemprop.jsonl](../../benchmarks/results/chemprop.jsonl)).\n",
        tool_rival() + "\n",
        "## What networks weigh\n",
        "What all networks together weigh before a label is seen, asked again on validation parts of the same tables: "
        "weights are fitted on one part and the committee is scored on the other, ROC-AUC in per cent. The default is "
        "0.3.\n",
        tool_weights() + "\n",
        "## Calibration\n",
        "Calibrations of the committee on validation parts of the same tables: learned on four fifths of `id_val`, or "
        "of `id_val` and `ood_val`, and scored on the other fifths, in turn; fifths of `ood_val` have no scaffold, "
        "assay or size in common. A prior is the standard deviation of each number around the one that changes "
        "nothing. Tables are counted whose log-loss is below that of the former calibration, one temperature learned "
        "on `id_val`. The default is `platt` with the prior 0.2 on both parts.\n",
        tool_calibrations() + "\n",
        "Calibration error of the committee on test parts in ten bins, of all tables. On a few hundred rows it would "
        "not be 0 if every probability were true: what it would be then is in the next column. The debiased error is "
        "the root of the mean square gap less what chance adds to it ([how](../explanation/trust.md#probabilities)); a "
        "root mean square is never below the mean gap it belongs to. Rows of a temperature are from records made "
        "before `platt` was the default.\n",
        tool_calibration() + "\n",
        "## Sets under a shift\n",
        "Share of true classes in their conformal sets, in per cent, and size of the sets, for one network of the "
        "tool's recipe: sets as they are, and weighted for the shift "
        "([how](../explanation/trust.md#sets-under-a-shift)). Calibration and thresholds are those of `id_val`.\n",
        tool_coverage() + "\n",
        "Records: [product.jsonl](../../benchmarks/results/product.jsonl), "
        "[coverage.jsonl](../../benchmarks/results/coverage.jsonl), each with its command, seed, versions, "
        "machine and state of the code.\n\n    python benchmarks/product.py\n    python benchmarks/committee.py\n"
        "    python benchmarks/calibration.py\n    python benchmarks/coverage.py\n",
    ]
    return "\n".join(texts)


def tool_summary() -> str:
    """The README's table: the tool's default beside its models, over all tables."""
    seeds = sorted({record["seed"] for record in _script("product").present()})
    if not seeds:
        return "The default of `mphil train FILE` has no records in its present form yet."
    told = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return (
        f"The default of `mphil train FILE` beside each model in it, ROC-AUC in per cent, {told}, on tables whose test "
        "parts nothing was chosen on:\n\n" + str(_script("product").summary(tool_report()))
    )


def _script(name: str) -> Any:
    """A module of the benchmarks folder."""
    folder = str(RECORDS.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def screening() -> str:
    """Rows a second and memory of a short and a long table."""
    (record,) = last_records("screening.jsonl")
    columns = ["rows", "answered", "seconds", "rows_per_second", "megabytes_peak", "megabytes_written"]
    lines = [row(*(name.replace("_", " ") for name in columns)), row(*["---"] * len(columns))]
    lines += [row(*(f"{case[name]:,}" for name in columns)) for case in record["cases"]]
    texts = [
        "# Screening: records\n",
        "Time and memory of `mphil predict` on large tables; see [The tool](../how-to/tool.md#what-it-costs).\n",
        "\n".join(lines) + "\n",
    ]
    texts.append(
        f"The long table took {record['megabytes_more']:,} MB more than the short one; {record['limit']} are allowed.\n"
    )
    texts.append(
        "Record: last line of [screening.jsonl](../../benchmarks/results/screening.jsonl); "
        f"{record['machine']}, load {record['load']:.1f} at the start.\n\n    {record['command']}\n"
    )
    return "\n".join(texts)


def errors() -> str:
    """Exit codes from the exception tree, and the codes of rows without an answer."""
    kinds = [DataError, IntegrityError, Stopped, UsageError]
    lines = [row("exit code", "meaning"), row("---", "---"), row(0, "done")]
    lines += [
        row(kind.exit_code, (inspect.getdoc(kind) or "").splitlines()[0])
        for kind in sorted(kinds, key=lambda kind: kind.exit_code)
    ]
    lines.insert(3, row(1, "A fault of the program; please report it."))
    lines.append(row(143, "As 130, by SIGTERM."))
    codes = [
        row("status", "meaning"),
        row("---", "---"),
        *(row(f"`{code}`", MEANINGS[code]) for code in get_args(Code)),
    ]
    return "\n".join(
        [
            "# Errors\n",
            "A message says what is wrong, where (file, row, column), the value, and what to do.\n",
            "## Exit codes\n",
            *lines,
            "",
            "## Rows without an answer\n",
            "A row that cannot be used is kept, with a `status` of one word and a `message`.\n",
            *codes,
        ]
    )


RECORD_FIELDS = {
    "kind": "`run`, `refused` (the method is not defined for the benchmark) or `failed`",
    "cell": "hash of all settings, seed, share of the graphs and numerics: the identity of the run",
    "setting": "the same without the seed: runs of one setting are averaged",
    "numerics": "version of everything that decides a number",
    "suite": "suite that asked for it first",
    "row": "row of the table",
    "benchmark": "name of the benchmark",
    "method": "name of the method",
    "seed": "seed of training",
    "selection": "rule of the suite",
    "budget": "name, epochs, and shares of the training graphs and of the others",
    "command": "repeats the run",
    "commit": "of the checkout; null for an installed package",
    "dirty": "whether there were uncommitted changes; null likewise",
    "metric": "what the scores are",
    "selections": "for each rule the chosen epoch and the scores of all parts there",
    "last": "the same for the last epoch",
    "last5": "mean scores of the last five epochs",
    "earlier_stages": "what stages before the main one reported",
    "seeds": "seeds of training and of the data",
    "config": "all settings with their defaults filled in",
    "fingerprint": "hash of the settings that decide the result, and of the data",
    "data_digest": "hash of the graphs",
    "split_digest": "hash of the parts",
    "notes": "what was said before training, such as a schedule that is shortened",
    "parameters": "numbers in the network",
    "seconds": "on the clock",
    "cpu_seconds": "of the processor",
    "versions": "of Python and the packages",
    "code": "hash of the sources that decide numbers",
    "path": "`compiled` loops or the `plain` path",
    "machine": "system, processor, instructions, compiler, cores, threads, processes",
    "history": "scores of every epoch, part by part",
    "probes": "measurements on the trained model that the suite asks for",
    "weights": "SHA-256 of the weights",
    "reason": "of a refusal: why",
    "error": "of a failure: what was raised",
}


def records() -> str:
    """The fields of a record, as they stand in a committed one."""
    example = json.loads((Path(__file__).parents[1] / "tests" / "golden" / "repeat.jsonl").read_text().splitlines()[0])
    shown = {name: example[name] for name in ("cell", "suite", "selections", "budget", "machine")}
    lines = [row("field", "in", "meaning"), row("---", "---", "---")]
    for name in dict.fromkeys([*example, *(field for fields in NEEDED.values() for field in fields)]):
        kinds = [kind for kind, fields in NEEDED.items() if name in fields]
        where = "all" if len(kinds) == len(NEEDED) else ", ".join(kinds) or "run, not always"
        lines.append(row(f"`{name}`", where, RECORD_FIELDS[name]))
    return "\n".join(
        [
            "# Records\n",
            "A record is the line of JSON that a finished run of the lab leaves in `benchmarks/results/SUITE.jsonl`, "
            "or that [`mphil.study`](../how-to/lab.md#a-comparison-in-python) leaves in its folder. Failures are in "
            f"`SUITE{FAILED}`. Records of other numerics than {NUMERICS} are not used.\n",
            *lines,
            "",
            f"Example: `{example['command']}`\n",
            "```json",
            json.dumps(shown, indent=1),
            "```",
        ]
    )


BUNDLE_FILES = {
    "model.safetensors": "weights of the (first) network",
    "committee.safetensors": "weights of further networks, and trees as plain arrays",
    "config.json": "what the model is; below",
    "trust.json": "calibration, conformal thresholds or intervals, bands; below",
    "references.safetensors": "the training graphs; below",
    "references.csv.gz": "SMILES and names of the training molecules",
    "held_out.safetensors": "the rows that conformal thresholds and bands were fitted on",
    "seen.json": "elements and ring systems of the training molecules",
    "metrics.json": "scores, for people and machines",
    "card.html": "the page that describes the model",
}


def bundle() -> str:
    """The files of a bundle, and what is in those that a program reads."""
    files = [row("file", "always there", "contents"), row("---", "---", "---")]
    files += [row(f"`{name}`", "yes" if name in REQUIRED else "", BUNDLE_FILES[name]) for name in sorted(KNOWN)]
    files.append(row(f"`{MANIFEST}`", "yes", "format, and size and SHA-256 of every other file"))
    pages = ["# Bundle format\n", f"Format {FORMAT}. Nothing in a bundle is a program; no pickles.\n", *files, ""]
    for title, kind in (
        ("config.json", BundleConfig),
        ("config.json, `molecules`", MoleculeReading),
        ("config.json, a member of `committee`", Member),
        ("trust.json", Trust),
        ("references", References),
    ):
        doc = inspect.getdoc(kind) or ""
        pages += [f"## {title}\n", f"{doc.splitlines()[0]}\n", row("key", "meaning"), row("---", "---")]
        pages += [row(f"`{name}`", text) for name, text in argument_texts(doc).items()] + [""]
    return "\n".join(pages)


def pages(names: Iterable[str] = METHODS) -> dict[str, str]:
    """File name to its text; methods other than these are left out."""
    texts = {"methods": methods(names), "benchmarks": benchmarks(), "settings": settings(), "commands": commands()}
    texts |= {"errors": errors(), "records": records(), "bundle": bundle()}
    texts |= {"results": results(), "faithfulness": faithfulness()}
    texts |= {"speed": speed(), "screening": screening(), "tool": tool()}
    return {f"{name}.md": NOTE + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n" for name, text in texts.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
    README.write_text(with_headline(README.read_text()))
    PICTURE.write_text(picture())
    recorded = read_folder(RECORDS)[0]
    METHOD.write_text(with_studies(with_costs(METHOD.read_text(), recorded), recorded))
    RELIABILITY.write_text(with_promises(RELIABILITY.read_text(), promises()))
