"""kill -9 of the driver at random points of a query under motion: the answer is stock Spark's.

``LANESHIFT_KILLS`` sets the number of kills (default 3; `make deep ROOMS=kills KILLS=20`). Each
life runs elastic under constant motion or, now and then, on stock Spark, all on one checkpoint. The
seed is printed and can be set with ``LANESHIFT_SEED``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

VICTIM = Path(__file__).with_name("victim.py")
KILLS = int(os.environ.get("LANESHIFT_KILLS", "3"))
SEED = int(os.environ["LANESHIFT_SEED"])
START_LIMIT_S = 180


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, str(VICTIM), str(folder), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable}


def finish(folder: Path, result: Path, *more: str) -> dict[str, list[str]]:
    done = subprocess.run(
        command(folder, "--finish", str(result), *more),
        env=environment(),
        timeout=600,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, list[str]] = json.loads(result.read_text())
    return found


def live_and_die(folder: Path, rng: random.Random, life: int, *more: str) -> str:
    """Lets the query work for a random time after its first batch, then kills its processes."""
    stock = rng.random() < 0.25
    side = ["--stock"] if stock else []
    process = subprocess.Popen(
        command(folder, "--seed", str(life), *side, *more),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        began = time.monotonic()
        first = process.stdout.readline()
        assert first.startswith("batch"), f"life {life} put out no batch: {first!r}"
        assert time.monotonic() - began < START_LIMIT_S
        time.sleep(rng.uniform(0.0, 3.0))
        assert process.poll() is None, f"life {life} ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "stock" if stock else "elastic"


@pytest.mark.deep("kills")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["aggregation", "dedup", "real-time aggregation"])
def test_killed_drivers_leave_the_answer_of_stock_spark(kind: str, tmp_path: Path) -> None:
    options = {
        "aggregation": ["--total", str(400_000 + 100_000 * KILLS)],
        "dedup": ["--dedup", "--total", str(400_000 + 100_000 * KILLS)],
        "real-time aggregation": ["--real-time", "--total", str(200_000 * (1 + KILLS))],
    }[kind]
    rng = random.Random(f"{SEED} {kind}")
    killed, plain = tmp_path / "killed", tmp_path / "plain"
    lives = [live_and_die(killed, rng, life, *options) for life in range(KILLS)]
    found = finish(killed, tmp_path / "killed.json", *options)
    expected = finish(plain, tmp_path / "plain.json", "--stock", *options)
    print(f"seed {SEED}, {kind}: lives {lives}, {len(expected['state'])} state rows")
    assert len(expected["state"]) > 0
    assert found["state"] == expected["state"], f"seed {SEED}"
    assert found["out"] == expected["out"], f"seed {SEED}"
