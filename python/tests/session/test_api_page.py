"""docs/api.md: about forty names, and examples that run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import laneshift
from autoscale.scripted import Chain
from laneshift.policies import registry
from plugin.fake import executor
from session.transports import session

PAGE = Path(__file__).parents[3] / "docs" / "api.md"


class Orders(Chain):
    def on_handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        return super().on_handoffs("running" if query == "orders" else query, limit)


def test_examples() -> None:
    """With a plugin that is none; those that make or rewrite something need a Spark."""
    gateway = Orders()
    (query,) = gateway.data["queries"]
    query["name"] = "orders"
    del query["operators"][1:]
    gateway.data["executors"].append(executor("2", cores=8, active_tasks=0))
    names: dict[str, Any] = {"laneshift": laneshift, "spark": session(gateway)}
    names |= {"policy": registry.policy("static"), "loads": ()}
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    run = [e for e in found if "SparkSession" not in e and "rescale_checkpoint" not in e]
    assert len(run) >= 20 and len(found) - len(run) == 2
    for example in run:
        exec(example, names)
    assert {call[0] for call in gateway.sent} >= {
        *("set_lanes", "set_tasks", "move_shard", "limit_source", "rescale", "cancel_rescale"),
    }


def test_the_page_has_every_name_once() -> None:
    names = re.findall(r"^## `(\w+)`$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert names == sorted(n for n in laneshift.__all__ if n != "__version__")
    assert len(names) <= 45
