"""The tab of Spark's UI in a real browser: what a person sees of a query under motion."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laneshift
from live.browser import Browser, require_chromium
from live.conftest import PARTITIONS, SHARDS, to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("surface")]

PICTURES = Path(__file__).parents[3] / "build" / "screenshots"

# Everything that the page says in numbers, read from what the browser has laid out.
SEEN = """(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const text = (selector) => all(selector).map((e) => e.innerText);
  const width = (e) => e.getBoundingClientRect().width;
  return {
    tab: document.querySelector("li.nav-item.active, a.nav-link.active")?.innerText,
    headings: text("h4"),
    operators: text(".ls-operator"),
    partitions: all(".ls-partition").map((row) => ({
      words: row.cells[0].innerText,
      lanes: all(".ls-lane", row).map((lane) => ({
        words: lane.innerText,
        share: width(lane.querySelector("i")) / width(lane.querySelector(".ls-bar")),
      })),
      shards: all(".ls-shards span", row).map((s) => ({
        lane: Number(s.innerText),
        title: s.title,
        colour: getComputedStyle(s).backgroundColor,
        rows: s.getBoundingClientRect().top,
      })),
    })),
    courses: all(".ls-course polyline").map((line) => line.points.length),
    dots: all(".ls-dots circle").map((dot) => {
      const box = dot.closest("svg").getBoundingClientRect(), at = dot.getBoundingClientRect();
      return at.left >= box.left && at.right <= box.right && at.top >= box.top
        && at.bottom <= box.bottom;
    }),
    decisions: all("#ls-decisions tbody tr").map((row) => [...row.cells].map((c) => c.innerText)),
    moves: all("#ls-moves tbody tr").map((row) => [...row.cells].map((c) => c.innerText)),
    wide: document.documentElement.scrollWidth > innerWidth,
  };
})()"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(require_chromium(), tmp_path / "profile")
    yield opened
    opened.close()


def test_a_person_sees_lanes_shards_decisions_and_moves(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path, browser: Browser
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    session = spark.newSession()
    session.conf.set("spark.sql.laneshift.motion", "always")
    rows = (
        session.readStream.format("laneshift-workload")
        .options(keys=300, zipf=0.9, rowBytes=0, rate="stage", rateStages="1500:1h")
        .load()
    )
    answers = rows.groupBy("key").agg(F.count("*").alias("n"))
    # Each answer costs a millisecond of waiting: the lanes are at work.
    slow = answers.withColumn("n", F.expr("laneshift_cost(n, 1000, 'wait')"))
    query, tail = to_lines(slow, tmp_path, "30 seconds", name="answers")
    url = f"{spark.sparkContext.uiWebUrl}/laneshift/"
    try:
        with app.query(query).autoscale(
            policy="elasticutor", dry_run=True, interval=0.5
        ) as autoscaler:
            end = time.monotonic() + 90
            while (
                tail.updates.rows < 2_500
                or len(app.query(query).handoffs()) < 100
                or not any(d.changes for d in autoscaler.decisions())
            ):
                assert time.monotonic() < end, "no answers, moves or decisions"
                assert query.exception() is None, query.exception()
                tail.poll()
                time.sleep(0.2)
            browser.open(url)
            while "Over time" not in (seen := browser.ask(SEEN))["headings"]:
                assert time.monotonic() < end, "no samples over time"
                time.sleep(1)
                browser.open(url)
            browser.screenshot(PICTURES / "tab.png")
        _check(seen, str(query.id))
        browser.ask("document.documentElement.setAttribute('data-bs-theme', 'dark')")
        browser.screenshot(PICTURES / "tab-dark.png")
        browser.open(f"{url}?every=1")
        browser.wait_until_loaded()
        assert "loads again every 1 s" in browser.ask("document.body.innerText")
        query.stop()
        browser.open(url)
        while "No elastic query runs" not in browser.ask("document.body.innerText"):
            assert time.monotonic() < end + 60, "the page still shows the query"
            time.sleep(0.2)
            browser.open(url)
        assert browser.complaints == []
    finally:
        query.stop()


def _check(seen: dict[str, Any], query_id: str) -> None:
    assert "Laneshift" in seen["tab"]
    assert seen["headings"] == [
        f"Query answers ({query_id})",
        "Over time",
        "What the autoscaler decided, newest first",
        "Moves of shards",
    ]
    (operator,) = seen["operators"]
    parts = seen["partitions"]
    lanes = sum(len(p["lanes"]) for p in parts)
    assert f"in Real-time Mode: {PARTITIONS} partitions on {lanes} lane" in operator
    assert len(parts) == PARTITIONS
    for number, part in enumerate(parts):
        assert part["words"].startswith(f"{number} on executor driver")
        for words in ("rows/s in (", "B/s)", "of shards"):
            assert words in part["words"], part["words"]
        for index, lane in enumerate(part["lanes"]):
            name, percent = lane["words"].split("\n")
            assert name == f"lane {index}"
            assert lane["share"] == pytest.approx(float(percent.split(" %")[0]) / 100, abs=0.02)
        assert len(part["shards"]) == SHARDS
        # A shard may be on its way from a lane that is no more wanted.
        assert {s["lane"] for s in part["shards"]} <= set(range(6))
        assert all(f"on lane {s['lane']}" in s["title"] for s in part["shards"])
    assert any(lane["share"] > 0.05 for p in parts for lane in p["lanes"]), "no lane has worked"
    shades = {s["colour"] for p in parts for s in p["shards"]}
    assert len(shades) > 3, "the heat map shows no loads"
    # Rows, lanes and waiting rows over time, of other tests' queries, too, that have just ended.
    assert len(seen["courses"]) % 3 == 0 and min(seen["courses"]) >= 1, seen["courses"]
    assert len(seen["dots"]) >= 20 and all(seen["dots"]), "moves are drawn outside their picture"
    assert any("lanes" in row[2] and row[3] for row in seen["decisions"])
    assert len(seen["moves"]) == 20
    assert all(len(row) == 9 and row[1].startswith("answers") for row in seen["moves"])
    assert not seen["wide"], "the page is wider than the window"
