"""The sub-command ``laneshift report``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from laneshift.cli.control import DurationType, Target, controlled
from laneshift.errors import InputError
from laneshift.report import page, picture
from laneshift.report.recording import Recording, read_recording

WRITERS: dict[str, Callable[[Recording, Path], None]] = {
    ".html": page.write,
    ".png": picture.save,
    ".svg": picture.save,
}


@click.command()
@controlled
@click.argument("trace", required=False)
@click.option("--live", is_flag=True, help="Of a running application, by its control service.")
@click.option(
    "--duration",
    type=DurationType(2, 3600),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="With --live: watch for so long.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="FILE.html, FILE.png or FILE.svg, or a folder for a page (default: TRACE.html).",
)
def report(
    target: Target, trace: str | None, live: bool, duration: float, output: str | None
) -> None:
    """Show what happened in a run whose autoscaler recorded TRACE: autoscale(trace=TRACE).

    With --live watch a running application first; its trace is kept in TRACE if that is given.

    Load, lanes, queues and moves over time, and each decision with its reason. A page has all
    decisions, a picture the first of them.
    """
    if live:
        _live(target, trace, duration, output)
    elif trace is None:
        raise InputError("TRACE", "nothing", "a recorded trace, or --live", "Give one of them.")
    else:
        _write(trace, destination(trace, output))


def _live(target: Target, trace: str | None, seconds: float, output: str | None) -> None:
    with TemporaryDirectory() as folder:
        kept = trace or str(Path(folder) / "trace")
        file = destination(trace or "live", output)  # what is wrong is refused before the wait
        picture.ready(file)
        if Path(kept).exists():
            raise InputError("TRACE", kept, "a new file", "A recording overwrites nothing.")
        with target.client() as client:
            from laneshift.cli.record import record

            record(client, Path(kept), seconds)
        _write(kept, file)


def _write(trace: str, file: Path) -> None:
    run = read_recording(trace)
    WRITERS[file.suffix.lower()](run, file)
    click.echo(f"wrote {file}")


def destination(trace: str, output: str | None) -> Path:
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
