"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

from html import escape
from pathlib import Path

from laneshift.report.picture import MARKED, svg
from laneshift.report.recording import Recording
from laneshift.report.words import headline, summary, table

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1f2933; margin: 2em auto; max-width: 1100px;
  padding: 0 1em; }
h1 { font-size: 1.4em; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25em .7em;
  vertical-align: top; border-bottom: 1px solid #e4e7eb; } td.n { text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; color: #52606d; }
"""


def page(run: Recording) -> str:
    """The whole page: the picture and every decision. Errors: InputError, no matplotlib."""
    title = escape(headline(run))
    rows = "\n".join(
        f'<tr><td class="n">{row.number or ""}</td><td class="n">{row.time}</td>'
        f'<td class="n">{row.after}</td><td>{escape(row.what)}</td><td>{escape(row.why)}</td></tr>'
        for row in table(run)
    )
    decisions = (
        "<table><tr><th>#</th><th>time</th><th>s</th><th>what was decided</th><th>why</th></tr>\n"
        f"{rows}\n</table>"
        if rows
        else "<p>The trace has no decisions.</p>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{svg(run)}\n<h2>Decisions</h2>\n"
        f"<p>{escape(' '.join(summary(run)))} # counts the decisions that changed lanes; the"
        f" picture marks them if they are not more than {MARKED}.</p>\n"
        f"{decisions}\n</body></html>\n"
    )


def write(run: Recording, file: Path) -> None:
    """Write the page. Errors: InputError if matplotlib is missing, OSError."""
    file.write_text(page(run), encoding="utf-8")
