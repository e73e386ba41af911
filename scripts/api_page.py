"""Writes docs/api.md: the public names of the package laneshift with their docstrings.

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
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
PACKAGES = ("laneshift", "laneshift_lab")
WIRE = ("from_json", "to_json", "of_message", "to_message", "to_plugin")
NOT_OFFERED = ("laneshift._version", "laneshift.plugin.v1")
HEAD = """# Public names

What `import laneshift` offers, made by `python scripts/api_page.py` from the docstrings. All
other names may change without notice. Each example goes on from this one alone:

```python
import laneshift

app = laneshift.attach(spark)
query = app.query("orders")
```
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


def methods(value: object) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, in its order, but for what goes over a wire."""
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        if name.startswith("_") or name in WIRE or isinstance(member, type):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if isinstance(member, FunctionType | property | cached_property):
            yield name, member


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
            named = methods(getattr(module, name))
            said += [(f"{name}.{m}", sentence(member.__doc__)) for m, member in named]
            found += [f"{module.__name__}.{n}" for n, text in said if not text]
    return found


def page() -> str:
    """The text of docs/api.md."""
    package = importlib.import_module(PACKAGES[0])
    lines = [HEAD]
    for name in exported(package):
        value = getattr(package, name)
        lines += [f"## `{name}`", ""]
        if inspect.isclass(value) or inspect.isfunction(value):
            lines += [block(name, value), text(value.__doc__), ""]
        else:
            lines += [description(package, name), ""]
        for method, member in methods(value):
            lines += [f"### `{name}.{method}`", "", block(method, member)]
            lines += [text(member.__doc__), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def block(name: str, value: object) -> str:
    """How a function is called; nothing for others."""
    if not isinstance(value, FunctionType):
        return ""
    made = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(made, ast.FunctionDef)
    arguments = re.sub(r"^self(, )?", "", ast.unparse(made.args))
    result = "" if made.returns is None else f" -> {ast.unparse(made.returns)}"
    said = "\n".join(textwrap.wrap(f"{name}({arguments}){result}", 100, subsequent_indent="    "))
    return f"```text\n{said}\n```\n"


def text(docstring: str | None) -> str:
    """A docstring as Markdown: what is indented after an empty line is code; sections are lists."""
    found = []
    for part in inspect.cleandoc(docstring or "").split("\n\n"):
        head, _, rest = part.partition("\n")
        if part.startswith("    "):
            found.append(f"```python\n{textwrap.dedent(part)}\n```")
        elif head in ("Args:", "Attributes:"):
            items = re.split(r"\n(?=\S)", inspect.cleandoc(rest))
            listed = (re.sub(r"^([\w, ]+):", r"`\1`:", re.sub(r"\s+", " ", i)) for i in items)
            found.append("\n".join([head, "", *(f"- {item}" for item in listed)]))
        else:
            found.append(part)
    plain = "\n\n".join(found)
    plain = re.sub(r":\w+:`~?(?:[a-z_]+\.)*([\w.]+)`", r"`\1`", plain)
    return re.sub(r"(?<!`)``(?!`)", "`", plain)


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
