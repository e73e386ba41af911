"""Nothing is remembered of runs, partitions and executors that have gone, but what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autoscale.driven import Driven, driven
from autoscale.scripted import Moving
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.memory import Memory
from laneshift.errors import error
from laneshift.policies import registry
from plugin.fake import executor

NOT_MEMORY = {"_gateway", "_decisions", "_trace", "_thread", "_policy", "_listeners"}


def texts(found: object, seen: set[int]) -> Iterator[str]:
    """All that is text in what is remembered."""
    if isinstance(found, str):
        yield found
    if id(found) in seen or isinstance(found, str | int | float | type) or found is None:
        return
    seen.add(id(found))
    if isinstance(found, dict):
        inside: list[object] = [*found.keys(), *found.values()]
    elif isinstance(found, list | tuple | set | frozenset):
        inside = list(found)
    elif type(found).__module__.startswith("laneshift"):
        slots = [s for kind in type(found).__mro__ for s in getattr(kind, "__slots__", ())]
        inside = [getattr(found, name, None) for name in slots]
        inside += [v for k, v in getattr(found, "__dict__", {}).items() if k not in NOT_MEMORY]
    else:
        return
    for each in inside:
        yield from texts(each, seen)


class Restarting(Moving):
    """Its query has no name, and begins anew on another executor; work of it is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.run = 0
        self.again()

    def again(self) -> None:
        self.run += 1
        (query,) = self.data["queries"]
        query |= {"name": None, "run_id": f"{self.run:08d}-run"}
        names = [f"host-{self.run}", f"other-{self.run}"]
        self.data["executors"] = [executor(name, cores=8, active_tasks=2) for name in names]
        for part in query["operators"][0]["partitions"]:
            part |= {"executor": names[0], "auto": True, "rows_in": 10, "rows_taken": 10}
            part["wanted_elsewhere"] = [{"executor": names[1], "lanes": 1}]
            part["elsewhere_note"] = "it does not answer"
            part["max_elsewhere"] = 4

    def on_snapshot(self) -> dict[str, Any]:
        for part in self.data["queries"][0]["operators"][0]["partitions"]:
            part["blocked_s"] += 0.3 * (self.data["time_ms"] // 5000 % 2)
        return super().on_snapshot()

    def on_set_lanes(self, *_: Any) -> Any:
        raise error("LANESHIFT_PARTITION_MOVED", partition=0)


@pytest.mark.parametrize("policy", registry.names())
def test_what_has_gone_is_forgotten(policy: str) -> None:
    gateway = Restarting()
    made = AutoscaleLoop(gateway, registry.policy(policy))
    for _ in range(5):
        for _ in range(12):
            made.turn()
        gateway.again()
    for _ in range(70):  # what was said is not said again for a minute
        made.turn()
    known = set(texts(vars(made), set()))
    gone = [f"{run:08d}" for run in range(1, 6)]
    gone += [f"{kind}-{run}" for run in range(1, 6) for kind in ("host", "other")]
    assert [(old, text) for old in gone for text in known if old in text] == []
    assert any("host-6" in text for text in known), "what is there is"


def test_who_has_ended_remembers_what_it_has_decided_and_no_more() -> None:
    gateway = Driven(20.0)
    for part in gateway.data["queries"][0]["operators"][0]["partitions"]:
        part["auto"] = True
    run = gateway.data["queries"][0]["run_id"]
    made = driven(gateway, registry.policy("laneshift"))
    assert made.turns == 20 and made.decisions()
    assert not any(run in text for text in texts(vars(made), set()))


def test_a_memory_begins_anew_with_each_run() -> None:
    memory = Memory()
    memory["a"].taken.add(("a", 0, 1))
    memory["b"].rescale.said = "4 -> 8"
    memory.keep({"a"})
    assert set(memory) == {"a"} and memory["a"].taken == {("a", 0, 1)}
    assert memory["b"].rescale.said == ""
    memory.keep(())
    assert not memory
