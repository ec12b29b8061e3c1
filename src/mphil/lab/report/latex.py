"""A report in LaTeX: booktabs for tables, pgfplots for figures; it compiles by itself or is cut into a paper."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from mphil.lab.report.document import (
    Bars,
    Block,
    Chapter,
    Curves,
    Document,
    Dots,
    Drawn,
    DrawnMolecules,
    RankDiagram,
    ReportTable,
    Scatter,
)
from mphil.pages.elements import printable

PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx,pgfplots}
\pgfplotsset{compat=1.16}
\begin{document}
"""
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {sign: f"\\{sign}" for sign in "&%$#_"}


MARKS = ("mark=diamond,red", "mark=square,violet", "mark=triangle,teal", "mark=o,orange")
"""Looks of the figures that others report."""


def latex(document: Document) -> str:
    """The whole report."""
    parts = [PREAMBLE, *map(chapter_text, document.chapters)]
    if document.problems:
        items = "\n".join(rf"\item {escape(problem)}" for problem in document.problems)
        parts.append(f"\\section*{{Left out}}\n\\begin{{itemize}}\n{items}\n\\end{{itemize}}\n")
    return "\n".join([*parts, r"\end{document}", ""])


def chapter_text(chapter: Chapter) -> str:
    parts = [rf"\section*{{{escape(chapter.title)}}}", *map(escape, chapter.intro), *map(_block, chapter.blocks)]
    return "\n\n".join(parts) + "\n\\clearpage\n"


def table_text(table: ReportTable) -> str:
    """A table with its caption above and its notes below, made to fit the page."""
    head = " & ".join(map(escape, table.header))
    body = []
    for number, cells in enumerate(table.rows):
        marked = [
            rf"\textbf{{{escape(cell)}}}" if (number, column) in table.strong else escape(cell)
            for column, cell in enumerate(cells)
        ]
        body.append(" & ".join(marked) + r" \\")
    notes = "".join(f"\n\n{{\\footnotesize {escape(note)}}}" for note in table.notes)
    columns = "l" + "r" * (len(table.header) - 1)
    return (
        f"\\begin{{table}}[h!]\n\\centering\n\\caption{{{escape(table.caption)}}}\n"
        f"\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n"
        + "\n".join(body)
        + f"\n\\bottomrule\n\\end{{tabular}}}}{notes}\n\\end{{table}}"
    )


def escape(text: str) -> str:
    r"""Text that LaTeX prints as it stands.

    Example:
        >>> print(escape("w/o L_PS: 95 % & more"))
        w/o L\_PS: 95 \% \& more
    """
    return "".join(SPECIAL.get(sign, sign) for sign in printable(" ".join(text.split())))


def _block(block: Block) -> str:
    if isinstance(block, ReportTable):
        return table_text(block)
    if isinstance(block, DrawnMolecules):
        return escape(f"{block.title}: see the HTML page. {block.caption}")
    return _figure(_drawn(block), block.caption)


def _drawn(block: Drawn) -> str:
    if isinstance(block, Curves):
        return _curves(block)
    if isinstance(block, Dots):
        return _dots(block)
    if isinstance(block, RankDiagram):
        return _ranks(block)
    return _bars(block) if isinstance(block, Bars) else _scatter(block)


def _figure(drawn: str, caption: str) -> str:
    told = f"\n\\caption{{{escape(caption)}}}" if caption else ""
    return f"\\begin{{figure}}[h!]\n\\centering\n{drawn}{told}\n\\end{{figure}}"


def _axis(title: str, options: str, plots: str) -> str:
    return (
        f"\\begin{{tikzpicture}}\n\\begin{{axis}}[title={{{escape(title)}}},{options}]\n{plots}\n"
        "\\end{axis}\n\\end{tikzpicture}"
    )


def _curves(figure: Curves) -> str:
    plots = []
    for name, values in figure.series.items():
        errors = figure.errors.get(name, [None] * len(values))
        points = [(x, y, e) for x, y, e in zip(figure.x, values, errors, strict=True) if y is not None]
        spread = any(e is not None for _, _, e in points)
        pairs = " ".join(f"{_pairs([(x, y)])}" + (f" +- (0,{e or 0.0:.4g})" if spread else "") for x, y, e in points)
        style = "+[error bars/.cd,y dir=both,y explicit]" if spread else ""
        plots.append(f"\\addplot{style} coordinates {{{pairs}}};\n\\addlegendentry{{{escape(name)}}}")
    labels = f"xlabel={{{escape(figure.x_label)}}},ylabel={{{escape(figure.y_label)}}},legend pos=outer north east"
    return _axis(figure.title, labels + (",ymode=log" if figure.log else ""), "\n".join(plots))


def _bars(figure: Bars) -> str:
    points = " ".join(
        f"({value:.4g},{row}) +- ({figure.errors.get(name, 0.0):.4g},0)"
        for row, (name, value) in enumerate(figure.values.items())
    )
    plot = f"\\addplot+[error bars/.cd,x dir=both,x explicit] coordinates {{{points}}};"
    return _axis(figure.title, f"xbar,xmin=0,{_rows(figure.values, figure.unit)}", plot)


def _dots(figure: Dots) -> str:
    """A line of dots a row, with the mean and its interval, which is cut at the frame; marks have a legend."""
    names = list(figure.values)
    dots = [(value, float(row)) for row, name in enumerate(names) for value in figure.values[name]]
    means = " ".join(
        f"({mean(values):.4g},{row}) +- ({_half(figure.intervals.get(name)):.4g},0)"
        for row, (name, values) in enumerate(figure.values.items())
    )
    plots = [
        f"\\addplot[only marks,mark=*,mark size=1.6pt,blue,fill opacity=0.6] coordinates {{{_pairs(dots)}}};",
        "\\addlegendentry{seed}",
        "\\addplot[only marks,mark=|,mark size=4pt,error bars/.cd,x dir=both,x explicit,error mark=none] "
        f"coordinates {{{means}}};",
        "\\addlegendentry{mean, interval}",
    ]
    for place, (who, own) in enumerate(figure.marks.items()):
        marks = [(own[name], float(row)) for row, name in enumerate(names) if name in own]
        look = MARKS[place % len(MARKS)]
        plots.append(f"\\addplot[only marks,{look},mark size=3pt] coordinates {{{_pairs(marks)}}};")
        plots.append(f"\\addlegendentry{{{escape(who)}}}")
        dots += marks
    low, high = min(value for value, _ in dots), max(value for value, _ in dots)
    margin = 0.06 * (high - low) or 1.0
    options = f"xmin={low - margin:.4g},xmax={high + margin:.4g},{_rows(names, figure.unit)}"
    return _axis(figure.title, f"{options},legend pos=outer north east,ymajorgrids", "\n".join(plots))


def _half(ends: tuple[float, float] | None) -> float:
    return (ends[1] - ends[0]) / 2 if ends else 0.0


def _ranks(figure: RankDiagram) -> str:
    """Rows whose lines, half a critical difference to both sides, do not overlap are told apart."""
    half = figure.difference / 2
    points = " ".join(f"({rank:.4g},{row}) +- ({half:.4g},0)" for row, rank in enumerate(figure.ranks.values()))
    plot = f"\\addplot+[only marks,error bars/.cd,x dir=both,x explicit] coordinates {{{points}}};"
    return _axis(figure.title, _rows(figure.ranks, "mean rank, half a critical difference to both sides"), plot)


def _rows(names: Iterable[str], x_label: str) -> str:
    """Options of an axis with a name for every row, the first at the top."""
    ticks = [f"{{{escape(name)}}}" for name in names]
    return (
        f"y dir=reverse,xlabel={{{escape(x_label)}}},ytick={{{','.join(map(str, range(len(ticks))))}}},"
        f"yticklabels={{{','.join(ticks)}}},ymin=-0.7,ymax={len(ticks) - 0.3:.1f},"
        f"height={3 + 0.45 * len(ticks):.1f}cm,width=12cm"
    )


def _scatter(figure: Scatter) -> str:
    plots = []
    for label in sorted(set(figure.labels)):
        points = [(p[0], p[1]) for p, own in zip(figure.points, figure.labels, strict=True) if own == label]
        plots.append(f"\\addplot+[only marks,mark size=0.8pt] coordinates {{{_pairs(points)}}};")
        plots.append(f"\\addlegendentry{{class {label}}}")
    return _axis(figure.title, "hide axis,legend pos=outer north east", "\n".join(plots))


def _pairs(points: list[tuple[float, float]]) -> str:
    return " ".join(f"({x:g},{y:.4g})" for x, y in points)
