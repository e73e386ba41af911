"""Writes docs/api.md: every public name of the Python library with its first sentence.

python scripts/api_page.py           # write it
python scripts/api_page.py --check   # only say whether it is as it should be
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
PACKAGES = ("loop", "report", "scheduler", "models", "partitioning", "simulator")
HEAD = """# Public names

Made by `python scripts/api_page.py` from the docstrings, which say more: `help(name)`.
What begins with an underscore is not public.
"""


def modules() -> Iterator[ModuleType]:
    """The packages of the library and their modules, in order."""
    for package in PACKAGES:
        top = importlib.import_module(f"laneshift.{package}")
        yield top
        for found in pkgutil.walk_packages(top.__path__, top.__name__ + "."):
            yield importlib.import_module(found.name)


def sentence(docstring: str | None) -> str:
    """The first sentence, on one line, fit for a cell of a table."""
    first = (docstring or "").strip().partition("\n\n")[0]
    text = re.sub(r"\s+", " ", first)
    text = re.split(r"(?<=[.:;])\s+(?=[A-Z(>])", text, maxsplit=1)[0]
    return text.rstrip(":;").replace("|", "\\|")


def names(module: ModuleType) -> list[tuple[str, type[Any] | FunctionType]]:
    """Public classes and functions that the module defines, in its order."""
    found = [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]
    return sorted(found, key=lambda pair: inspect.getsourcelines(pair[1])[1])


def undocumented() -> list[str]:
    """Public names without a docstring of their own."""
    return [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in names(module)
        if not (value.__doc__ or "").strip() or (value.__doc__ or "").startswith(f"{name}(")
    ]


def page() -> str:
    """The text of docs/api.md."""
    lines = [HEAD]
    for module in modules():
        found = names(module)
        exported = getattr(module, "__all__", ())
        if not found and not exported:
            continue
        lines += [f"## `{module.__name__}`", "", sentence(module.__doc__), ""]
        if exported:
            lines += ["Offers " + ", ".join(f"`{name}`" for name in sorted(exported)) + ".", ""]
        if found:
            lines += ["| name | |", "|---|---|"]
            lines += [f"| `{name}` | {sentence(value.__doc__)} |" for name, value in found]
            lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Write or check; the exit code is 1 if the page is not as it should be."""
    if "--check" in sys.argv:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        print("docs/api.md is up to date" if same else "stale: run python scripts/api_page.py")
        return 0 if same else 1
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
