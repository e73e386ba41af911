"""Results on disk: CSV, PNG and the page that puts the paper's text beside what we get."""

from __future__ import annotations

from pathlib import Path

from laneshift.errors import InputError
from laneshift.plotting import pyplot
from laneshift_experiments.base import Chart, Experiment, Options, Report, Table

VERDICTS: dict[bool | None, str] = {
    True: "agrees",
    False: "DISAGREES",
    None: "cannot be judged",
}

#: In place of a reason where nobody has given one.
UNKNOWN = "the reason is not known."

#: Rows of the table that a page shows.
MAX_ROWS = 60


def write_report(
    experiment: Experiment, report: Report, options: Options, folder: Path, *, plot: bool = True
) -> list[Path]:
    """Write ``<folder>/<paper>/<name>.csv``, ``.png`` and ``.md``; returns the paths.

    Errors: ``InputError`` if matplotlib is missing and ``plot`` is set.
    """
    target = folder / experiment.paper
    target.mkdir(parents=True, exist_ok=True)
    paths = [target / f"{experiment.name}.csv"]
    report.table.write_csv(paths[0])
    if plot and report.charts:
        paths.append(target / f"{experiment.name}.png")
        draw(report.table, report.charts, paths[-1])
    paths.append(target / f"{experiment.name}.md")
    paths[-1].write_text(page(experiment, report, options, with_png=plot), encoding="utf-8")
    write_index(folder)
    return paths


def write_index(folder: Path) -> Path:
    """``<folder>/README.md``: every page below it, with how many statements agree."""
    lines = [
        "# The papers' experiments, simulated",
        "",
        "Written by `make experiments`. Each page puts what the paper's text states beside",
        "what our simulation gives; statements that do not reproduce are listed with the others.",
        "",
        "| experiment | agree | disagree | cannot be judged |",
        "|---|---|---|---|",
    ]
    for found in sorted(folder.glob("*/*.md")):
        text = found.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        counts = [text.count(f"| {word} |\n") for word in VERDICTS.values()]
        cells = " | ".join(str(c) for c in counts)
        lines.append(f"| [{title}]({found.relative_to(folder).as_posix()}) | {cells} |")
    path = folder / "README.md"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def page(experiment: Experiment, report: Report, options: Options, *, with_png: bool) -> str:
    """The Markdown page."""
    seconds = "default" if options.duration_s is None else f"{options.duration_s:g} s"
    lines = [
        f"# {experiment.title}",
        "",
        f"Made by `make experiments ARGS={experiment.name}` (simulated; {options.nodes} nodes x "
        f"{options.cores} cores, {options.seeds} seeds, duration {seconds}). The paper's plotted "
        "values are not known to us; the left column is what its text states, in our words.",
        "",
        "| stated by the paper's text | mark | we get | |",
        "|---|---|---|---|",
    ]
    for s in report.statements:
        lines.append(f"| {s.claim} | {s.source} | {s.ours} | {VERDICTS[s.holds]} |")
    failed = [s for s in report.statements if s.holds is False]
    if failed:
        lines += ["", "## Not reproduced, and why", ""]
        lines += [f"- {s.claim}: {s.why or UNKNOWN}" for s in failed]
    if with_png and report.charts:
        lines += ["", f"![{experiment.title}]({experiment.name}.png)"]
    if report.notes:
        lines += ["", "## Assumptions and limits", ""]
        lines += [f"- {note}" for note in report.notes]
    short = Table(report.table.columns, report.table.rows[:MAX_ROWS])
    lines += ["", "## Numbers", "", short.markdown(), ""]
    if len(report.table.rows) > MAX_ROWS:
        lines += [f"The first {MAX_ROWS} of {len(report.table.rows)} rows; all are in the CSV.", ""]
    return "\n".join(lines)


def draw(table: Table, charts: tuple[Chart, ...], path: Path) -> None:
    """One panel per chart, one line per value of ``by``."""
    plt = pyplot(
        InputError("plot", True, "matplotlib", "pip install matplotlib, or use --no-plot.")
    )
    figure, panels = plt.subplots(1, len(charts), figsize=(5.2 * len(charts), 3.8), squeeze=False)
    for panel, chart in zip(panels[0], charts, strict=True):
        x, y = table.columns.index(chart.x), table.columns.index(chart.y)
        by = table.columns.index(chart.by)
        rows = list(table.rows)
        if chart.only is not None:
            column, value = table.columns.index(chart.only[0]), chart.only[1]
            rows = [row for row in rows if row[column] == value]
        names = list(dict.fromkeys(row[by] for row in rows))
        if len(names) > 10:
            panel.set_prop_cycle(color=[plt.get_cmap("tab20")(i) for i in range(20)])
        for name in names:
            points = [(row[x], row[y]) for row in rows if row[by] == name]
            if any(isinstance(p[0], str) for p in points):
                points = [(str(a), b) for a, b in points]
            panel.plot(
                [p[0] for p in points], [p[1] for p in points], marker="o", ms=3, label=str(name)
            )
        panel.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
        if chart.log_x:
            panel.set_xscale("symlog", linthresh=1e-3)
        if chart.log_y:
            panel.set_yscale("log")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7, framealpha=0.5, ncols=1 + len(names) // 6)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
