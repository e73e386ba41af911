"""Scenarios from TOML files: what the page shows, what is refused, seeds, and the command."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.errors import InputError
from laneshift_lab.cli.main import main
from laneshift_lab.simulator import read_scenario, simulate
from laneshift_lab.simulator.rates import Constant, Levels, Sine
from laneshift_lab.simulator.workload import FixedKeys, ZipfKeys

PAGE = Path(__file__).parents[3] / "docs/simulator.md"
SMALL = """
duration_s = 4
rate = 2000
[cluster]
nodes = 1
cores = 4
[keys]
kind = "zipf"
n_keys = 100
[[operators]]
name = "o"
partitions = 2
shards = 16
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "scene.toml"
    file.write_text(text, "utf-8")
    return file


def test_the_pages_scenario(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    scene = read_scenario(written(tmp_path, text))
    assert (scene.cluster.nodes, scene.operators[0].shards, scene.seed) == (4, 64, 1)
    assert scene.keys == ZipfKeys(2000, 0.8, 4, seed=1)
    assert scene.rate == Levels(((3000, 20), (9000, 10), (3000, 30)))
    assert simulate(scene).mean("throughput", after_s=10) > 3000


def test_everything_that_a_file_may_have(tmp_path: Path) -> None:
    scene = read_scenario(
        written(
            tmp_path,
            """
            duration_s = 10
            cores = [2, 1]
            [cluster]
            nodes = 2
            cores = 2
            [keys]
            kind = "fixed"
            weights = [3, 1]
            [rate]
            kind = "sine"
            base = 100
            amplitude = 50.0
            [engine]
            policy_s = 1
            faults = [{ time_s = 3, node = 1, down_s = 2 }]
            [[operators]]
            name = "filter"
            partitions = 1
            [[operators]]
            name = "count"
            partitions = 1
            upstream = ["filter"]
            keys = { kind = "zipf", n_keys = 9, seed = 5 }
            split = { how = "merge", slots = 4 }
            """,
        ),
        seed=7,
    )
    first, second = scene.operators
    assert scene.keys == FixedKeys((3, 1)) and scene.rate == Sine(100, 50)
    assert second.keys == ZipfKeys(9, seed=5)
    assert (first.split, second.upstream, second.slots) == (None, ("filter",), 260)
    assert scene.engine.faults[0].down_s == 2 and scene.cores == (2, 1) and scene.seed == 7


def test_a_number_is_a_constant_rate_and_a_seed_gives_the_keys_theirs(tmp_path: Path) -> None:
    scene = read_scenario(written(tmp_path, SMALL), seed=3)
    assert scene.rate == Constant(2000)
    assert scene.keys == ZipfKeys(100, seed=3)
    assert read_scenario(written(tmp_path, SMALL.replace("2000", "inf"))).seed == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("duration_s = 4", "", ["no duration_s"]),
        ("duration_s = 4", "duration_s = -4", ["duration_s", "-4"]),
        ("duration_s = 4", "duration_s =", ["a TOML file"]),
        ("rate = 2000", "rate = 'fast'", ["rate", "a table"]),
        ("rate = 2000", "rates = 2000", ["rates", "Did you mean rate?"]),
        ("rate = 2000", "rate = { kind = 'cosine' }", ["rate.kind", "constant, levels, sine"]),
        ("rate = 2000", "rate = { kind = 'constant' }", ["rate: found []", "'rate'"]),
        ('"zipf"', '"zipfs"', ["keys.kind", "fixed, stock, topic, zipf"]),
        ("n_keys = 100", "n_keys = 'many'", ["keys.n_keys", "'many'", "int"]),
        ("n_keys = 100", "n_key = 100", ["n_key", "Did you mean n_keys?"]),
        ("nodes = 1", "nodes = 1.5", ["cluster.nodes", "1.5", "int"]),
        ("nodes = 1", "nodes = true", ["cluster.nodes", "True"]),
        ("partitions = 2", "partitions = 9", ["9", "at most 4"]),
        ("[[operators]]", "[operators]", ["Write [[operators]]"]),
        ("shards = 16", "shards = 16\nsplit = 3", ["operators[0].split", "a table"]),
        ("shards = 16", "shards = 16\nupstream = 'x'", ["operators[0].upstream", "tuple"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in SMALL
    with pytest.raises(InputError) as caught:
        read_scenario(written(tmp_path, SMALL.replace(old, new)))
    for word in words:
        assert word in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="FileNotFoundError"):
        read_scenario(tmp_path / "nothing.toml")


def test_windows_as_a_frame(tmp_path: Path) -> None:
    result = simulate(read_scenario(written(tmp_path, SMALL)))
    frame = result.frame()
    assert list(frame.index) == [1, 2, 3, 4]
    assert frame["throughput"].tolist() == result.column("throughput").tolist()


def ran(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["simulate", *map(str, args)])
    return done.exit_code, done.output


def test_the_command_compares_policies_and_seeds(tmp_path: Path) -> None:
    file, table = written(tmp_path, SMALL), tmp_path / "windows.csv"
    wanted = ("--scenario", file, "--policy", "static,elasticutor", "--seed", 1, "--seed", 2)
    code, text = ran(*wanted, "--after", 1, "--csv", table)
    assert code == 0, text
    lines = [line.split() for line in text.splitlines() if line.startswith(("static ", "elast"))]
    found = [(line[0], line[1]) for line in lines if len(line) > 2]
    assert found == [(p, s) for p in ("static", "elasticutor") for s in ("1", "2")]
    with table.open(encoding="utf-8") as rows:
        windows = list(csv.DictReader(rows))
    assert len(windows) == 2 * 2 * 4
    assert windows[0].keys() > {"policy", "seed", "time_s", "throughput", "latency_mean_s"}
    assert ran(*wanted, "--after", 1)[1].splitlines()[-4:] == text.splitlines()[-5:-1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "found 'none'"),
        (("--trace", "demo", "--scenario", "x"), "found 'both'"),
        (("--trace", "demo", "--seed", "1"), "A trace has no seed"),
        (("--scenario", "x", "--cores", "4"), "has its cores"),
    ],
)
def test_options_that_do_not_go_together(args: tuple[str, ...], words: str) -> None:
    code, text = ran("--policy", "static", *args)
    assert code == 2 and words in text
