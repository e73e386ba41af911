"""What applications left behind: the rows of results, then of states, sorted, as JSON."""

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

parser = argparse.ArgumentParser()
parser.add_argument("target", help="file to write")
parser.add_argument("--results", nargs="*", default=[], help="folders of Parquet files")
parser.add_argument("--state", nargs="*", default=[], help="checkpoints")
args = parser.parse_args()

spark = SparkSession.builder.appName("answers").getOrCreate()
tables = [spark.read.parquet(folder) for folder in args.results]
for checkpoint in args.state:
    tables.append(spark.read.format("statestore").load(checkpoint).select("key", "value"))
found = [sorted(r[0] for r in t.select(F.to_json(F.struct("*"))).collect()) for t in tables]
with open(args.target, "w") as file:
    json.dump(found, file)
spark.stop()
