"""What stands around Python functions: writers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from usage.harness import Side, case

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


def counts(side: Side) -> DataFrame:
    return side.rows().groupBy("k").agg(sf.count("*").alias("n"), sf.sum("id").alias("x"))


class Lines:
    """A foreach writer that says all that it is told."""

    def __init__(self, into: Path) -> None:
        self.into = into

    def open(self, partition: int, epoch: int) -> bool:
        self.where = f"{epoch}-{partition}"
        self.lines = [f"open {self.where}"]
        return True

    def process(self, row: Any) -> None:
        self.lines.append(json.dumps(list(row)))

    def close(self, error: Exception | None) -> None:
        self.lines.append(f"close {error}")
        text = "\n".join([self.lines[0], *sorted(self.lines[1:])])
        (self.into / self.where).write_text(text)


def texts(folder: Path) -> list[Any]:
    return sorted(file.read_text().splitlines() for file in folder.iterdir())


@case(gate=True)
def foreach_writer(side: Side) -> Any:
    into = side.fresh("lines")
    side.end(counts(side).writeStream.outputMode("update").foreach(Lines(into)))
    return texts(into)
