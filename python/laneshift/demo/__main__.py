"""``python -m laneshift.demo``: see ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from laneshift import LaneshiftError
from laneshift.demo.failure import DemoError
from laneshift.demo.settings import MODES, Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if the answers were identical and shards moved, else 1; 2 if it
    could not run."""
    settings = parse(arguments)
    from laneshift.demo.show import show

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
        prog="python -m laneshift.demo",
        description="Replays the flights of 2013 through a windowed aggregation, in micro-batch "
        "and in Real-time Mode, while lanes go 1 -> 4 -> 2 and shards move, and compares the "
        "answer with stock Spark's.",
    )
    add = parser.add_argument
    add("source", choices=("flights", "kafka"), help="files, or a Kafka broker of the demo's own")
    add("--seconds", type=_positive, default=25.0, help="length of each replay (default 25)")
    add("--rows", type=_whole, help="replay only the first so many flights")
    add("--cost-us", type=_whole, default=0, help="waiting time per answer, microseconds")
    add("--moves-per-s", type=_positive, default=10.0, help="moves to ask for (default 10)")
    add("--modes", choices=MODES, nargs="+", default=list(MODES), help="default: both")
    add("--picture", type=Path, help="PNG file (default demo-flights.png or demo-kafka.png)")
    add("--work", type=Path, default=Path("build/demo"), help="working folder (default build/demo)")
    add("--seed", type=int, default=7, help="seed of the moves (default 7)")
    add("--stock", action="store_true", help="run without laneshift, to see the difference")
    given = parser.parse_args(arguments)
    return Settings(
        source=given.source,
        work=given.work / given.source,
        picture=given.picture or Path(f"demo-{given.source}.png"),
        seconds=given.seconds,
        rows=given.rows,
        cost_us=given.cost_us,
        moves_per_s=given.moves_per_s,
        modes=tuple(dict.fromkeys(given.modes)),
        stock=given.stock,
        seed=given.seed,
    )


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0 and below 1,000,000")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to 999,999,999")
    return value


if __name__ == "__main__":
    sys.exit(main())
