"""Runs docs/tutorial.md, in a folder of its own, and checks the outputs on it.

    python docs/tutorial.py            # run and check
    python docs/tutorial.py --update   # write what it prints into the page

A python block that begins with a file's name is written to that file, as a toml block is. Of the
shell lines, those of our commands run in this process; ``pip install .`` lists the entry points
where an installation would, and ``pip install dist/*.whl`` does nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import tomllib
from pathlib import Path

from click.testing import CliRunner

from laneshift.cli.main import main as laneshift
from laneshift_lab.cli.main import main as lab

PAGE = Path(__file__).with_suffix(".md")
COMMANDS = {"laneshift": laneshift, "laneshift-lab": lab}
BLOCK = re.compile(r"^```(python|sh|toml|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shell(line: str) -> str:
    """What a shell line of the page prints."""
    words = shlex.split(line)
    if words[0] in COMMANDS:
        return CliRunner().invoke(COMMANDS[words[0]], words[1:]).output
    if words == ["pip", "install", "."]:
        project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
        info = Path(f"{project['name'].replace('-', '_')}-{project['version']}.dist-info")
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        points = [
            f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in named.items())
            for group, named in project["entry-points"].items()
        ]
        (info / "entry_points.txt").write_text("".join(points))
    elif words != ["pip", "install", "dist/*.whl"]:
        raise SystemExit(f"cannot run {line!r}: use laneshift or pip install")
    return ""


def run(page: str) -> str:
    """The page with what its blocks print in its text blocks; ``page`` itself if it is right."""
    names: dict[str, object] = {}
    printed = ""

    def block(match: re.Match[str]) -> str:
        nonlocal printed
        kind, text = match.groups()
        first = text.partition("\n")[0].removeprefix("# ")
        if kind == "text":
            return f"```text\n{printed.strip()}\n```"
        if re.fullmatch(r"\w+\.(py|toml)", first):
            Path(first).write_text(text, encoding="utf-8")
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(PAGE), "exec"), names)
            printed = out.getvalue()
        else:
            printed = "".join(shell(line) for line in text.splitlines())
        return match.group(0)

    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
        try:
            return BLOCK.sub(block, page)
        finally:
            sys.path.remove(folder)
            sys.modules.pop("my_policies", None)
            os.chdir(before)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    found = run(page)
    if "--update" in sys.argv:
        PAGE.write_text(found, encoding="utf-8")
    elif found != page:
        raise SystemExit("An output differs: see `python docs/tutorial.py --update; git diff docs`")
    print("docs/tutorial.md: every output is as printed there")
