"""Changes lanes and moves shards while a query runs, by laneshift's Python API alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from laneshift import Application, NotFoundError, QuerySnapshot, SessionError

LANES = (1, 4, 2)


@dataclass
class Director:
    """Gives all partitions 1, then 4, then 2 lanes, and moves random shards between lanes.

    Attributes:
        live: what :func:`laneshift.attach` gave.
        query_id: the query.
        moves_per_s: moves asked for per second.
        random: source of the moves.
        lane_changes: (seconds since the start, lanes per partition) of each change asked for.
    """

    app: Application
    query_id: str
    moves_per_s: float
    random: random.Random
    lane_changes: list[tuple[float, int]] = field(default_factory=list)
    _stage: int = 0
    _owed: float = 0.0
    _last: float = 0.0

    def look(self) -> QuerySnapshot | None:
        """The query as it is now; None before its first batch."""
        for query in self.app.snapshot().queries:
            if query.id == self.query_id and query.operators:
                return query
        return None

    def act(self, seconds: float, progress: float) -> None:
        """Do what is due at ``seconds`` since the start, with ``progress`` (0 to 1) of all rows."""
        query = self.look()
        if query is None:
            self._last = seconds
            return
        if not self.lane_changes:
            self.lane_changes.append((0.0, LANES[0]))
        if self._stage < min(int(progress * len(LANES)), len(LANES) - 1):
            self._stage += 1
            for operator in query.operators:
                self.app.query(self.query_id).set_lanes(
                    LANES[self._stage], operator=operator.operator_id
                )
            self.lane_changes.append((seconds, LANES[self._stage]))
        self._owed = min(self._owed + (seconds - self._last) * self.moves_per_s, 20.0)
        self._last = seconds
        while self._owed >= 1.0:
            self._owed -= 1.0
            self._move(query)

    def _move(self, query: QuerySnapshot) -> None:
        operator = self.random.choice(query.operators)
        partition = self.random.choice(operator.partitions)
        if partition.lanes < 2:
            return
        shard = self.random.randrange(partition.shards)
        owner = int(partition.lane_of_shard[shard])
        lane = self.random.choice([lane for lane in range(partition.lanes) if lane != owner])
        # The lane may have gone since the snapshot, or the shard be on its way elsewhere.
        try:
            self.app.query(self.query_id).move(
                shard=shard,
                to_lane=lane,
                partition=partition.partition,
                operator=operator.operator_id,
            )
        except (NotFoundError, SessionError):
            self._owed += 0.5
