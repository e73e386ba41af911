"""Writes docs/api.md: the public names of the Python packages, each with its first sentence.

python scripts/api_page.py           # write it
python scripts/api_page.py --check   # only say whether it is as it should be
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
PACKAGES = ("laneshift", "laneshift_lab")
NOT_OFFERED = ("laneshift._version", "laneshift.control.v1")
HEAD = """# Public names

Made by `python scripts/api_page.py` from the docstrings, which say more: `help(name)`.
A name is public if its module has it in `__all__`; all others may change without notice.
"""


def modules() -> Iterator[ModuleType]:
    """The packages and their modules, in order."""
    for top in map(importlib.import_module, PACKAGES):
        yield top
        for found in pkgutil.walk_packages(top.__path__, top.__name__ + "."):
            if not found.name.startswith(NOT_OFFERED) and not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def sentence(docstring: str | None) -> str:
    """The first sentence, on one line, fit for a cell of a table."""
    first = (docstring or "").strip().partition("\n\n")[0]
    text = re.sub(r"\s+", " ", first)
    text = re.split(r"(?<=[.:;])\s+(?=[A-Z(>])", text, maxsplit=1)[0]
    return text.rstrip(":;").replace("|", "\\|")


def definition(module: ModuleType, name: str) -> ast.stmt | None:
    """Where ``name`` is defined, in the module or in the one that it imports it from."""
    following: ast.stmt | None = None
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and name in (a.asname or a.name for a in node.names):
            return definition(importlib.import_module(str(node.module)), name)
        if isinstance(node, ast.Module):
            for here, after in zip(node.body, [*node.body[1:], None], strict=True):
                targets = here.targets if isinstance(here, ast.Assign) else ()
                targets = [here.target] if isinstance(here, ast.AnnAssign) else targets
                if name in (t.id for t in targets if isinstance(t, ast.Name)):
                    following = after
    return following


def description(module: ModuleType, name: str) -> str:
    """The first sentence about an exported name; of a constant the text below it."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return "" if (value.__doc__ or "").startswith(f"{name}(") else sentence(value.__doc__)
    below = definition(module, name)
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
        return sentence(str(below.value.value))
    return ""


def methods(value: object) -> Iterator[tuple[str, str]]:
    """Public methods and properties of a class with their first sentences, in its order."""
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        if name.startswith("_") or isinstance(member, type):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if isinstance(member, FunctionType | property | cached_property):
            yield name, sentence(member.__doc__)


def exported(module: ModuleType) -> list[str]:
    """What the module says is public, without what begins with an underscore."""
    return sorted(n for n in getattr(module, "__all__", ()) if not n.startswith("_"))


def undocumented() -> list[str]:
    """Classes and functions without a docstring of their own, and public names with nothing."""
    found = []
    for module in modules():
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__ and name[0] != "_"
            if own and (inspect.isclass(value) or inspect.isfunction(value)):
                found += [] if description(module, name) else [f"{module.__name__}.{name}"]
        for name in exported(module):
            said = [(name, description(module, name))]
            said += [(f"{name}.{m}", text) for m, text in methods(getattr(module, name))]
            found += [f"{module.__name__}.{n}" for n, text in said if not text]
    return found


def page() -> str:
    """The text of docs/api.md."""
    lines = [HEAD]
    for module in modules():
        names = exported(module)
        if not names:
            continue
        lines += [f"## `{module.__name__}`", "", sentence(module.__doc__), ""]
        lines += ["| name | |", "|---|---|"]
        for name in names:
            lines.append(f"| `{name}` | {description(module, name)} |")
            lines += [f"| `{name}.{m}` | {text} |" for m, text in methods(getattr(module, name))]
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
