"""Reports: tables and figures drawn from records, in Markdown, LaTeX and HTML."""

from mphil.lab.report.make import Written, write_report

__all__ = ["Written", "write_report"]
