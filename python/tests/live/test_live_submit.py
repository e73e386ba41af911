"""An application that knows nothing of laneshift, by spark-submit with options alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from laneshift.plugin.jar import jar_path
from live.conftest import environment, require_jar

pytestmark = [pytest.mark.live, pytest.mark.versions]

# As many do, it ends without a word to Spark.
APP = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 2000).load()
counts = rows.groupBy((rows.value % 50).alias("key")).count()
query = counts.writeStream.outputMode("update").format("noop").start()
while not (query.lastProgress and query.lastProgress["batchId"] >= 2):
    query.awaitTermination(0.5)
query.explain()
print("only for benchmarks:", [f for f in ("laneshift_cost",) if spark.catalog.functionExists(f)])
"""


def test_an_unmodified_application_is_elastic_and_ends(tmp_path: Path) -> None:
    import pyspark

    require_jar()
    home = Path(pyspark.__file__).parent
    app = tmp_path / "app.py"
    app.write_text(APP)
    options = {
        "spark.plugins": "org.apache.spark.sql.laneshift.LaneshiftPlugin",
        "spark.sql.laneshift.autoscaler": "elasticutor",
        "spark.log.level": "INFO",
        "spark.ui.port": "0",
    }
    done = subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", "local[4]", "--jars", str(jar_path())),
            *(word for key, value in options.items() for word in ("--conf", f"{key}={value}")),
            str(app),
        ],
        env=environment(jar_path().parents[2]) | {"SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    assert "elasticutor decides every 1 s" in said
    assert "Elastic" in done.stdout, done.stdout[-6000:]
    assert "only for benchmarks: []" in done.stdout
