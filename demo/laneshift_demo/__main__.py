"""``python -m laneshift_demo``: see ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from laneshift import LaneshiftError
from laneshift_demo.failure import DemoError
from laneshift_demo.settings import POLICY, Settings
from laneshift_demo.stream import HOT_WORDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if the answers were identical and shards moved, else 1; 2 if it
    could not run."""
    settings = parse(arguments)
    from laneshift_demo.show import show

    with ExitStack() as stack:
        try:
            return show(settings, stack)
        except (DemoError, LaneshiftError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\ndemo: interrupted", file=sys.stderr)
            return 130


def parse(arguments: Sequence[str] | None) -> Settings:
    """The settings of a command line; exits with a message if it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m laneshift_demo",
        description="Runs stock Spark and laneshift side by side in Real-time Mode, over the "
        "flights of 2013 with hot airports that change; then laneshift in micro-batches; and "
        "compares every answer with batch Spark.",
    )
    add = parser.add_argument
    add("source", choices=("flights", "kafka"), help="files, or a Kafka broker of the demo's own")
    add("--seconds", type=_positive, default=30.0, help="how long rows come (default 30)")
    add("--rate", type=_positive, help="rows a second (default: what calibration chooses)")
    add("--cost-us", type=_whole, help="waiting time per answer, microseconds (default: the same)")
    add("--policy", default=POLICY, help=f"what moves the lanes (default {POLICY})")
    add("--picture", type=Path, help="PNG file (default demo-flights.png or demo-kafka.png)")
    add("--work", type=Path, default=Path("build/demo"), help="working folder (default build/demo)")
    add("--seed", type=int, default=7, help="seed of the stream and of the moves (default 7)")
    hot = "airports that are hot: in one of stock's partitions, or any (default shared)"
    add("--hot", choices=tuple(HOT_WORDS), default="shared", help=hot)
    given = parser.parse_args(arguments)
    return Settings(
        source=given.source,
        work=given.work / given.source,
        picture=given.picture or Path(f"demo-{given.source}.png"),
        seconds=given.seconds,
        rows_per_s=given.rate,
        cost_us=given.cost_us,
        policy=given.policy,
        seed=given.seed,
        hot=given.hot,
    )


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0 and below 1,000,000")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 60_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to 60,000,000")
    return value


if __name__ == "__main__":
    sys.exit(main())
