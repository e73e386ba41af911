"""Queries over recorded streams, as their users write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

REMEMBERED = 200
"""Films of a user that a new one is compared with."""


def delays(rows: DataFrame) -> DataFrame:
    """Flights and their mean delay, by destination and hour."""
    hour = sf.window("event_time", "1 hour")
    found = (
        rows.withWatermark("event_time", "1 hour")
        .groupBy(hour, "dest")
        .agg(
            sf.count("*").alias("flights"),
            sf.avg("dep_delay").alias("late"),
            sf.max("event_time").alias("event_time"),
        )
    )
    return found.select(
        "dest", sf.col("window.start").alias("hour"), "flights", "late", "event_time"
    )


def behind_late_ones(rows: DataFrame) -> DataFrame:
    """Each flight with those that left for its airport an hour late, in the two hours before."""
    flights = rows.withWatermark("event_time", "1 hour")
    late = (
        rows.where("dep_delay >= 60")
        .select(
            sf.col("dest").alias("to"),
            sf.col("event_time").alias("at"),
            sf.col("carrier").alias("of"),
            sf.col("dep_delay").alias("minutes"),
        )
        .withWatermark("at", "1 hour")
    )
    near = "dest = to AND at BETWEEN event_time - INTERVAL 2 HOURS AND event_time"
    return flights.join(late, sf.expr(near)).select(
        "dest", "carrier", "event_time", "at", "of", "minutes"
    )


def expected_ratings(rows: DataFrame) -> DataFrame:
    """How far each user's ratings are from what films of like genres have led to expect.

    State is a text of lines: Spark 4.3.0 gives a Python worker the state's schema in lower case, of
    which an array cannot be read.
    """

    def function(key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        films, n, off = state.getOption or ("", 0, 0.0)
        seen = [
            (frozenset(genres.split("|")), float(rating))
            for rating, _, genres in (film.partition(" ") for film in films.splitlines())
        ]
        last = None
        for part in parts:
            for row in part.itertuples():
                these = frozenset(row.genres.split("|"))
                weight = total = 0.0
                for others, rating in seen:
                    both = len(these & others)
                    if both:
                        alike = both / len(these | others)
                        weight += alike
                        total += alike * rating
                if weight:
                    n += 1
                    off += abs(row.rating - total / weight)
                seen.append((these, row.rating))
                del seen[:-REMEMBERED]
                last = row.event_time
        films = "\n".join(f"{rating} {'|'.join(sorted(genres))}" for genres, rating in seen)
        state.update((films, n, off))
        yield pd.DataFrame(
            {"user": [key[0]], "n": [n], "off": [off / n if n else 0.0], "event_time": [last]}
        )

    return rows.groupBy("user").applyInPandasWithState(
        function,
        "user LONG, n LONG, off DOUBLE, event_time TIMESTAMP",
        "films STRING, n LONG, off DOUBLE",
        "update",
        "NoTimeout",
    )
