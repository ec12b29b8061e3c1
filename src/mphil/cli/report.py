"""`mphil report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.errors import UsageError

FORMATS = (".md", ".html")


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil report runs/first/bundle --out report.html")(report)


def report(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")],
    out: Annotated[Path, typer.Option(help="File to write: .md or .html.")] = Path("report.md"),
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write a report for regulators: the OECD principles for (Q)SAR models, with fields like those of a QMRF.

    Fields are filled from the bundle; those that the bundle does not contain are marked for the author.
    """
    from mphil.files import write_text
    from mphil.model.product.reporting import bundle_chapters
    from mphil.pages.regulatory import open_fields, regulatory_markdown, regulatory_page

    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"{out}: a report ends in {' or '.join(FORMATS)}")
    found = bundle_chapters(bundle)
    render = regulatory_page if out.suffix.lower() == ".html" else regulatory_markdown
    write_text(out, render(found))
    left = open_fields(found)
    if json:
        show.as_json({"out": str(out), "to_be_filled_in": left})
        return
    typer.echo(f"report: {out}")
    typer.echo(f"to be filled in by the author: {', '.join(left)}")
