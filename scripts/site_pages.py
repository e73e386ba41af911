"""Collects the pages of the documentation site in build/site-pages, from where they are.

The copy has the repository's layout, so that a link between two pages is the same in the site and
on a forge. Pages may also link to the few source files that are named below. A list that directly
follows a line of text gets the empty line that MkDocs wants there and forges do not.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "site-pages"

PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "benchmarks/README.md",
    "benchmarks/papers/**/*.md",
    "benchmarks/results/*.md",
)
PICTURES = (
    "docs/images/*.png",
    "benchmarks/papers/**/*.png",
    "benchmarks/results/*.png",
)
SOURCES = (
    "docker/Dockerfile",
    "docker/build.sh",
    "examples/*.py",
    "docs/grafana/*.json",
    "python/laneshift/plugin/v1/control.proto",
)

ITEM = re.compile(r"([-*]|1\.) \S")


def with_lists_apart(text: str) -> str:
    """The page with an empty line between a line of text and a list.

    >>> print(with_lists_apart("It is:\\n- short\\n- and\\n  sweet"))
    It is:
    <BLANKLINE>
    - short
    - and
      sweet
    """
    made: list[str] = []
    in_code = in_list = False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and ITEM.match(line):
            if not in_list and made and made[-1]:
                made.append("")
            in_list = True
        elif not line or in_code:
            in_list = False
        made.append(line)
    return "\n".join(made)


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    for pattern in (*PAGES, *PICTURES, *SOURCES):
        for path in sorted(ROOT.glob(pattern)):
            copy = TARGET / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                copy.write_text(with_lists_apart(path.read_text("utf-8")), "utf-8")
            else:
                shutil.copyfile(path, copy)


if __name__ == "__main__":
    main()
