"""The sub-command ``laneshift report``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from laneshift.errors import InputError
from laneshift.report import page, picture
from laneshift.report.recording import Recording, read_recording

WRITERS: dict[str, Callable[[Recording, Path], None]] = {
    ".html": page.write,
    ".png": picture.save,
    ".svg": picture.save,
}


@click.command()
@click.argument("trace")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="FILE.html, FILE.png or FILE.svg, or a folder for a page (default: TRACE.html).",
)
def report(trace: str, output: str | None) -> None:
    """Show what happened in a run whose scheduler recorded TRACE: start(policy, trace=TRACE).

    Load, lanes, queues and moves over time, and each decision with its reason. A page has all
    decisions, a picture the first of them.
    """
    file = target(trace, output)
    run = read_recording(trace)
    WRITERS[file.suffix.lower()](run, file)
    click.echo(f"wrote {file}")


def target(trace: str, output: str | None) -> Path:
    """The file to write. Errors: InputError for another kind, or a folder that is not there."""
    source = Path(trace)
    file = source.with_name(source.name + ".html") if output is None else Path(output)
    if file.is_dir():
        file = file / (source.name + ".html")
    if file.suffix.lower() not in WRITERS:
        raise InputError(
            "--output", str(file), f"a name that ends in {', '.join(WRITERS)}, or a folder",
            f"For example -o {file.stem or 'report'}.html.",
        )  # fmt: skip
    if not file.parent.is_dir():
        raise InputError("--output", str(file), "a file in a folder that is there", "Make it.")
    if file.exists() and source.exists() and file.samefile(source):
        raise InputError("--output", str(file), "another file than the trace", "Choose one.")
    return file
