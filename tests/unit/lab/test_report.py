"""Reports: the numbers are those of the records, and whatever does not belong is named, never merged."""

import re
from dataclasses import replace
from statistics import mean, stdev
from xml.etree import ElementTree

import pytest

from mphil.errors import DataError, UsageError
from mphil.lab.cells import Request, expand
from mphil.lab.paper import printed
from mphil.lab.records import RecordFile
from mphil.lab.report import markdown, write_report
from mphil.lab.report.document import Bars, Chapter, Curves, Document, Molecules, Scatter, Table
from mphil.lab.report.figures import figures
from mphil.lab.report.gather import fill, same_data, unused
from mphil.lab.report.html import html
from mphil.lab.report.latex import escape as latex_escape
from mphil.lab.report.latex import latex
from mphil.lab.report.latex import table_text as latex_table
from mphil.lab.report.markdown import table_text as markdown_table
from mphil.lab.report.pictures import svg
from mphil.lab.report.tables import caption, detail, overview, standing, timing
from mphil.lab.report.write import make_chapter, make_document
from mphil.lab.suite import parse_suite
from mphil.lab.worker import failure
from tests.unit.lab.made import TINY, record, refused

TEXT = (
    TINY.replace('methods = ["erm"]', 'methods = ["erm", "vrex", "mphil", "moleood"]\nreference = "good"')
    .replace('"good-motif-basis"', '"good-motif-basis", "good-motif-size"')
    .replace("seeds = [0, 1]", 'seeds = [0, 1, 2]\nagainst = "mphil"')
    + "[budgets.small]\nepochs = 3\nfraction = 0.5\n"
)
SUITE = parse_suite("table", TEXT)
CELLS = {(c.row, c.benchmark, c.seed): c for c in expand(SUITE)}
SCORES = {"erm": [0.60, 0.62, 0.67], "vrex": [0.70, 0.72, 0.71], "mphil": [0.65, 0.66, 0.70]}
SUITE_ROWS = [row.name for row in SUITE.rows()]
BASIS, SIZE = "good-motif-basis", "good-motif-size"


def records():
    """All seeds on the basis split; on the size split two seeds of ERM, a refusal, and nothing else."""
    made = [
        record(CELLS[row, BASIS, seed], score, id_test=score + 0.1, last=score - 0.1)
        for row, scores in SCORES.items()
        for seed, score in enumerate(scores)
    ]
    made += [record(CELLS["erm", SIZE, seed], 0.5) for seed in (0, 1)]
    return [*made, refused(CELLS["moleood", SIZE, 0], "graphs are no molecules")]


def sheet(found=None, failures=()):
    return fill(SUITE, Request(), records() if found is None else found, failures)


def as_dict(table):
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}


def stored(folder, found, name="table"):
    for one in found:
        RecordFile(folder / f"{name}.jsonl").append(one)
    return folder


class TestNumbers:
    def test_detail_is_worked_out_from_the_seeds(self):
        rows = as_dict(detail(sheet(), BASIS))
        scores = [60.0, 62.0, 67.0]
        assert rows["erm"]["OOD test"] == f"{mean(scores):.1f} ({stdev(scores):.1f})" == "63.0 (3.6)"
        assert rows["erm"]["ID test"] == "73.0 (3.6)"
        assert rows["erm"]["OOD test, last epoch"] == "53.0 (3.6)"
        assert (rows["erm"]["paper"], rows["erm"]["difference"]) == ("60.93 (2.11)", "+2.1")
        assert [rows[name]["rank"] for name in ("erm", "vrex", "mphil")] == ["3", "1", "2"]
        assert rows["erm"]["seeds"] == "3 of 3"
        low, high = map(float, rows["erm"]["95 % interval"].split(" to "))
        assert 60 <= low < 63 < high <= 67
        assert rows["mphil"]["p against mphil"] == "-"
        # Differences -5, -4, -3: t = 4 sqrt 3, and p = 1 - t / sqrt(t^2 + 2) with two degrees of freedom.
        assert float(rows["erm"]["p against mphil"]) == pytest.approx(1 - 48**0.5 / 50**0.5, abs=5e-4)

    def test_fewer_seeds_than_others_have_no_place(self):
        """One lucky seed would stand before three honest ones."""
        some = [one for one in records() if one["seed"] < 1 or one["method"] != "vrex"]
        rows, table = as_dict(detail(sheet(some), BASIS)), detail(sheet(some), BASIS)
        assert [rows[name]["rank"] for name in ("erm", "vrex", "mphil")] == ["2", "-", "1"]
        assert table.strong == {(SUITE_ROWS.index("mphil"), 2)}
        assert {row["mean rank"] for row in as_dict(overview(sheet(some))).values()} == {"-"}

    def test_states_of_the_code_are_told(self):
        assert not [note for note in overview(sheet()).notes if "state of the code" in note]
        mixed = [one | {"code": "abc" if one["seed"] else "def"} for one in records() if one["kind"] == "run"]
        (told,) = [note for note in overview(sheet(mixed)).notes if "state of the code" in note]
        assert told.startswith(f"{len(mixed)} of {len(mixed)} records say which state of the code made them: 2.")
        early = [{key: value for key, value in one.items() if key != "code"} for one in mixed[:1]] + mixed[1:]
        (told,) = [note for note in overview(sheet(early)).notes if "state of the code" in note]
        assert told.startswith(f"{len(mixed) - 1} of {len(mixed)} records")

    def test_standing(self):
        rows = as_dict(standing([sheet()]))
        assert list(rows) == [BASIS]  # on the other benchmark ERM alone has been run
        found = rows[BASIS]
        assert (found["erm"], found["best other"]) == ("63.0 (3.6); 3.", "vrex 71.0 (1.0); 1.")
        assert (found["mphil"], found["mphil+"], found["rows"]) == ("67.0 (2.6); 2.", "-", "3")
        assert found["mphil in the paper"] == f"{printed('good')['mphil', BASIS].mean:.1f}"
        assert found["command"] == f"mphil lab run table --budget full --benchmarks {BASIS}"

    def test_standing_counts_seeds_and_leaves_suites_of_one_seed_and_of_probes_out(self):
        some = [one for one in records() if one["seed"] < 2 or one["method"] != "mphil"]
        assert as_dict(standing([sheet(some)]))[BASIS]["mphil"] == "65.5 (0.7), 2/3 seeds"
        assert "first or second" not in standing([sheet(some)]).caption
        single = parse_suite("single", TEXT.replace("seeds = [0, 1, 2]", "seeds = [0]"))
        assert not standing([fill(single, Request(), records())]).rows
        assert not standing([replace(sheet(), suite=SUITE.model_copy(update={"probes": ("separability",)}))]).rows

    def test_standing_of_tuned_settings_stands_apart(self):
        tuned = replace(sheet(), suite=SUITE.model_copy(update={"tuned": True}))
        both = standing([sheet(), tuned])
        assert [row[0] for row in both.rows] == [BASIS, f"{BASIS}, tuned"]
        assert both.caption == standing([sheet()]).caption
        assert "settings tuned on validation" in caption(tuned, "score")

    def test_standing_under_another_budget_stands_apart(self):
        longer = replace(sheet(), suite=SUITE.model_copy(update={"budget": "short"}), request=Request(budget="long"))
        both = standing([sheet(), longer])
        assert [row[0] for row in both.rows] == [BASIS, f"{BASIS}, long"]
        assert both.caption == standing([sheet()]).caption

    def test_standing_of_the_variant_is_not_that_of_another_method(self):
        suite = parse_suite("table", TEXT.replace('"moleood"', '"mphil+"'))
        cells = {(c.row, c.benchmark, c.seed): c for c in expand(suite)}
        made = [record(cells[row, BASIS, s], v) for row in SCORES for s, v in enumerate(SCORES[row])]
        made += [record(cells["mphil+", BASIS, seed], 0.9) for seed in range(3)]
        found = as_dict(standing([fill(suite, Request(), made)]))[BASIS]
        assert (found["mphil+"], found["best other"]) == ("90.0 (0.0); 1.", "vrex 71.0 (1.0); 2.")

    def test_standing_counts_places(self):
        assert standing([sheet()]).caption.endswith(
            "; mphil is first or second on 1 of 1 benchmarks and above erm on 1"
        )
        scores = {"erm": 0.5, "vrex": 0.4, "mphil": 0.3}
        worse = [record(CELLS[row, BASIS, seed], score) for row, score in scores.items() for seed in range(3)]
        assert standing([sheet(worse)]).caption.endswith("first or second on 0 of 1 benchmarks and above erm on 0")

    def test_columns_of_the_paper_are_left_out_where_it_has_none(self):
        blocks = {block.caption.partition(",")[0]: block for block in make_chapter(sheet()).blocks}
        assert {"paper", "difference"} <= set(blocks[BASIS].header)
        own = parse_suite("table", TEXT.replace('reference = "good"', ""))
        plain = make_chapter(fill(own, Request(), records())).blocks[1]
        assert plain.header == [name for name in blocks[BASIS].header if name not in ("paper", "difference")]
        assert as_dict(plain)["erm"]["ID test"] == "73.0 (3.6)"

    def test_what_stands_out_still_does_when_columns_before_it_are_left_out(self):
        table = Table("A", ["x", "paper", "y"], [["r", "-", "1"], ["s", "-", "2"]], frozenset({(1, 2)}))
        assert table.without(["paper"], "-") == Table("A", ["x", "y"], [["r", "1"], ["s", "2"]], frozenset({(1, 1)}))
        assert table.without(["y"], "-") == table

    def test_overview(self):
        rows = as_dict(overview(sheet()))
        assert rows["erm"][BASIS] == "63.0 (3.6) [+2.1]"
        assert rows["erm"][SIZE] == "50.0 (0.0) [+3.4], 2/3 seeds"
        assert rows["vrex"][SIZE] == "not run"
        assert rows["moleood"][SIZE] == "n/a (a)"
        assert overview(sheet()).notes == ["a: graphs are no molecules"]
        assert overview(sheet()).strong == {(1, 1)}  # vrex on the basis split; one row alone is best of nothing
        assert as_dict(detail(sheet(), SIZE))["erm"]["rank"] == "-"

    def test_the_mean_rank_waits_for_benchmarks_with_rows_not_run(self):
        assert as_dict(overview(sheet()))["erm"]["mean rank"] == "-"
        found = [*records(), refused(CELLS["moleood", BASIS, 0], "graphs are no molecules")]
        assert as_dict(overview(sheet(found)))["erm"]["mean rank"] == "3.0"
        scores = {"vrex": 0.4, "mphil": 0.3}
        found += [record(CELLS[row, SIZE, seed], score) for row, score in scores.items() for seed in (0, 1)]
        ranks = {row: cells["mean rank"] for row, cells in as_dict(overview(sheet(found))).items()}
        assert ranks == {"erm": f"{mean([3, 1]):.1f}", "vrex": "1.5", "mphil": "2.5", "moleood": "-"}

    def test_a_failure_is_told(self):
        failures = [failure(CELLS["vrex", SIZE, 0], "the loss is not a finite number")]
        table = overview(sheet(failures=failures))
        assert as_dict(table)["vrex"][SIZE] == "failed (a)"
        assert "a: the loss is not a finite number" in table.notes

    def test_the_selection_of_the_suite_counts(self):
        other = record(CELLS["erm", BASIS, 0])
        other["selections"]["id_val"] = {"epoch": 2, "scores": {"ood_test": 0.25}}
        for rule, shown in (("ood_val", "50.0"), ("id_val", "25.0"), ("last", "40.0")):
            suite = SUITE.model_copy(update={"selection": rule})
            found = fill(suite, Request(), [other])
            assert as_dict(detail(found, BASIS))["erm"]["OOD test"] == shown
        assert "epoch chosen on id_val" in caption(
            fill(SUITE.model_copy(update={"selection": "id_val"}), Request(), []), "x"
        )

    def test_a_part_without_score(self):
        assert as_dict(overview(sheet([record(CELLS["erm", BASIS, 0], None)])))["erm"][BASIS] == "no score"

    def test_further_seeds_count_too(self):
        extra = expand(SUITE, Request(seeds=[7], methods=["erm"], benchmarks=[BASIS]))
        rows = as_dict(detail(sheet([*records(), record(extra[0], 0.99)]), BASIS))
        assert rows["erm"]["seeds"] == "4 of 3"
        assert rows["erm"]["OOD test"].startswith(f"{mean([60, 62, 67, 99]):.1f}")

    def test_seconds_of_an_epoch(self):
        assert as_dict(timing(sheet()))["erm"][BASIS] == "2.00"  # 8 s in 4 epochs

    def test_captions_say_rule_budget_and_settings(self):
        small = fill(SUITE, Request(budget="small", sets=["train.lr=0.1"]), [])
        text = caption(small, "x")
        assert text == (
            "x; epoch chosen on ood_val; budget small (3 epochs, 50 % of the training graphs); with train.lr=0.1"
        )
        suite = parse_suite("table", TEXT + "[budgets.small.per.good-motif-size]\nepochs = 2\n")
        own = fill(suite, Request(budget="small"), [])
        assert "good-motif-size: 2 epochs, 50 % of the training graphs" in caption(own, "x")
        assert "budget small (2 epochs, 50 % of the training graphs)" in caption(own, "x", SIZE)

    def test_the_papers_figures(self):
        assert printed("good")["mphil", "good-hiv-scaffold"].mean == 73.94
        assert printed("ablation")["mphil", "good-hiv-scaffold"].mean == 74.69
        assert ("moleood", BASIS) not in printed("good")


class TestBelonging:
    def test_other_settings_are_not_merged(self):
        other = expand(SUITE, Request(sets=["train.lr=0.5"], seeds=[8]))
        found = [*records(), *(record(cell, 0.99) | {"suite": "table"} for cell in other)]
        assert as_dict(detail(sheet(found), BASIS))["erm"]["OOD test"] == "63.0 (3.6)"
        (told,) = unused(SUITE, Request(), found)
        assert told.startswith("table.jsonl: 8 records have settings that the suite does not ask for")
        assert "--set train.lr=0.5" in told
        assert unused(SUITE, Request(sets=["train.lr=0.5"]), [r for r in found if r["seed"] == 8]) == []

    def test_other_budgets_are_not_merged(self):
        small = expand(SUITE, Request(budget="small"))
        found = [*records(), *(record(cell, 0.99) for cell in small)]
        assert as_dict(detail(sheet(found), BASIS))["erm"]["OOD test"] == "63.0 (3.6)"
        assert unused(SUITE, Request(), found) == []

    def test_other_data_are_named_and_left_out(self):
        found = records()
        found[0] = found[0] | {"data_digest": "other"}
        kept, told = same_data(found)
        assert len(kept) == len(found) - 1
        assert "was run on other data of good-motif-basis than most" in told[0]
        found[1] = found[1] | {"split_digest": "other"}
        assert len(same_data(found)[1]) == 2

    def test_versions_of_the_package_do_not_matter(self):
        found = records()
        found[0] = found[0] | {"versions": {"mphil": "9.9"}}
        assert as_dict(detail(sheet(found), BASIS))["erm"]["seeds"] == "3 of 3"


class TestFigures:
    def chapter(self, figure, extra="", probes=None, methods='["erm"]'):
        text = TINY.replace('methods = ["erm"]', f'methods = {methods}\nfigure = "{figure}"') + extra
        suite = parse_suite("figure", text)
        made = [record(cell, 0.1 * (n + 1), probes=probes or {}) for n, cell in enumerate(expand(suite))]
        return make_chapter(fill(suite, Request(), made))

    def test_curve(self):
        vary = '[vary]\nmethod = "mphil"\nkey = "method.prototypes"\nvalues = [2, 3]'
        chapter = self.chapter("curve", vary, methods="[]")
        (curve,) = [block for block in chapter.blocks if isinstance(block, Curves)]
        assert (curve.x_label, curve.x) == ("prototypes", [2, 3])
        # Seed by seed: 10 and 20, then 30 and 40.
        assert curve.series["good-motif-basis"] == pytest.approx([20.0, 30.0])
        assert curve.errors["good-motif-basis"] == pytest.approx([stdev([10, 30]), stdev([20, 40])])
        assert curve.caption == "Mean over 2 seeds, whiskers: sd; epoch chosen on ood_val; budget full (1 epochs)"

    def test_a_curve_of_one_seed_has_no_whiskers(self):
        vary = '[vary]\nmethod = "mphil"\nkey = "method.prototypes"\nvalues = [2, 3]'
        suite = parse_suite("figure", TINY.replace('methods = ["erm"]', 'figure = "curve"') + vary)
        first = [record(cell) for cell in expand(suite) if cell.seed == 0]
        (curve,) = figures(fill(suite, Request(), first))
        assert curve.errors["good-motif-basis"] == [None, None]
        assert curve.caption.startswith("One seed; ")
        more = [record(cell) for cell in expand(suite) if cell.row == "prototypes 2" and cell.seed == 1]
        (curve,) = figures(fill(suite, Request(), [*first, *more]))
        assert curve.errors["good-motif-basis"] == [0.0, None]
        assert curve.caption.startswith("Mean over 1 to 2 seeds, whiskers: sd where there are two or more; ")

    def test_bars_and_times(self):
        (bars,) = [block for block in self.chapter("bars").blocks if isinstance(block, Bars)]
        assert bars.values["erm"] == pytest.approx(15.0)
        assert bars.errors["erm"] == pytest.approx(stdev([10, 20]))
        (times,) = [block for block in self.chapter("time").blocks if isinstance(block, Bars)]
        assert times.values == {"erm": 2.0}
        for chart in (bars, times):
            assert chart.caption == "Mean over 2 seeds, whiskers: sd; epoch chosen on ood_val; budget full (1 epochs)"

    def test_time_against_classes_is_over_that_of_erm(self):
        names = [BASIS, SIZE, "good-hiv-size"]
        text = TINY.replace('["good-motif-basis"]', str(names).replace("'", '"')).replace(
            '["erm"]', '["erm", "mphil", "dir"]'
        )
        text = text.replace(
            "[settings]", "classes = { good-motif-basis = 3, good-motif-size = 3, good-hiv-size = 2 }\n[settings]"
        )
        text = text.replace("benchmark = { graphs = 200 }", "")
        suite = parse_suite("figure", text.replace("seeds = [0, 1]", 'seeds = [0]\nfigure = "time"'))
        seconds = {"erm": [2.0, 4.0, 10.0], "mphil": [4.0, 12.0, 15.0], "dir": [1.0, 1.0]}
        made = [
            record(cell, seconds=seconds[cell.row][names.index(cell.benchmark)])
            for cell in expand(suite)
            if names.index(cell.benchmark) < len(seconds[cell.row])
        ]
        (curve,) = [block for block in figures(fill(suite, Request(), made)) if isinstance(block, Curves)]
        assert (curve.x, curve.log) == ([2, 3], True)
        assert curve.series == {"erm": [1.0, 1.0], "mphil": [1.5, 2.5]}  # dir was not run everywhere
        assert "at 3 the mean of good-motif-basis and good-motif-size" in curve.caption
        assert "; one seed; epoch chosen on ood_val; budget full" in curve.caption
        alone = [one for one in made if one["row"] != "erm"]
        assert not [block for block in figures(fill(suite, Request(), alone)) if isinstance(block, Curves)]
        with pytest.raises(UsageError, match="good-cmnist-color"):
            parse_suite("figure", text.replace("good-hiv-size = 2", "good-cmnist-color = 10"))

    def test_separability_and_prototypes(self):
        probe = {"intra": 0.5, "inter": 2.0, "points": [[0, 0], [1, 3]], "labels": [0, 1]}
        blocks = self.chapter("separability", probes={"separability": probe}).blocks
        assert [block.values for block in blocks if isinstance(block, Bars)] == [{"erm": 0.5}, {"erm": 2.0}]
        (scatter,) = [block for block in blocks if isinstance(block, Scatter)]
        assert scatter.points == [[0, 0], [1, 3]]
        rule = "epoch chosen on ood_val; budget full (1 epochs)"
        assert scatter.caption == f"Graphs of the OOD test part, seed 0; {rule}"
        molecule = {"class": 1, "prototype": 0, "smiles": "CCO", "label": 1.0, "similarity": 0.9, "atoms": [0, 1, 2]}
        blocks = self.chapter("prototypes", probes={"prototypes": {"molecules": [molecule]}}).blocks
        (drawn,) = [block for block in blocks if isinstance(block, Molecules)]
        assert drawn.drawings == [("CCO", [0, 1, 2], "class 1, prototype 0, similarity 0.90, label 1")]
        assert drawn.caption == f"Molecules of the OOD test part, seed 0; {rule}"

    def test_a_scatter_names_its_classes_and_shows_each_in_its_own_way(self):
        scatter = Scatter("s", [[n, 2 * n] for n in range(10)], list(range(10)))
        drawn = ElementTree.fromstring(svg(scatter))
        names = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert names == ["s", *(f"class {n}" for n in range(10))]
        circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
        assert len(circles) == 20
        assert len({(c.get("fill"), c.get("stroke")) for c in circles}) == 10
        assert max(float(c.get("cy")) for c in circles) < float(drawn.get("height"))
        assert latex(Document([Chapter("n", "T", [], [scatter], [])], [])).count(r"\addlegendentry{class") == 10

    def test_the_rule_of_a_probe_is_that_of_the_weights_it_saw(self):
        probe = {"intra": 0.5, "inter": 2.0, "points": [[0, 0], [1, 3]], "labels": [0, 1]}
        suite = parse_suite("f", TINY.replace('methods = ["erm"]', 'methods = ["erm"]\nselection = "id_val"'))
        suite = suite.model_copy(update={"figure": "separability"})
        made = [record(cell, probes={"separability": probe}) for cell in expand(suite)]
        for block in figures(fill(suite, Request(), made)):
            assert "epoch chosen on ood_val" in block.caption

    def test_every_figure_has_its_caption_whatever_it_is_written_in(self):
        told = "One seed; 5 % of_it"
        blocks = [
            Curves("c", "x", "y", [1, 2], {"a": [1.0, 2.0]}, {"a": [0.5, None]}, told),
            Bars("b", "s", {"m": 2.0}, {}, told),
            Scatter("s", [[0.0, 1.0], [2.0, 3.0]], [0, 1], told),
            Molecules("m", [("C#N", [0, 1], "x")], told),
        ]
        document = Document([Chapter("n", "T", [], blocks, [])], [])
        assert html(document).count(told) == len(blocks)
        assert markdown.markdown(document).count("\n\nOne seed; 5 % of\\_it.") == len(blocks)
        assert latex(document).count(r"One seed; 5 \% of\_it") == len(blocks)
        assert latex(document).count(r"\caption{One seed") == len(blocks) - 1  # molecules are no float
        assert "(1,1) +- (0,0.5) (2,2) +- (0,0)" in latex(document)

    def test_health(self):
        probe = {"together": 0.5, "apart": -0.25, "used": 1.0, "score": None}
        (told,) = [block for block in self.chapter("health", probes={"health": probe}).blocks if "cosine" in str(block)]
        assert told.header[1:6] == [
            "cosine inside a class",
            "cosine between classes",
            "slots used",
            "mean S",
            "spread of S",
        ]
        assert told.rows[0][:6] == ["erm on good-motif-basis", "0.50", "-0.25", "1.00", "-", "-"]

    def test_a_suite_can_hide_test_scores(self):
        suite = parse_suite("f", TINY.replace('methods = ["erm"]', 'methods = ["erm"]\nhide_test = true'))
        made = [record(cell, 0.123, id_test=0.123, last=0.123) for cell in expand(suite)]
        chapter = make_chapter(fill(suite, Request(), made))
        assert chapter.commands
        assert "12.3" not in markdown.chapter_text(chapter)

    def test_a_figure_without_records_is_left_out(self):
        blocks = self.chapter("separability", probes={"separability": {"missing": "no embedding"}}).blocks
        assert all(isinstance(block, Table) for block in blocks)


class TestWriting:
    def document(self, tmp_path, found=None):
        (tmp_path / "mine.toml").write_text(TEXT)
        stored(tmp_path, [one | {"suite": "mine"} for one in found or records()], "mine")
        return write_report([str(tmp_path / "mine.toml")], tmp_path, tmp_path / "out")

    def test_three_files_with_the_same_numbers(self, tmp_path):
        written = self.document(tmp_path)
        assert (written.records, written.tables, written.problems) == (11, 4, [])
        for name in ("report.md", "report.tex", "report.html"):
            text = (tmp_path / "out" / name).read_text()
            assert "63.0 (3.6)" in text
            assert "50.0 (0.0)" in text
            assert "graphs are no molecules" in text
            assert "not run" in text

    def test_every_run_has_its_command(self, tmp_path):
        self.document(tmp_path)
        for name in ("report.md", "report.html"):
            text = (tmp_path / "out" / name).read_text()
            assert text.count("mphil train --benchmark") == 11
            assert "Commands of 0 runs" not in text

    def test_the_page_needs_nothing_else(self, tmp_path):
        self.document(tmp_path)
        text = (tmp_path / "out" / "report.html").read_text()
        assert "default-src 'none'" in text
        assert not re.search(r'(src|href)="(?!data:|#)', text)

    def test_broken_lines_are_in_the_report(self, tmp_path):
        stored(tmp_path, [one | {"suite": "mine"} for one in records()], "mine")
        with (tmp_path / "mine.jsonl").open("a") as file:
            file.write('{"kind": "run", "cell"\n')
        written = self.document(tmp_path)
        assert written.problems[0].startswith("mine.jsonl:13: not a record (broken JSON")
        assert "mine.jsonl:13" in (tmp_path / "out" / "report.md").read_text()

    def test_nothing_to_report(self, tmp_path):
        with pytest.raises(DataError, match="no records of any suite; run one with `mphil lab run`"):
            write_report([], tmp_path, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_suites_are_found_by_their_records_and_strangers_named(self, tmp_path):
        suite_cells = expand(parse_suite("x", TINY))
        stored(tmp_path, [record(suite_cells[0]) | {"suite": "mine"}], "mine")
        document = make_document([], tmp_path, Request())
        assert document.chapters == []
        assert "mine.jsonl: 1 records of a suite that does not come with the package" in document.problems[0]

    def test_the_best_cell_stands_out_on_the_page(self):
        best = Table("A", ["x", "y"], [["r", "1"], ["s", "<2>"]], frozenset({(1, 1)}))
        text = html(Document([Chapter("n", "T", [], [best], [])], []))
        assert re.findall("<strong>(.*?)</strong>", text) == ["&lt;2&gt;"]

    def test_long_text_wraps_and_wide_tables_are_set_smaller(self):
        long = "mphil lab run good --benchmarks good-motif-basis"
        narrow = Table("A", ["x", "y"], [["r", "1"]])
        wide = Table("B", ["x", *"abcdefgh"], [["r", *"1234567", "8"]])
        both = Table("C", ["x", *"abcdefgh"], [["r", *"1234567", long]])
        text = html(Document([Chapter("n", "T", [], [narrow, wide, both], [])], []))
        assert re.findall("<table.*?>", text) == ["<table>", '<table class="wide tight">', '<table class="wide">']
        assert text.count('<td class="running">') == 1

    def test_hostile_text_is_text(self, tmp_path):
        found = records()
        found[0] = found[0] | {"command": "</pre><script>alert(1)</script>"}
        self.document(tmp_path, found)
        assert "<script>" not in (tmp_path / "out" / "report.html").read_text()


class TestLatex:
    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("95 % & more", r"95 \% \& more"),
            ("a_b^c~d", r"a\_b\textasciicircum{}c\textasciitilde{}d"),
            ("{x} $5 #1", r"\{x\} \$5 \#1"),
            ("a\\b", r"a\textbackslash{}b"),
            ("p < 0.001 | q > 1", r"p \textless{} 0.001 \textbar{} q \textgreater{} 1"),
            ("two\nlines", "two lines"),
        ],
    )
    def test_escapes(self, text, written):
        assert latex_escape(text) == written

    def test_table(self):
        text = latex_table(Table("A & B", ["x_1", "y"], [["r%", "1"], ["s", "2"]], frozenset({(1, 1)}), ["a: #"]))
        assert r"\caption{A \& B}" in text
        assert "x\\_1 & y \\\\" in text
        assert "r\\% & 1 \\\\\ns & \\textbf{2} \\\\" in text
        assert r"{\footnotesize a: \#}" in text

    def test_everything_that_is_opened_is_closed(self):
        blocks = [
            Table("A", ["x", "y"], [["r", "1"]]),
            Curves("c_1", "x", "y %", [1, 2], {"a_b": [1.0, None]}),
            Bars("b", "s", {"m_1": 2.0, "n": 1.0}, {"n": 0.5}),
            Scatter("s", [[0.0, 1.0], [2.0, 3.0]], [0, 1]),
            Molecules("m", [("C#N", [0, 1], "x")]),
        ]
        text = latex(Document([Chapter("n", "T & T", ["5 %"], blocks, [])], ["left # out"]))
        plain = re.sub(r"\\\\|\\[{}]", "", text)
        assert plain.count("{") == plain.count("}")
        for name in set(re.findall(r"\\begin\{(\w+)\}", text)):
            assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}"), name
        assert r"\addplot coordinates {(1,1)};" in text  # the gap at 2 stays a gap
        assert "(1,1) +- (0.5,0)" in text


class TestMarkdown:
    def test_table(self):
        text = markdown_table(Table("A|B", ["x_1", "y"], [["r*", "1"]], frozenset({(0, 1)}), ["a: <b>"]))
        assert text == "A\\|B.\n\n| x\\_1 | y |\n| --- | --- |\n| r\\* | **1** |\n\na: \\<b\\>"

    def test_figures_are_files(self, tmp_path):
        assert markdown.figure_file("good-desk", 3) == "figures/good-desk-3.svg"
