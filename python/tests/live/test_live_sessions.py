"""Sessions that do not have the plugin, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from live.conftest import require_jar

pytestmark = [pytest.mark.live, pytest.mark.versions, pytest.mark.deep("surface")]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_session_without_the_plugin_is_told_so_and_cannot_get_it_later() -> None:
    require_jar()
    out = run("""
import laneshift
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for call in (lambda: laneshift.attach(spark), lambda: laneshift.configure(SparkSession.builder)):
    try:
        call()
    except laneshift.SessionError as error:
        print(error.condition)
spark.stop()
try:
    laneshift.configure(SparkSession.builder.master("local[1]"))
except laneshift.SessionError as error:
    print(error.condition)
""")
    assert out.split() == [
        "LANESHIFT_NOT_LOADED",
        "LANESHIFT_JVM_RUNS_ALREADY",
        "LANESHIFT_JVM_RUNS_ALREADY",
    ]


def test_the_plugin_works_again_in_a_second_session_of_one_process() -> None:
    require_jar()
    out = run("""
import laneshift
from pyspark.sql import SparkSession
for lanes in (1, 2):
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = laneshift.configure(builder, lanes=lanes).getOrCreate()
    live = laneshift.attach(spark)
    print(len(live.snapshot().queries), spark.conf.get("spark.sql.laneshift.lanes"))
    spark.stop()
    try:
        live.snapshot()
    except laneshift.SessionError as error:
        print(error.condition)
""")
    assert out.split() == [
        "0",
        "1",
        "LANESHIFT_SESSION_STOPPED",
        "0",
        "2",
        "LANESHIFT_SESSION_STOPPED",
    ]
