"""What the documentation shows is what happens: tutorial, doctests, examples, public names."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

from laneshift.errors import conditions
from laneshift.plugin.partition import RemoteLane
from laneshift.policies import registry

ROOT = Path(__file__).parents[2]
PAGES = ("docs/partitioners/index.md",)
ROOMS = ("autoscale", "report", "contract", "policies", "models", "partitioning")
PACKAGES = (*(f"laneshift.{room}" for room in ROOMS), "laneshift_lab", "keygroups")


def modules() -> Iterator[str]:
    for package in PACKAGES:
        top = import_module(package)
        yield top.__name__
        yield from (found.name for found in walk_packages(top.__path__, top.__name__ + "."))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The script docs/NAME.py or scripts/NAME.py as a module."""
    folder, name = request.param.split("/")
    monkeypatch.syspath_prepend(str(ROOT / folder))
    return import_module(name)


@pytest.mark.parametrize("name", list(modules()))
def test_doctests(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_every_package_has_doctests() -> None:
    """A package without any would make the test above one that cannot fail."""
    found = {
        package: sum(
            len(test.examples)
            for name in modules()
            if name.startswith(package)
            for test in doctest.DocTestFinder().find(import_module(name))
        )
        for package in PACKAGES
    }
    assert min(found.values()) >= 2, found


def test_papers_are_cited_by_title_and_year() -> None:
    table = (ROOT / "docs/papers.md").read_text("utf-8")
    known = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| (\d{4}) \|$", table, flags=re.MULTILINE))
    assert len(known) == 5
    titles = "|".join(known)
    folders = (
        "python/laneshift",
        "lab/laneshift_lab",
        "benchmarks/laneshift_experiments",
        "benchmarks/keygroups",
        "docs",
    )
    for file in (f for folder in folders for f in (ROOT / folder).rglob("*.*")):
        if file.suffix in (".py", ".md"):
            text = file.read_text("utf-8")
            for title, year in re.findall(rf"({titles}), (\d{{4}})", text):
                assert known[title] == year, (file, title, year)
            assert not re.findall(r"paper notes|\b(?:elasticutor|craa|oera)\.md \d", text), file


def test_the_page_for_operators_quotes_what_the_code_says() -> None:
    """Each message up to its `...` and setting names, each gauge, each error condition."""
    page = (ROOT / "docs/operate.md").read_text("utf-8")
    sources = [*ROOT.glob("jvm/*/src/main/**/*.scala"), *(ROOT / "python/laneshift").rglob("*.*")]
    text = "\n".join(
        f.read_text("utf-8") for f in sources if f.suffix in (".scala", ".py", ".json")
    )
    code = " ".join(re.sub(r'"\s*\+?\n?\s*[sf]?"', "", text).split())
    ours = re.findall(r"LANESHIFT(?:_[A-Z]+)+", page)
    assert len(ours) >= 7 and set(ours) <= conditions().keys()
    gauges = re.findall(r'"gauge": "(\w+)"', text)
    (watched,) = re.findall(r"\| gauge \|.*?\n\n", page, flags=re.DOTALL)
    found = re.findall(
        r"`(\w+)`", "\n".join(row.split("|")[1] for row in watched.splitlines() if row)
    )
    assert len(found) > 10 and set(found) - {"queries", "partitions"} <= set(gauges)
    quoted = [
        quote
        for quote in re.findall(r"^(?:- `|\| (?:.*?, )?`)([^`]+)`", page, flags=re.MULTILINE)
        if " " in quote
    ]
    assert len(quoted) > 25
    for quote in quoted:
        for part in re.split(r"\.\.\.|spark\.[\w.]+|4\.3", quote):
            assert len(part.strip()) < 6 or part.strip() in code, (quote, part)


def test_the_page_for_operators_has_every_reason_to_stay_stock() -> None:
    """The reasons are all texts of two words or more in the files that judge an operator."""
    page = (ROOT / "docs/operate.md").read_text("utf-8")
    spans = [s for s in re.findall(r"`([^`]+)`", page) if " " in s]
    quoted = [".*".join(re.escape(part) for part in s.split("...")) + ".*" for s in spans]
    main = ROOT / "jvm/spark/src/main/scala/org/apache/spark/sql/laneshift"
    for file in ("plan/Elasticity.scala", "spec/KeyEncoding.scala"):
        code = re.sub(r"\$(\{[^{}]*\}|\w+)", "X", (main / file).read_text("utf-8"))
        code = re.sub(r'"\s*\+\s*s?"', "", code)
        reasons = [r for r in re.findall(r'"([^"\n]+)"', code) if r.count(" ") > 1]
        assert len(reasons) >= 5
        for reason in reasons:
            assert any(re.fullmatch(quote, reason) for quote in quoted), (file, reason)


def test_the_page_of_tuning_names_parameters_that_policies_have() -> None:
    """Each knob `name` (`policy`, ...) is a parameter of these policies, its default first."""
    page = (ROOT / "docs/autoscaling.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \(([^)]*)\) \| ([^|]*) \|", page, re.MULTILINE)
    assert len(rows) >= 8
    for names, policies, default in rows:
        named = re.findall(r"`([\w-]+)`", policies) or [
            n for n in registry.BUILT_IN if n != "static"
        ]
        assert set(named) <= set(registry.BUILT_IN), policies
        for position, name in enumerate(re.findall(r"`(\w+)`", names)):
            said = default.split(", ")[position].split()[0].rstrip(":")
            for policy in named:
                found = registry.defaults(policy)[name]
                assert (
                    f"{found:g}" == said
                    if not isinstance(found, bool)
                    else (str(found).lower() == said)
                ), (policy, name)
    options = dict(
        re.findall(r"^\| `(spark\.\S+)` \| `(\S*)` \|",
                   (ROOT / "docs/configuration.md").read_text("utf-8"), re.MULTILINE)
    )  # fmt: skip
    told = re.findall(
        r"^\| `(spark\.\S+?)` \| `?([\d.]+|[a-z]+)(?: (m?s))?`? \|", page, re.MULTILINE
    )
    assert len(told) >= 4
    for option, value, unit in told:
        milliseconds = {"s": 1000, "ms": 1}.get(unit)
        stands = f"{int(value) * milliseconds}ms" if milliseconds else value
        assert options[option] == stands, option


def test_the_page_of_lanes_elsewhere_names_what_there_is() -> None:
    """Error conditions, options, and the fields of a lane on another executor."""
    page = (ROOT / "docs/parallelism.md").read_text("utf-8")
    assert set(re.findall(r"LANESHIFT(?:_[A-Z]+)+", page)) <= conditions().keys()
    options = set(re.findall(r"`(spark\.sql\.laneshift\.[\w.]+)`", page))
    known = (ROOT / "docs/configuration.md").read_text("utf-8")
    assert len(options) >= 5 and all(f"| `{option}` |" in known for option in options)
    metrics = (ROOT / "docs/metrics.md").read_text("utf-8")
    table = metrics.split("| field |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [f.name for f in fields(RemoteLane)]


@pytest.mark.parametrize("page", PAGES)
def test_examples_with_prompts(page: str) -> None:
    tried = doctest.testfile(str(ROOT / page), module_relative=False)
    assert tried.attempted > 0
    assert tried.failed == 0


def test_examples_of_the_simulators_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        names: dict[str, object] = {}
        exec(block, names)
        if "run" in names:
            assert capsys.readouterr().out.endswith("\n(5, 2) 0 0\n")
            assert "It prints `(5, 2) 0 0`" in text
        else:
            assert names["result"].mean("throughput", 10) > 1000  # type: ignore[attr-defined]
    assert (tmp_path / "run.csv").exists()


@pytest.mark.parametrize("script", ["docs/tutorial"], indirect=True)
def test_the_tutorial_prints_what_it_says(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert page.count("```text") >= 6
    assert script.run(page) == page, "run: python docs/tutorial.py --update"
    wrong = page.replace("busy 2 -> 4", "busy 2 -> 5")
    assert wrong != page
    assert script.run(wrong) == page, "a wrong output is noticed"


def test_the_tutorial_runs_as_a_script() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "tutorial.py")], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "every output is as printed there" in done.stdout


@pytest.mark.parametrize("script", ["docs/tutorial"], indirect=True)
def test_the_tutorial_runs_no_other_commands(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="cannot run 'rm -r x'"):
        script.shell("rm -r x")


@pytest.mark.parametrize("script", ["scripts/api_page"], indirect=True)
def test_the_page_of_public_names_is_up_to_date(script: ModuleType) -> None:
    assert script.PAGE.read_text("utf-8") == script.page(), "run: python scripts/api_page.py"
    assert script.undocumented() == []


@pytest.mark.parametrize("script", ["scripts/metrics_page"], indirect=True)
def test_the_page_of_metrics_is_up_to_date(script: ModuleType) -> None:
    assert script.PAGE.read_text("utf-8") == script.page(), "run: python scripts/metrics_page.py"


@pytest.mark.parametrize("script", ["scripts/site_pages"], indirect=True)
def test_the_sites_pages_have_their_lists_apart(script: ModuleType) -> None:
    tried = doctest.testmod(script)
    assert tried.attempted > 0 and tried.failed == 0
    code = "text\n```\n- no list\n```\n- a list"
    assert script.with_lists_apart(code) == code.replace("\n- a", "\n\n- a")
    assert script.with_lists_apart("text\n- a\n- b\n") == "text\n\n- a\n- b\n"


@pytest.mark.parametrize("script", ["scripts/api_page"], indirect=True)
def test_first_sentences(script: ModuleType) -> None:
    assert script.sentence("One. Two.") == "One."
    assert script.sentence("Probability that\n    a row waits; 1.0 if not.\n\nMore.") == (
        "Probability that a row waits; 1.0 if not."
    )
    assert script.sentence("a | b") == "a \\| b"
    assert script.sentence(None) == ""
