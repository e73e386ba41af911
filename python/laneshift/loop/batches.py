"""The load of micro-batch queries: measured once per finished batch, and held until the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneshift.loop.lanes import Lanes, placement
from laneshift.loop.rates import UNKNOWN_RATE
from laneshift.loop.seen import Seen, query_name
from laneshift.plugin.snapshot import QuerySnapshot
from laneshift.scheduler.batch_load import BatchLoad
from laneshift.scheduler.batch_rates import BatchRates, Done
from laneshift.scheduler.ids import NodeId, PartitionId, QueryId
from laneshift.scheduler.partition_load import PartitionLoad

IDLE_PERIODS, IDLE_S = 3.0, 10.0
"""A query of which no batch has ended for so many periods and so long (s) has nothing to do."""


def in_batches(query: QuerySnapshot) -> bool:
    """Whether the plugin tells what the query's batches did: older ones do not."""
    return query.mode == "micro-batch" and query.trigger is not None


class QueryBatches:
    """Of one run of a query."""

    def __init__(self, query: QuerySnapshot) -> None:
        assert query.trigger is not None
        paced = query.trigger.kind == "interval" and query.trigger.interval_s
        self._interval_s = query.trigger.interval_s if paced else None
        self._rates = BatchRates(self._interval_s)
        self._seen = self._counted = -1
        self._since_ms = 0
        self._idle = self._waited = False
        self.loads: dict[PartitionId, BatchLoad] = {}

    @property
    def newest(self) -> int:
        """The newest batch that was measured, -1 before the first."""
        return self._counted

    def look(self, query: QuerySnapshot, parts: Sequence[Seen], cores: Mapping[str, int],
             now_ms: int) -> bool:  # fmt: skip
        """Whether something is new: a batch has ended, or none for a while.

        ``parts``: the query's; ``cores``: tasks that each executor runs at a time.
        """
        batch = query.batch
        if batch is None:
            return False
        if batch.batch_id > self._seen:
            done = [
                Done(
                    s.name,
                    s.operator_name,
                    s.part.executor,
                    max(1, cores.get(s.part.executor, 1)),
                    max(1, s.part.last_batch.lanes),
                    s.part.last_batch.rows,
                    s.part.last_batch.busy_s,
                    s.part.last_batch.took_s,
                )
                for s in parts
                if s.part.last_batch is not None and s.part.last_batch.batch_id >= batch.batch_id
            ]
            if len(done) < len(parts) and not self._waited:
                self._waited = bool(done)
                return False  # the executors' news is still on its way; of who is silent, for ever
            if not done:
                return False
            self._waited = False
            rows = sum(source.rows for source in batch.sources)
            rate = sum(source.rows_per_s for source in batch.sources)
            if rows == 0 and not any(part.rows for part in done):
                self._seen = batch.batch_id  # a batch without rows, for watermarks and timers
                return False
            arrived = rows / rate if rows > 0 and rate > 0 else None
            if arrived is not None and self._interval_s is None:
                # Spark counts from when it last looked for rows: 10 ms ago if there were none.
                arrived = max(arrived, batch.duration_s)
            if query.trigger is not None and query.trigger.kind == "available-now":
                arrived = None  # all of them were there: what counts is how fast they go
            # Nobody has seen the batch before it, or there was none for a while.
            amid = self._interval_s is not None and (self._seen < 0 or self._idle)
            commit_s = sum(s.commit_s / max(1, s.partitions) for s in batch.state)
            self.loads |= self._rates.add(
                batch.batch_id, batch.duration_s, arrived, done, amid, commit_s
            )
            self._seen, self._since_ms, self._idle = batch.batch_id, now_ms, False
            self._counted = batch.batch_id
            return True
        period = max((load.period_s for load in self.loads.values()), default=0.0)
        quiet_s = (now_ms - self._since_ms) / 1000
        if self._idle or not self.loads or any(s.part.running for s in parts):
            return False
        if quiet_s <= max(IDLE_S, IDLE_PERIODS * period):
            return False
        self.loads = self._rates.idle(self._seen, list(self.loads))
        self._idle = True
        return True

    def shown(self, seen: Seen) -> PartitionLoad | None:
        """What a policy sees of a partition; None before its first batch has ended."""
        load = self.loads.get(seen.name)
        if load is None:
            return None
        part, node = seen.part, NodeId(seen.part.executor)
        rate = load.rows / load.period_s
        per_row = 1.0 / max(1, part.rows_in)
        cost = self._rates.cost_s(seen.name)
        return PartitionLoad(
            partition=seen.name,
            query=QueryId(query_name(seen.query)),
            operator=seen.operator_name,
            home=node,
            placement=placement(Lanes.of(part), part.executor),
            offered_rate=rate,
            service_rate_per_core=1.0 / cost if cost else UNKNOWN_RATE,
            queue_rows=0.0,
            selectivity=part.rows_out * per_row,
            state_bytes=float(part.state_memory_bytes + part.state_file_bytes),
            input_bytes_per_s=rate * part.bytes_in * per_row,
            output_bytes_per_s=rate * part.bytes_out * per_row,
            latency_p99_s=part.latency.p99_ms / 1000 if part.latency.count else None,
            max_cores=part.max_lanes,
            batch=load,
        )
