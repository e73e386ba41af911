"""The pages of docs/policies say what the code does: every policy, parameter and default."""

import re
from pathlib import Path
from typing import Any

import pytest

from laneshift.scheduler import registry

PAGES = Path(__file__).parents[3] / "docs" / "policies"


def written(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_page_lists_parameters_and_defaults(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, flags=re.MULTILINE))
    assert rows == {key: written(value) for key, value in registry.defaults(name).items()}
    assert text.startswith(f"# {name}\n") and "## When to use" in text and "## Idea" in text


def test_overview_links_every_page_and_its_example_runs() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    for name in registry.BUILT_IN:
        assert f"[{name}]({name}.md)" in text
    example = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert example is not None
    found: dict[str, Any] = {}
    exec(example.group(1), found)
    assert found["plan"].core_changes[0].after == 4
