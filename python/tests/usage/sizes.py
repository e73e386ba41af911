"""Rows that are large, wide or many-layered, and other encodings of state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from usage.harness import Side, case, digest, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MB = 1 << 20


def large(side: Side, rows: int, size: int, files: int = 3) -> DataFrame:
    for i in range(files):
        texts = [f"{i}.{j} ".ljust(size, "xyz"[j % 3]) for j in range(rows)]
        side.put(f"large-{rows}-{size}", i, id=list(range(rows)), text=texts)
    return side.files(f"large-{rows}-{size}", "id LONG, text STRING")


@case(gate=True)
def rows_of_10_mb(side: Side) -> Any:
    """Through the shuffle, in the state, out again, and through a function in Python."""
    ends = sf.udf(lambda text: text[:4] + text[-2:] + str(len(text)), "string")
    kept = large(side, 1, 10 * MB, files=2).groupBy("id").agg(sf.max("text").alias("text"))
    answers = kept.select("id", ends("text"), sf.md5("text"))
    return side.collect(answers, "update")


@case()
def many_rows_of_1_mb(side: Side) -> Any:
    lists = large(side, 9, MB).groupBy("id").agg(sf.collect_list("text").alias("texts"))
    sums = lists.selectExpr("id", "size(texts)", "md5(concat_ws('', array_sort(texts)))")
    answers = side.collect(sums, "update")
    distinct = large(side, 9, MB).dropDuplicates(["text"])
    return answers, side.collect(distinct.select("id", sf.length("text")), "append")


@case()
def a_thousand_columns(side: Side) -> Any:
    names = [f"c{n}" for n in range(1000)]
    for i in range(3):
        columns = {name: [(i + 1) * n * j % 101 for j in range(40)] for n, name in enumerate(names)}
        side.put("wide", i, id=list(range(40)), **columns)
    wide = side.files("wide", ", ".join(f"{name} LONG" for name in ("id", *names)))
    key = (sf.col("id") % 7).alias("key")
    sums = wide.groupBy(key).agg(*(sf.sum(name).alias(name) for name in names))
    answers = side.collect(sums, "update")
    distinct = wide.dropDuplicates(["c1", "c999"])
    return digest(answers), digest(side.collect(distinct, "append"))


@case()
def rows_in_layers(side: Side) -> Any:
    layers = sf.struct(
        sf.create_map(sf.col("kind"), sf.array("v", "id")).alias("m"),
        sf.struct("ts", sf.array(sf.struct("k", "kind")).alias("a")).alias("s"),
        sf.when(sf.col("v") > 500, sf.col("v").cast("decimal(38,9)")).alias("d"),
    ).alias("layers")
    kept = side.rows().groupBy("k").agg(sf.max_by(layers, "id").alias("layers"))
    return side.collect(kept.select("k", sf.to_json("layers")), "update")


class Sums(StatefulProcessor):
    """A value, a list, a map and a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n LONG")
        self.last = handle.getListState("last", "id LONG")
        self.kinds = handle.getMapState("kinds", "kind STRING", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        n = self.total.get()[0] if self.total.exists() else 0
        for frame in rows:
            n += len(frame)
            for kind, count in frame["kind"].value_counts().items():
                at = (str(kind),)
                before = self.kinds.getValue(at)[0] if self.kinds.containsKey(at) else 0
                self.kinds.updateValue(at, (before + int(count),))
            self.last.put([(int(i),) for i in sorted(frame["id"])[-3:]])
        self.total.update((n,))
        kinds = sorted((k[0], v[0]) for k, v in self.kinds.iterator())
        text = f"{kinds} {[i for (i,) in self.last.get()]}"
        yield pd.DataFrame({"k": [int(key[0])], "n": [n], "text": [text]})

    def close(self) -> None:
        pass


@case()
def state_in_avro(side: Side) -> Any:
    conf, name = side.spark.conf, "spark.sql.streaming.stateStore.encodingFormat"
    conf.set(name, "avro")
    try:
        checkpoint = side.fresh("checkpoint")
        answers = side.rows().groupBy("k").transformWithStateInPandas(
            Sums(), "k LONG, n LONG, text STRING", "update", "None"
        )  # fmt: skip
        rows = side.collect(answers, "update", None, checkpoint)
        state = side.spark.read.format("statestore").option("stateVarName", "total")
        found = state.load(str(checkpoint)).selectExpr("to_json(struct(key, value))")
        return rows, in_order(found.collect())
    finally:
        conf.unset(name)
