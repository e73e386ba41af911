"""No test of the gate has a clock, a rate, a process or chance in it, but those in no_clock.txt.

A line there is ``file | word | how often | why that is no matter of time``. The list only shrinks:
move a test to a deep room, or wait for what it is about, rather than add to it.
``python python/tests/test_no_clock.py --update`` writes it anew and keeps the reasons.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("no_clock.txt")
UPDATE = "python python/tests/test_no_clock.py --update"

OWN = {"test_no_clock.py", "test_tiers.py", "tiers.py", "stuck.py"}
"""What tells tiers apart, and ends what hangs."""
OF_DEEP_TESTS = {
    "browser",
    *("again", "cluster", "cores", "demand", "harmless", "history", "many", "pipelined"),
    *("place", "side", "stop", "stores"),
}
"""What only deep tests use: NAME.py, and applications, NAME_app.py."""

CALLED = {"sleep", "monotonic", "perf_counter", "randrange"}
CHANCE = {"random", "randint", "choice", "choices", "shuffle", "sample", "uniform", "randbytes"}
WORDS = {"processingTime", "rowsPerSecond", "local-cluster"}
SCALA = {
    "sleep": r"\bThread\.sleep\(",
    "nanoTime": r"\bnanoTime\b",
    "currentTimeMillis": r"\bcurrentTimeMillis\b",
    "eventually": r"\beventually\b",
    "Span": r"\bSpan\(",
    "Random": r"\bnew Random\(\)|\bnew Random\b(?!\()|\bRandom\.(?:next|shuffle|alphanumeric)",
    "processingTime": r"(?i)\bprocessingTime\b(?=\()",
    "rowsPerSecond": r"\browsPerSecond\b",
    "local-cluster": r"local-cluster\[",
    "subprocess": r"\bProcessBuilder\(|\bsys\.process\b",
}


def is_deep(marks: list[ast.expr]) -> bool:
    """As a whole: of a test of which some cases are deep the others are the gate's."""
    return any(ast.unparse(mark).startswith("pytest.mark.deep(") for mark in marks)


def is_deep_module(tree: ast.Module) -> bool:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                return is_deep(value.elts if isinstance(value, ast.List) else [value])
    return False


def of_gate(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a module, but tests that are deep as a whole."""
    if isinstance(node, ast.FunctionDef) and is_deep(node.decorator_list):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from of_gate(child)


def word(node: ast.AST) -> str | None:
    """The word of the list that a piece of Python is."""
    match node:
        case ast.Constant(value=str(text)) if "\n" not in text:  # none of a program or a docstring
            return next((w for w in WORDS if re.search(rf"\b{w}\b", text)), None)
        case ast.keyword(arg=name) if name in WORDS:
            return name
        case ast.Attribute(value=ast.Name(id="time"), attr="time"):
            return "time.time"
        case ast.Attribute(value=ast.Name(id="subprocess"), attr="run" | "Popen" | "check_output"):
            return "subprocess"
        case ast.Attribute(value=ast.Name(id="random"), attr=name) if name in CHANCE:
            return "random"
        case ast.Attribute(value=ast.Name(id="time" | "asyncio" | "random"), attr=name):
            return name if name in CALLED else None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=[]):
            return name if name in ("default_rng", "Random") else None
        case ast.ImportFrom(module="time" | "random" | "subprocess", names=names):
            return next((each.name for each in names), None)
    return None


def in_python(file: Path) -> Counter[str]:
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    if is_deep_module(tree):
        return Counter()
    found = Counter(filter(None, map(word, of_gate(tree))))
    if "import random\n" not in text:  # a generator may have that name
        del found["random"]
    return found


def closing(code: str, at: int) -> int:
    """Behind the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "({[") - (code[i] in ")}]")
        if depth == 0:
            return i + 1
    return len(code)


def in_scala(file: Path) -> Counter[str]:
    def blank(found: re.Match[str]) -> str:
        return " " * len(found[0])

    text = re.sub(r"(?s)/\*.*?\*/|(?<!:)//[^\n]*", blank, file.read_text("utf-8"))
    if re.search(r"\b(?:extends|with)\s+DeepSuite\b", text):
        return Counter()
    code = re.sub(r"(?s)'\"'|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"", blank, text)
    for test in reversed(list(re.finditer(r"\b(?:test|ignore)(?=\()", code))):
        end = closing(code, test.end())
        if re.search(r"\bDeep\.\w+\b(?!\.unless)", code[test.end() : end]):
            body = re.compile(r"\s*[({]").match(code, end)
            end = closing(code, body.end() - 1) if body else end
            text = text[: test.start()] + text[end:]
    return Counter({w: n for w, each in SCALA.items() if (n := len(re.findall(each, text)))})


def found() -> dict[tuple[str, str], int]:
    """How often which word is in which file of the gate."""
    counts = {}
    for file in sorted(ROOT.glob("*/tests/**/*.py")):
        if file.name not in OWN and file.stem.removesuffix("_app") not in OF_DEEP_TESTS:
            counts[file] = in_python(file)
    for file in sorted(ROOT.glob("jvm/*/src/test/**/*.scala")):
        counts[file] = in_scala(file)
    names = {file: str(file.relative_to(ROOT)) for file in counts}
    return {(names[f], w): n for f, each in counts.items() for w, n in sorted(each.items())}


def listed() -> dict[tuple[str, str], tuple[int, str]]:
    lines = [line.split(" | ", 3) for line in LIST.read_text("utf-8").splitlines()]
    return {(file, word): (int(often), why) for file, word, often, why in lines}


def test_the_gate_has_no_clock_but_where_a_reason_says_so() -> None:
    known = {key: often for key, (often, _) in listed().items()}
    seen = found()
    more = [f"{f}: {w} {n} times" for (f, w), n in seen.items() if n > known.get((f, w), 0)]
    less = [f"{f}: {w}, listed {n}" for (f, w), n in known.items() if n > seen.get((f, w), 0)]
    assert not more, f"mark what hangs on time deep(room), or give a reason after {UPDATE}: {more}"
    assert not less, f"no more there, so the list shrinks; run {UPDATE}: {less}"


def test_each_line_has_a_reason() -> None:
    assert [key for key, (_, why) in listed().items() if len(why) < 10] == []


def test_what_is_looked_for_is_found(tmp_path: Path) -> None:
    def seen(text: str, name: str = "test_it.py") -> dict[str, int]:
        file = tmp_path / name
        file.write_text(text)
        return dict((in_scala if name.endswith("scala") else in_python)(file))

    assert seen("import time\ntime.sleep(1)\nx = time.monotonic() < time.time()") == {
        "sleep": 1, "monotonic": 1, "time.time": 1,
    }  # fmt: skip
    chance = "from time import sleep\nrandom.Random(); random.Random(1); rng = default_rng()"
    assert seen(chance) == {
        "sleep": 1, "Random": 1, "default_rng": 1,
    }  # fmt: skip
    rates = "w.trigger(processingTime='1 s').option('rowsPerSecond', 5)\nsubprocess.run([])"
    assert seen(rates) == {
        "processingTime": 1, "rowsPerSecond": 1, "subprocess": 1,
    }  # fmt: skip
    deep = "@pytest.mark.deep('speed')\n@other\ndef test_it():\n    time.sleep(1)\n"
    assert seen(deep) == {} and seen(deep + "def f(): time.sleep(1)") == {"sleep": 1}
    case = "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.deep('speed'))])\n"
    assert seen(deep.replace("@pytest.mark.deep('speed')\n", case)) == {"sleep": 1}
    assert seen("pytestmark = [pytest.mark.live, pytest.mark.deep('speed')]\ntime.sleep(1)") == {}
    scala = 'test("a (", TAG) {\n  Thread.sleep(1)\n  // sleep(1)\n}\ntest("b")(eventually(x))\n'
    assert seen(scala, "A.scala") == {"sleep": 1, "eventually": 1}
    assert seen(scala.replace("TAG", "Deep.Speed"), "A.scala") == {"eventually": 1}
    assert seen(scala.replace("TAG", "Deep.Speed.unless(b): _*"), "A.scala")["sleep"] == 1
    assert seen(f"class A extends B with DeepSuite {{ {scala} }}", "A.scala") == {}


if __name__ == "__main__" and "--update" in sys.argv:
    before = listed() if LIST.is_file() else {}
    LIST.write_text(
        "".join(
            f"{file} | {w} | {n} | {before.get((file, w), (0, '?'))[1]}\n"
            for (file, w), n in found().items()
        )
    )
