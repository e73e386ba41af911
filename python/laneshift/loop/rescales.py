"""What a policy wants rescaled becomes commands; what the plugin refuses is not asked for again at
once.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from laneshift.errors import LaneshiftError
from laneshift.loop.island import Island
from laneshift.loop.memories import Memories
from laneshift.plugin.gateway import Gateway
from laneshift.scheduler.ids import QueryId
from laneshift.scheduler.plan import PartitionsChange

AGAIN_S = 600.0
"""After so long a query that was refused is asked for again (s, ours): what stands against it, a
file sink or a global limit, seldom goes.
"""


class Rescaler:
    """Remembers what was refused."""

    def __init__(self, gateway: Gateway, memories: Memories) -> None:
        self._gateway = gateway
        self._until_s: MutableMapping[str, float] = memories.by_run(float)
        self._said: MutableMapping[str, str] = memories.by_run(str)

    def wanted(
        self, changes: Sequence[PartitionsChange], island: Island, now_s: float
    ) -> dict[str, PartitionsChange]:
        """Changes by run id, of queries that were not refused lately."""
        runs = {query: run for query, (run, _) in queries_of(island).items()}
        return {
            runs[change.query]: change
            for change in changes
            if change.query in runs and self._until_s.get(runs[change.query], now_s) <= now_s
        }

    def would(self, wanted: Mapping[str, PartitionsChange]) -> tuple[PartitionsChange, ...]:
        """Those that were not said before: nothing is sent, and each batch wants them again."""
        new = {run: change for run, change in wanted.items() if self._said.get(run) != change.what}
        self._said.update((run, change.what) for run, change in new.items())
        return tuple(new.values())

    def send(
        self, wanted: Mapping[str, PartitionsChange], island: Island, now_s: float
    ) -> tuple[tuple[PartitionsChange, ...], tuple[str, ...]]:
        """Asks for them; those that were taken, and why others were not."""
        ids = dict(queries_of(island).values())
        taken, notes = [], []
        for run, change in wanted.items():
            try:
                self._gateway.rescale(ids[run], change.after)
                taken.append(change)
            except LaneshiftError as problem:
                self._until_s[run] = now_s + AGAIN_S
                notes.append(
                    f"{change.query} keeps its {change.before} state partitions instead of"
                    f" {change.after}: {problem}"
                )
        return tuple(taken), tuple(notes)


def queries_of(island: Island) -> dict[QueryId, tuple[str, str]]:
    """Run id and id of each query of an island, by the name that policies have for it."""
    return {
        QueryId(name.rpartition(":")[0]): (ref.run_id, ref.query_id)
        for name, ref in island.partitions.items()
    }
