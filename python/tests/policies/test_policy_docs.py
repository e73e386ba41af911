"""The pages of docs/policies say what the code does: every policy, parameter and default."""

import re
from pathlib import Path
from typing import Any

import pytest

from laneshift.policies import registry
from laneshift_lab.samples import cluster, partition

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


def test_the_example_of_a_policy_with_a_state_smooths() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    _, example = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    found: dict[str, Any] = {"__name__": "smooth"}
    exec(example, found)
    policy = found["Smooth"](weight=0.5)
    state = policy.start()
    counts = []
    for rate in (1000.0, 5000.0, 5000.0, 5000.0):
        seen = partition("p0", {"node-a": 2}, offered_rate=rate, service_rate=1000)
        before = state
        plan, state = policy.answer(cluster({"node-a": 8}, [seen]), state)
        assert policy.answer(cluster({"node-a": 8}, [seen]), before) == (plan, state)
        counts.append([change.after for change in plan.core_changes])
    assert counts == [[1], [3], [4], [5]]
