"""Reports: the numbers are those of the records, and whatever does not belong is named, never merged."""

import re
from dataclasses import replace
from statistics import mean, stdev
from xml.etree import ElementTree

import pytest

from mphil.errors import DataError, UsageError
from mphil.lab.cells import Request, expand
from mphil.lab.records import RecordFile
from mphil.lab.report import rendering, write_report
from mphil.lab.report.document import (
    Bars,
    Chapter,
    Curves,
    Document,
    Dots,
    DrawnMolecules,
    RankDiagram,
    ReportTable,
    Scatter,
)
from mphil.lab.report.figures import figures
from mphil.lab.report.latex import escape as latex_escape
from mphil.lab.report.latex import latex
from mphil.lab.report.latex import table_text as latex_table
from mphil.lab.report.make import card, cards, make_chapter, make_document
from mphil.lab.report.rendering import html, svg
from mphil.lab.report.rendering import table_text as markdown_table
from mphil.lab.report.sheets import fill, known_names, same_data, unused
from mphil.lab.report.tables import caption, detail, overview, pooled_ranks, standing, timing
from mphil.lab.statistics import holm, paired_p, t_interval
from mphil.lab.suite import Printed, parse_suite, printed, reported
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
        assert rows["erm"]["best OOD val"] == f"{mean(scores):.1f} ({stdev(scores):.1f})" == "63.0 (3.6)"
        assert rows["erm"]["ID test"] == "73.0 (3.6)"
        assert (rows["erm"]["paper"], rows["erm"]["GOOD leaderboard"]) == ("60.93 (2.11)", "63.80 (10.36)")
        assert [rows[name]["rank"] for name in ("erm", "vrex", "mphil")] == ["3", "1", "2"]
        assert rows["erm"]["seeds"] == "3 of 3"
        low, high = t_interval(scores)
        assert rows["erm"]["95 % interval"] == f"{low:.1f} to {high:.1f}" == "54.0 to 72.0"
        assert (rows["mphil"]["minus mphil"], rows["mphil"]["p (Holm)"]) == ("-", "-")
        assert (rows["erm"]["minus mphil"], rows["vrex"]["minus mphil"]) == ("-4.0", "+4.0")

    def test_tests_are_corrected_for_the_rows_of_the_table(self):
        base = dict(enumerate(SCORES["mphil"]))
        raw = {row: paired_p(dict(enumerate(SCORES[row])), base) for row in ("erm", "vrex")}
        rows, corrected = as_dict(detail(sheet(), BASIS)), holm(raw)
        assert corrected["erm"] == 2 * raw["erm"]
        for row in raw:
            assert float(rows[row]["p (Holm)"]) == pytest.approx(corrected[row], abs=5e-4)
        other = as_dict(detail(replace(sheet(), against="erm"), BASIS))
        assert (other["mphil"]["minus erm"], other["erm"]["p (Holm)"]) == ("+4.0", "-")

    def test_all_rules_stand_side_by_side(self):
        made = record(CELLS["erm", BASIS, 0], last5={"ood_test": 0.3})
        made["selections"]["id_val"] = {"epoch": 2, "scores": {"ood_test": 0.25}}
        found = as_dict(detail(sheet([made]), BASIS))["erm"]
        assert [found[name] for name in ("best OOD val", "best ID val", "last 5 epochs")] == ["50.0", "25.0", "30.0"]
        assert "best ID val" not in detail(sheet(), BASIS).header  # no record has an epoch chosen by it

    def test_how_far_seeds_move_a_rank(self):
        (told,) = detail(sheet(), BASIS).notes
        assert "ranking of 3 rows" in told
        assert "correlation of 1.00" in told
        assert "moves by 0.0 on average, by 0 at most" in told

    def test_a_smoke_budget_has_scores_without_ranks_stars_or_tests(self):
        suite = SUITE.model_copy(update={"budgets": {"smoke": SUITE.budgets["small"]}})
        cells = {(c.row, c.benchmark, c.seed): c for c in expand(suite, Request(budget="smoke"))}
        made = [
            record(cells[row, name, seed], score)
            for row, scores in SCORES.items()
            for seed, score in enumerate(scores)
            for name in (BASIS, SIZE)
        ]
        smoke = fill(suite, Request(budget="smoke"), made)
        assert as_dict(detail(smoke, BASIS))["erm"]["best OOD val"] == "63.0 (3.6)"
        for table in (detail(smoke, BASIS), overview(smoke)):
            assert not table.strong
            assert not {"rank", "mean rank", "p (Holm)", "minus mphil"} & set(table.header)
            assert not [note for note in table.notes if "Seeds alone" in note or "Friedman" in note]
            assert "too little for ranks and tests" in table.caption
        assert not [block for block in make_chapter(smoke).blocks if isinstance(block, RankDiagram)]
        (line,) = [row for row in standing([smoke], ["mphil"]).rows if row[0].startswith(BASIS)]
        assert line[1] == "67.0 (2.6)"
        ranked = fill(suite.model_copy(update={"budgets": {"real": SUITE.budgets["small"]}}), Request("real"), made)
        assert "mean rank" in overview(ranked).header

    def test_fewer_seeds_than_wanted_have_no_rank(self):
        """One lucky seed would stand before three honest ones."""
        some = [one for one in records() if one["seed"] < 1 or one["method"] != "vrex"]
        rows, table = as_dict(detail(sheet(some), BASIS)), detail(sheet(some), BASIS)
        assert [rows[name]["rank"] for name in ("erm", "vrex", "mphil")] == ["2", "-", "1"]
        assert table.strong == {(SUITE_ROWS.index("mphil"), 2)}
        assert "mean rank" not in overview(sheet(some)).header

    def test_states_of_the_code_are_told(self):
        assert not [note for note in overview(sheet()).notes if "state of the code" in note]
        mixed = [one | {"code": "abc" if one["seed"] else "def"} for one in records() if one["kind"] == "run"]
        (told,) = [note for note in overview(sheet(mixed)).notes if "state of the code" in note]
        assert told.startswith(f"{len(mixed)} of {len(mixed)} records say which state of the code made them: 2.")
        early = [{key: value for key, value in one.items() if key != "code"} for one in mixed[:1]] + mixed[1:]
        (told,) = [note for note in overview(sheet(early)).notes if "state of the code" in note]
        assert told.startswith(f"{len(mixed) - 1} of {len(mixed)} records")

    def test_standing(self):
        rows = as_dict(standing([sheet()], ["mphil"]))
        assert list(rows) == [BASIS]  # on the other benchmark ERM alone has been run
        found = rows[BASIS]
        assert (found["mphil"], found["erm"]) == ("67.0 (2.6) #2", "63.0 (3.6) #3")
        assert (found["best other"], found["ranked rows"]) == ("vrex 71.0 (1.0) #1", "3")
        assert found["mphil in the paper"].startswith(f"{printed('good')['mphil', BASIS].mean:.2f}")
        low, high = t_interval([5.0, 4.0, 3.0])
        assert found["mphil minus erm"] == f"+4.0 ({low:.1f} to {high:.1f})"

    def test_standing_of_a_method_that_the_paper_has_not(self):
        figures = {
            place: replace(entry, paper=None) if place[0] == "vrex" else entry
            for place, entry in sheet().entries.items()
        }
        found = as_dict(standing([replace(sheet(), entries=figures)], ["vrex", "mphil"]))[BASIS]
        assert found["mphil in the paper"].startswith(f"{printed('good')['mphil', BASIS].mean:.2f}")
        assert "vrex in the paper" not in found

    def test_standing_needs_another_method(self):
        alone = [one for one in records() if one["method"] == "vrex"]
        assert not standing([sheet(alone)], ["vrex", "mphil"]).rows
        found = as_dict(standing([sheet()], ["vrex", "mphil"]))[BASIS]
        assert (found["best other"], found["vrex minus best other"]) == ("-", "-"), "ERM alone is told of"
        found = as_dict(standing([sheet()], ["erm"]))[BASIS]
        assert (found["erm"], found["best other"]) == ("63.0 (3.6) #3", "vrex 71.0 (1.0) #1")
        assert "erm minus erm" not in found

    def test_standing_counts_seeds_and_leaves_suites_of_probes_out(self):
        some = [one for one in records() if one["seed"] < 2 or one["method"] != "mphil"]
        assert as_dict(standing([sheet(some)], ["mphil"]))[BASIS]["mphil"] == "65.5 (0.7), 2/3 seeds"
        probed = replace(sheet(), suite=SUITE.model_copy(update={"probes": ("separability",)}))
        timed = replace(sheet(), suite=SUITE.model_copy(update={"figure": "time"}))
        assert not standing([probed, timed], ["mphil"]).rows

    def test_standing_of_tuned_settings_and_other_budgets_stands_apart(self):
        tuned = replace(sheet(), suite=SUITE.model_copy(update={"tuned": True}))
        longer = replace(sheet(), suite=SUITE.model_copy(update={"budget": "short"}), request=Request(budget="long"))
        every = standing([sheet(), tuned, longer], ["mphil"])
        assert [row[0] for row in every.rows] == [BASIS, f"{BASIS}, tuned", f"{BASIS}, long"]
        assert "settings tuned on validation" in caption(tuned, "score")

    def test_ranks_over_suites_count_a_benchmark_once_and_only_under_one_budget(self):
        text = TEXT.replace(f'"{BASIS}", "{SIZE}"', f'"{BASIS}", "good-cmnist-color"')
        other = parse_suite("other", text.replace("graphs = 200", ""))
        cells = [cell for cell in expand(other) if cell.row in SCORES]
        second = fill(other, Request(), [record(c, {"erm": 0.9, "vrex": 0.1, "mphil": 0.5}[c.row]) for c in cells])
        assert second.entries["erm", BASIS].complete
        (found,) = pooled_ranks([sheet(), second]).values()
        assert found.benchmarks == (BASIS, "good-cmnist-color")
        assert found.ranks == {"erm": 2.0, "vrex": 2.0, "mphil": 2.0}  # on the basis split the first suite counts
        assert pooled_ranks([sheet()]) == {}
        assert pooled_ranks([sheet(), replace(second, request=Request(budget="smoke"))]) == {}
        assert pooled_ranks([sheet(), replace(second, request=Request(budget="small"))]) == {}

    def test_the_column_of_the_paper_is_left_out_where_it_has_none(self):
        assert "paper" in detail(sheet(), BASIS).header
        own = parse_suite("table", TEXT.replace('reference = "good"', ""))
        plain = detail(fill(own, Request(), records()), BASIS)
        assert "paper" not in plain.header
        assert as_dict(plain)["erm"]["ID test"] == "73.0 (3.6)"

    def test_what_stands_out_still_does_when_columns_before_it_are_left_out(self):
        table = ReportTable("A", ["x", "paper", "y"], [["r", "-", "1"], ["s", "-", "2"]], frozenset({(1, 2)}))
        assert table.without(["paper"], "-") == ReportTable(
            "A", ["x", "y"], [["r", "1"], ["s", "2"]], frozenset({(1, 1)})
        )
        assert table.without(["y"], "-") == table

    def test_overview(self):
        rows = as_dict(overview(sheet()))
        assert rows["erm"][BASIS] == "63.0 (3.6) [+2.1]"
        assert rows["erm"][SIZE] == "50.0 (0.0) [+3.4], 2/3 seeds"
        assert rows["vrex"][SIZE] == "not run"
        assert rows["moleood"][SIZE] == "n/a (a)"
        assert overview(sheet()).notes == ["a: graphs are no molecules"]
        assert overview(sheet()).strong == {(1, 1)}  # vrex on the basis split; one row alone is best of nothing
        assert "rank" not in detail(sheet(), SIZE).header

    def test_the_mean_rank_names_its_benchmarks_and_needs_rows_complete_on_them(self):
        assert "mean rank" not in overview(sheet()).header
        scores = {"erm": 0.5, "vrex": 0.4, "mphil": 0.3}
        found = [record(CELLS[row, SIZE, seed], score) for row, score in scores.items() for seed in range(3)]
        table = overview(sheet([*records()[:9], *found]))
        ranks = {row: cells["mean rank"] for row, cells in as_dict(table).items()}
        assert ranks == {"erm": "2.0", "vrex": "1.5", "mphil": "2.5", "moleood": "-"}
        (told,) = [note for note in table.notes if "Nemenyi" in note]
        assert told.startswith(
            f"Mean rank over {BASIS} and {SIZE}, of the 3 rows with all seeds on all of them; Friedman"
        )
        (drawn,) = [b for b in make_chapter(sheet([*records()[:9], *found])).blocks if isinstance(b, RankDiagram)]
        assert list(drawn.ranks) == ["vrex", "erm", "mphil"]
        assert f"Over {BASIS} and {SIZE}" in drawn.caption

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
            assert detail(found, BASIS).rows[0][2] == shown
        assert "epoch chosen on id_val" in caption(
            fill(SUITE.model_copy(update={"selection": "id_val"}), Request(), []), "x"
        )

    def test_a_part_without_score(self):
        assert as_dict(overview(sheet([record(CELLS["erm", BASIS, 0], None)])))["erm"][BASIS] == "no score"

    def test_further_seeds_count_too(self):
        extra = expand(SUITE, Request(seeds=[7], methods=["erm"], benchmarks=[BASIS]))
        rows = as_dict(detail(sheet([*records(), record(extra[0], 0.99)]), BASIS))
        assert rows["erm"]["seeds"] == "4 of 3"
        assert rows["erm"]["best OOD val"].startswith(f"{mean([60, 62, 67, 99]):.1f}")

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
        assert reported()["erm", "good-cmnist-color"] == {"GOOD leaderboard": Printed(27.82)}


class TestBelonging:
    def test_other_settings_are_not_merged(self):
        other = expand(SUITE, Request(sets=["train.lr=0.5"], seeds=[8]))
        found = [*records(), *(record(cell, 0.99) | {"suite": "table"} for cell in other)]
        assert as_dict(detail(sheet(found), BASIS))["erm"]["best OOD val"] == "63.0 (3.6)"
        (told,) = unused(SUITE, Request(), found)
        assert told.startswith("table.jsonl: 8 records have settings that the suite does not ask for")
        assert "--set train.lr=0.5" in told
        assert unused(SUITE, Request(sets=["train.lr=0.5"]), [r for r in found if r["seed"] == 8]) == []

    def test_other_budgets_are_not_merged(self):
        small = expand(SUITE, Request(budget="small"))
        found = [*records(), *(record(cell, 0.99) for cell in small)]
        assert as_dict(detail(sheet(found), BASIS))["erm"]["best OOD val"] == "63.0 (3.6)"
        assert unused(SUITE, Request(), found) == []

    def test_a_cell_that_costs_the_same_under_two_budgets_is_shown_once(self, tmp_path):
        suite = tmp_path / "table.toml"
        suite.write_text(TEXT + f'[budgets.real]\n[budgets.real.per."{SIZE}"]\nepochs = 2\n')
        stored(tmp_path, [record(CELLS["erm", BASIS, 0])])
        found = make_document([str(suite)], tmp_path, Request()).chapters
        assert [one.name for one in found if one.name.startswith("table")] == ["table-full"]
        stored(tmp_path, [record(expand(parse_suite("table", suite.read_text()), Request("real"))[-1])])
        found = make_document([str(suite)], tmp_path, Request()).chapters
        assert [one.name for one in found if one.name.startswith("table")] == ["table-full", "table-real"]

    def test_other_data_are_named_and_left_out(self):
        found = records()
        found[0] = found[0] | {"data_digest": "other"}
        kept, told = same_data(found)
        assert len(kept) == len(found) - 1
        assert "was run on other data of good-motif-basis than most" in told[0]
        found[1] = found[1] | {"split_digest": "other"}
        assert len(same_data(found)[1]) == 2

    def test_unknown_methods_and_benchmarks_are_named_and_left_out(self):
        found = records()
        strange = [found[0] | {"method": "mine"}, found[1] | {"method": "mine"}, found[2] | {"benchmark": "my-data"}]
        kept, told = known_names([*strange, *found[3:]])
        assert kept == found[3:]
        assert told == [
            "benchmark 'my-data' is not known here: 1 of its records are left out; "
            "give the file that defines it with --plugin",
            "method 'mine' is not known here: 2 of its records are left out; "
            "give the file that defines it with --plugin",
        ]

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

    def test_dots_show_every_seed_and_what_others_report(self):
        first, *_ = [block for block in make_chapter(sheet()).blocks if isinstance(block, Dots)]
        assert {row: pytest.approx([100 * one for one in own]) for row, own in SCORES.items()} == first.values
        assert list(first.values) == ["vrex", "mphil", "erm"]  # the best mean first
        assert first.intervals["erm"] == pytest.approx(t_interval([60, 62, 67]))
        assert first.marks["paper"]["erm"] == 60.93
        assert first.marks["GOOD leaderboard"] == {"erm": 63.8}
        assert first.caption.startswith("A dot is a seed (3 seeds), the bar their mean, the line its 95 % t interval; ")

    def test_dots_as_svg(self):
        figure = Dots("d <1>", "u", {"a": [1.0, 2.0], "b" * 40: [1.5]}, {"a": (-9.0, 12.0)}, {"paper": {"a": 3.0}})
        drawn = ElementTree.fromstring(svg(figure))
        circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
        first, second, third = (float(circle.get("cx")) for circle in circles)
        assert first < third < second
        assert third == pytest.approx((first + second) / 2, abs=0.2)
        width = float(drawn.get("width"))
        for path in drawn.iter("{http://www.w3.org/2000/svg}path"):  # the interval is cut at the frame
            assert all(0 <= float(x) <= width for x in re.findall(r"[MH](-?[\d.]+)", path.get("d")))
        assert "a, paper: 3.00" in svg(figure)
        same = Dots("d", "u", {"a": [2.0, 2.0]})
        assert "nan" not in svg(same)

    def test_rank_diagram_as_svg(self):
        figure = RankDiagram("r", {"a": 1.5, "b": 2.0, "c": 2.5}, 9.0, [("a", "b", "c")], "told")
        drawn = ElementTree.fromstring(svg(figure))
        texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert {
            "a 1.5",
            "b 2.0",
            "c 2.5",
            "critical difference 9.0, cut; a bar joins rows that are not told apart",
        } <= set(texts)

    def test_times(self):
        (times,) = [block for block in self.chapter("time").blocks if isinstance(block, Bars)]
        assert times.values == {"erm": 2.0}
        assert times.caption == "Mean over 2 seeds, whiskers: sd; epoch chosen on ood_val; budget full (1 epochs)"

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
        (drawn,) = [block for block in blocks if isinstance(block, DrawnMolecules)]
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
            Dots("d", "s", {"m": [2.0, 3.0]}, {}, {"paper": {"m": 1.0}}, told),
            RankDiagram("r", {"m": 1.0, "n": 2.0}, 1.5, [("m", "n")], told),
            Scatter("s", [[0.0, 1.0], [2.0, 3.0]], [0, 1], told),
            DrawnMolecules("m", [("C#N", [0, 1], "x")], told),
        ]
        document = Document([Chapter("n", "T", [], blocks, [])], [])
        assert html(document)["index.html"].count(told) == len(blocks)
        assert rendering.markdown(document).count("\n\nOne seed; 5 % of\\_it.") == len(blocks)
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
        assert "12.3" not in rendering.chapter_text(chapter)

    def test_a_figure_without_records_is_left_out(self):
        blocks = self.chapter("separability", probes={"separability": {"missing": "no embedding"}}).blocks
        assert not [block for block in blocks if isinstance(block, Bars | Scatter)]


class TestWriting:
    def document(self, tmp_path, found=None):
        (tmp_path / "mine.toml").write_text(TEXT)
        stored(tmp_path, [one | {"suite": "mine"} for one in found or records()], "mine")
        return write_report([str(tmp_path / "mine.toml")], tmp_path, tmp_path / "out")

    def test_three_kinds_of_files_with_the_same_numbers(self, tmp_path):
        written = self.document(tmp_path)
        assert (written.records, written.problems) == (11, [])
        pages = {path.name for path in (tmp_path / "out").glob("*.html")}
        assert pages == {"index.html", "mine.html", "method-erm.html", "method-mphil.html", "method-vrex.html"}
        assert written.pages == len(pages)
        for name in ("report.md", "report.tex", "mine.html"):
            text = (tmp_path / "out" / name).read_text()
            assert "63.0 (3.6)" in text
            assert "50.0 (0.0)" in text
            assert "graphs are no molecules" in text
            assert "not run" in text

    def test_against_another_method(self, tmp_path):
        self.document(tmp_path)
        suite, out = str(tmp_path / "mine.toml"), tmp_path / "other"
        assert "Where mphil stands" in (tmp_path / "out" / "index.html").read_text()
        write_report([suite], tmp_path, out, against=["vrex"])
        assert "Where vrex stands" in (out / "index.html").read_text()
        assert "minus vrex" in (out / "mine.html").read_text()
        with pytest.raises(UsageError, match="row of the suites with records: 'vrexx'.*vrex"):
            write_report([suite], tmp_path, out, against=["vrexx"])

    def test_links_lead_to_files(self, tmp_path):
        self.document(tmp_path)
        for page in (tmp_path / "out").glob("*.html"):
            for link in re.findall('<a href="([^"#]+)', page.read_text()):
                assert (tmp_path / "out" / link).exists()

    def test_every_run_has_its_command(self, tmp_path):
        self.document(tmp_path)
        for name in ("report.md", "mine.html"):
            text = (tmp_path / "out" / name).read_text()
            assert text.count("mphil train --benchmark") == 11
            assert "Commands of 0 runs" not in text

    def test_the_page_needs_nothing_else(self, tmp_path):
        self.document(tmp_path)
        for page in (tmp_path / "out").glob("*.html"):
            text = page.read_text()
            assert "default-src 'none'" in text
            assert not re.search(r'src="(?!data:|#)|href="(?!data:|#|[\w-]+\.html)', text)

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
        best = ReportTable("A", ["x", "y"], [["r", "1"], ["s", "<2>"]], frozenset({(1, 1)}))
        text = html(Document([Chapter("n", "T", [], [best], [])]))["index.html"]
        assert re.findall("<strong>(.*?)</strong>", text) == ["&lt;2&gt;"]

    def test_long_text_wraps_and_wide_tables_are_set_smaller(self):
        long = "mphil lab run good --benchmarks good-motif-basis"
        narrow = ReportTable("A", ["x", "y"], [["r", "1"]])
        wide = ReportTable("B", ["x", *"abcdefgh"], [["r", *"1234567", "8"]])
        both = ReportTable("C", ["x", *"abcdefgh"], [["r", *"1234567", long]])
        text = html(Document([Chapter("n", "T", [], [narrow, wide, both], [])]))["index.html"]
        kinds = re.findall('<table class="sortable ?(.*?)">', text)
        assert kinds == ["", "wide tight", "wide"]
        assert text.count('<td class="running">') == 1

    def test_hostile_text_is_text(self, tmp_path):
        found = records()
        found[0] = found[0] | {"command": "</pre><script>alert(1)</script>"}
        self.document(tmp_path, found)
        assert "<script>alert" not in (tmp_path / "out" / "mine.html").read_text()

    def test_details_are_folded(self):
        table = ReportTable("A; more", ["x", "y"], [["r", "1"]], folded=True)
        text = html(Document([Chapter("n", "T", [], [table])]))["index.html"]
        assert "<details><summary>A</summary>" in text


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
        text = latex_table(ReportTable("A & B", ["x_1", "y"], [["r%", "1"], ["s", "2"]], frozenset({(1, 1)}), ["a: #"]))
        assert r"\caption{A \& B}" in text
        assert "x\\_1 & y \\\\" in text
        assert "r\\% & 1 \\\\\ns & \\textbf{2} \\\\" in text
        assert r"{\footnotesize a: \#}" in text

    def test_everything_that_is_opened_is_closed(self):
        blocks = [
            ReportTable("A", ["x", "y"], [["r", "1"]]),
            Curves("c_1", "x", "y %", [1, 2], {"a_b": [1.0, None]}),
            Bars("b", "s", {"m_1": 2.0, "n": 1.0}, {"n": 0.5}),
            Dots("d_1", "s %", {"m_1": [2.0, 3.0]}, {"m_1": (2.0, 3.0)}, {"p_1": {"m_1": 1.0}}),
            RankDiagram("r", {"m_1": 1.0, "n": 2.0}, 1.5, []),
            Scatter("s", [[0.0, 1.0], [2.0, 3.0]], [0, 1]),
            DrawnMolecules("m", [("C#N", [0, 1], "x")]),
        ]
        text = latex(Document([Chapter("n", "T & T", ["5 %"], blocks, [])], ["left # out"]))
        plain = re.sub(r"\\\\|\\[{}]", "", text)
        assert plain.count("{") == plain.count("}")
        for name in set(re.findall(r"\\begin\{(\w+)\}", text)):
            assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}"), name
        assert r"\addplot coordinates {(1,1)};" in text  # the gap at 2 stays a gap
        assert "{(2.5,0) +- (0.5,0)};" in text  # a mean with its interval
        assert "(1,1) +- (0.5,0)" in text


class TestMarkdown:
    def test_table(self):
        text = markdown_table(ReportTable("A|B", ["x_1", "y"], [["r*", "1"]], frozenset({(0, 1)}), ["a: <b>"]))
        assert text == "A\\|B.\n\n| x\\_1 | y |\n| --- | --- |\n| r\\* | **1** |\n\na: \\<b\\>"

    def test_figures_are_files(self, tmp_path):
        assert rendering.figure_file("good-desk", 3) == "figures/good-desk-3.svg"


class TestCards:
    def sheets(self):
        tuned = SUITE.model_copy(update={"tuned": True, "name": "tuned"})
        made = [one | {"parameters": 1234, "cpu_seconds": 7.6, "last5": {"ood_test": 0.5}} for one in records()[:9]]
        return [sheet([*made, *records()[9:]]), fill(SUITE, Request(), made[:3]), replace(sheet(made), suite=tuned)]

    def test_a_card_says_what_is_reported_and_what_was_found(self):
        found = as_dict(card("erm", self.sheets()[:1]).blocks[0])[BASIS]
        assert (found["paper"], found["reported by others"]) == ("60.93 (2.11)", "63.80 (10.36), GOOD leaderboard")
        assert (found["best OOD val"], found["95 % interval, best OOD val"]) == ("63.0 (3.6)", "54.0 to 72.0")
        assert (found["last 5 epochs"], found["parameters"], found["CPU s a run"]) == ("50.0 (0.0)", "1,234", "8")
        assert (found["seeds"], found["suite"], found["budget"]) == ("3 of 3", "table", "full (1 epochs)")
        assert "tuned on validation" not in found

    def test_tuned_records_stand_beside_the_others(self):
        first, _, tuned = self.sheets()
        (line, _) = card("erm", [first, tuned]).blocks[0].rows
        assert "63.0 (3.6), budget full" in line

    def test_a_card_cites_the_paper_and_tells_what_differs(self):
        intro = " ".join(card("imold", []).intro)
        assert "Paper: Zhuang et al., 2023" in intro
        assert "Differs from the authors' code: weights at rest" in intro
        assert ":math:" not in " ".join(card("ciga-v1", []).intro)
        assert "No difference" in " ".join(card("erm", []).intro)

    def test_only_methods_with_records_have_one(self):
        assert [chapter.title for chapter in cards(self.sheets())] == ["erm", "mphil", "vrex"]
        hidden = replace(sheet(), suite=SUITE.model_copy(update={"hide_test": True}))
        assert cards([hidden]) == []
