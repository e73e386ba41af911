"""The state partitions of micro-batch queries: measured once per finished batch, with the rescale
that is under way or over.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneshift.loop.seen import Seen, query_name, slots
from laneshift.plugin.rescale import RescaleProgress
from laneshift.plugin.snapshot import ExecutorSnapshot, QuerySnapshot
from laneshift.scheduler.ids import OperatorId, QueryId
from laneshift.scheduler.store_load import StoreLoad
from laneshift.scheduler.store_rates import RescaleSeen, StoreRates, StoresDone, StoreSizes


class QueryStores:
    """Of one run of a query."""

    def __init__(self) -> None:
        self._rates = StoreRates()
        self._rescales = _Rescales()
        self._operators: tuple[OperatorId, ...] = ()
        self._sizes = StoreSizes()

    def ended(
        self, query: QuerySnapshot, parts: Sequence[Seen], executors: Sequence[ExecutorSnapshot]
    ) -> None:
        """A batch with rows has ended. ``parts``: the query's."""
        batch = query.batch
        if batch is None or not batch.state:
            return  # without state, or of a plugin that does not tell
        done = [
            s
            for s in parts
            if not s.operator.is_dealt
            and s.part.last_batch is not None
            and s.part.last_batch.batch_id >= batch.batch_id
        ]
        if not done:
            return
        tasks_s: dict[int, list[float]] = {}
        for s in done:
            assert s.part.last_batch is not None
            tasks_s.setdefault(s.operator.operator_id, []).append(s.part.last_batch.took_s)
        operators = {s.operator.operator_id: s.operator for s in done}
        # Of fewer tasks than partitions each has a core: more cores do not run more of them.
        grouped = [o.tasks for o in operators.values() if o.tasks < o.partition_count]
        self._rates.add(
            StoresDone(
                max(1, *(stores.partitions for stores in batch.state)),
                max(1, min([slots(executors), *grouped])),
                max(batch.duration_s, 1e-3),
                sum(map(sum, tasks_s.values())),
                sum(max(took) - sum(took) / len(took) for took in tasks_s.values()),
                sum(stores.commit_s for stores in batch.state),
                float(sum(stores.written_bytes for stores in batch.state)),
            )
        )
        sizes = [float(s.part.state_memory_bytes + s.part.state_file_bytes) for s in done]
        self._sizes = StoreSizes(sum(sizes), max(sizes))
        name = query_name(query)
        self._operators = tuple(OperatorId(f"{name}:{number}") for number in sorted(operators))

    def load(self, query: QuerySnapshot, now_ms: int) -> StoreLoad | None:
        """What a policy sees; None before a batch has been measured."""
        rescale = self._rescales.look(query.rescale, self._sizes.state_bytes, now_ms)
        paced = query.trigger is not None and query.trigger.kind == "interval"
        interval_s = query.trigger.interval_s if query.trigger is not None and paced else None
        name = QueryId(query_name(query))
        return self._rates.load(name, self._operators, interval_s, self._sizes, rescale)


class _Rescales:
    """The rescales of one run, whoever has asked for them."""

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._over: tuple[RescaleProgress, int] | None = None
        self._bytes_per_s: float | None = None

    def look(self, newest: RescaleProgress | None, state_bytes: float, now_ms: int) -> RescaleSeen:
        if newest is None:
            return RescaleSeen()
        if not newest.ended:
            if self._began_ms is None:
                self._began_ms = now_ms
            return RescaleSeen(under_way=True)
        if self._began_ms is not None or self._over is None or self._over[0] != newest:
            if newest.state == "done" and self._began_ms is not None and state_bytes > 0:
                took_s = max(now_ms - self._began_ms, 1) / 1000
                self._bytes_per_s = state_bytes / took_s
            self._over, self._began_ms = (newest, now_ms), None
        done = newest.state == "done"
        return RescaleSeen(
            since_s=(now_ms - self._over[1]) / 1000,
            build_bytes_per_s=self._bytes_per_s if done else None,
            pause_s=newest.pause_ms / 1000 if done else None,
        )
