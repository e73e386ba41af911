"""Two pictures of running queries become what a policy sees, of each executor or of all.

Shards, lanes and hot keys of partitions, for policies that say where keys go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from laneshift.autoscale.batches import QueryBatches, QueryMeter
from laneshift.autoscale.cores import (
    Budget,
    Island,
    Room,
    idle_lanes,
    placed,
)
from laneshift.autoscale.pictures import (
    Key,
    Look,
    Seen,
    Window,
    newest_batches,
    query_name,
    seen_partitions,
)
from laneshift.autoscale.rates import PartitionMeter, inside
from laneshift.autoscale.sources import SOURCE, SourceShare, edges, entering
from laneshift.contract.cluster_load import ClusterLoad, Node
from laneshift.contract.ids import KeyId, NodeId, PartitionId, QueryId, ShardId, SourceId
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import HotKey, NodeCores, PartitionLoad
from laneshift.plugin.press import Press
from laneshift.plugin.snapshot import Mode, QuerySnapshot, RowWork, Snapshot


def shard_of(key: str, partitions: int, shards: int) -> ShardId:
    """The shard of a key, from the hash that Spark's shuffle takes of it (``ShardOfHash``).

    Args:
        key: that hash, as hexadecimal digits of 32 bits.
        partitions: state partitions of the operator (count).
        shards: of each of them (count).

    >>> shard_of("0badcafe", 2, 8), shard_of("ffffffff", 2, 8)
    (7, 7)
    """
    value = int(key, 16)
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return ShardId(signed % (partitions * shards) // partitions)


def looked_into(load: PartitionLoad, seen: Seen) -> PartitionLoad:
    """``load`` with what is known of the partition's inside.

    In micro-batch lanes and shards are those of the newest batch.
    """
    operator, part = seen.operator, seen.part
    if operator.is_dealt:
        return changed(load, works_above=_below(seen))
    lanes, shards = load.lanes, load.shards
    if load.batch is not None:
        # What the batch took is shared as its rows were.
        rows = float(part.shard_load.sum())
        share = load.offered_load / rows if rows > 0 else 1.0
        lanes, shards = inside(seen, load.placement, part.shard_load * share)
    total = load.offered_load if shards is None else float(shards.load_cores.sum())
    hot = _hot_keys(seen, total)
    return changed(load, lanes=lanes, shards=shards, hot_keys=hot, inputs=operator.inputs)


def with_hot_keys(load: PartitionLoad, seen: Seen) -> PartitionLoad:
    """``load`` with the keys that have much of its work, each of which one lane at a time does."""
    if seen.operator.is_dealt or not seen.part.hot_keys:
        return load
    hot = _hot_keys(seen, load.offered_load)
    if load.batch is None:
        # Which keys have the most was counted over a while: it is no more than their lanes do now.
        lane_of, busy = seen.part.lane_of_shard, seen.part.lane_busy
        hot = tuple(
            replace(key, load_cores=min(key.load_cores, float(busy[lane_of[key.shard]])))
            for key in hot
            if key.shard is not None and lane_of[key.shard] < busy.size
        )
    return changed(load, hot_keys=hot)


def _hot_keys(seen: Seen, work: float) -> tuple[HotKey, ...]:
    """The hot keys of a partition that has so much ``work`` (cores)."""
    count, shards = seen.operator.partition_count, seen.part.shards
    return tuple(
        HotKey(KeyId(key.key), key.share * work, shard=shard_of(key.key, count, shards))
        for key in seen.part.hot_keys
    )


def _below(seen: Seen) -> PartitionId | None:
    """The partition whose work it does that is apart from it."""
    below = [o for o in seen.query.operators if o.operator_id in seen.operator.upstream]
    if len(below) != 1 or below[0].above is not RowWork.APART:
        return None
    name = f"{query_name(seen.query)}:{below[0].operator_id}.{seen.part.partition}"
    return PartitionId(name)


L = TypeVar("L")

LEAST_GLANCE_S = 0.08
"""Nothing is measured over less (s, ours): a few rows more or less are all that it would show."""


class Meter:
    """Remembers the picture before, and what is known of each partition.

    Args:
        query: :attr:`only`, at first.
        cores: most cores of an executor that lanes may use, None for all of them.
        places: whether executors whose lanes may be on others are shown together.
        inside: whether lanes and shards of micro-batches are shown, too.

    Attributes:
        only: run id of the only query to measure, None for all; empty while there is none.
    """

    def __init__(
        self,
        query: str | None = None,
        cores: int | None = None,
        places: bool = False,
        inside: bool = False,
    ) -> None:
        self.only = query
        self._places = places
        self._inside = inside
        self._budget = Budget(cores)
        self._looks: dict[Key, Look] = {}
        self._rates: defaultdict[Key, PartitionMeter] = defaultdict(PartitionMeter)
        self._shares: defaultdict[Key, SourceShare] = defaultdict(SourceShare)
        self._runs: dict[str, QueryMeter] = {}
        self._newest: dict[str, int] = {}

    def measure(self, live: Snapshot, *, grows: bool = False) -> tuple[Island, ...]:
        """The islands of ``live``, in the order of their executors; windows end at its time.

        ``grows``: there may be more executors, so that one is shown as a cluster, too.
        """
        everything = seen_partitions(live)
        parts = self._mine(everything)
        self._forget_all_but({s.key for s in parts})
        self._budget.forget_all_but([executor.executor for executor in live.executors])
        looks, self._looks = self._looks, {s.key: Look(s.part, live.time_ms) for s in parts}
        unheard = {s.key for s in parts if s.part.executor in live.silent}
        self._looks |= {key: looks[key] for key in unheard & looks.keys()}
        # A query's sources and partitions do not all end at the same moment: one is enough to tell.
        # One that a batch has left out, as of work that is with the state again, tells nothing.
        newest = newest_batches(lambda s: s.query.run_id, parts)
        resting = {
            s.query.run_id
            for s in parts
            if s.query.mode is Mode.REAL_TIME
            and s.key in looks
            and not s.has_run_since(looks[s.key].part)
            and s.part.batch_id >= min(newest[s.query.run_id], self._newest.get(s.query.run_id, -1))
        }
        self._newest = newest
        news = self._look_at_batches(live, parts)
        windows = {
            s.key: Window(looks[s.key].part, looks[s.key].time_ms, live.time_ms)
            for s in parts
            if s.key in looks and s.key not in unheard and live.time_ms > looks[s.key].time_ms
        }

        def shown(here: Sequence[Seen]) -> list[PartitionLoad]:
            return self._shown(here, windows, resting, unheard, news, live.time_ms)

        found, measured = self._islands(live, everything, parts, shown, windows, news, grows)
        self._look_at_tasks(live, parts, measured)
        return self._with_queries(found, live, parts)

    def glance(
        self,
        live: Snapshot,
        presses: Mapping[Key, Press],
        keys: Collection[Key],
        *,
        grows: bool = False,
    ) -> tuple[Island, ...]:
        """The islands as they were measured last, but for partitions ``keys``, measured anew.

        Since their last look or, if that is later, since they became pressed, by ``presses``: of
        those alone that is a while ago, and there is an island at all. Batches are not looked at.
        """
        everything = seen_partitions(live)
        parts = self._mine(everything)
        windows: dict[Key, Window] = {}
        for s in parts:
            look, press = self._looks.get(s.key), presses.get(s.key)
            if look is None or s.key not in keys or not s.has_run_since(look.part):
                continue
            since_ms = 0 if press is None else press.since_ms + live.set_back_ms
            if press is not None and since_ms > look.time_ms:
                look = Look(press.then(s.part), since_ms)
            window = Window(look.part, look.time_ms, live.time_ms)
            if window.seconds >= LEAST_GLANCE_S:
                windows[s.key] = window
                self._looks[s.key] = Look(s.part, live.time_ms)
        if not windows:
            return ()

        def shown(here: Sequence[Seen]) -> list[PartitionLoad]:
            return self._glanced(here, windows)

        found, _ = self._islands(live, everything, parts, shown, windows, set(), grows)
        return tuple(i for i in found if any(ref.key in windows for ref in i.partitions.values()))

    def _islands(
        self,
        live: Snapshot,
        everything: Sequence[Seen],
        parts: Sequence[Seen],
        shown_of: Callable[[Sequence[Seen]], list[PartitionLoad]],
        windows: Mapping[Key, Window],
        news: set[str],
        grows: bool,
    ) -> tuple[list[Island], list[PartitionLoad]]:
        """The islands, and what was measured of all their partitions."""
        spans = (
            self._places
            and any(s.part.max_elsewhere for s in parts)
            and (grows or len(live.executors) > 1)
        )
        mine = {s.key for s in parts}
        together = mine if spans else set()
        rooms: dict[str, Room] = {}
        found: list[Island] = []
        measured: dict[str, list[PartitionLoad]] = {}
        by_executor = _by(lambda s: s.part.executor, parts)
        others = _by(lambda s: s.part.executor, [s for s in everything if s.key not in mine])
        far = [s for s in everything if s.key not in together and s.part.wanted_elsewhere]
        for executor in live.executors:
            here = by_executor.get(executor.executor, [])
            beside = others.get(executor.executor, [])
            shown = shown_of(here)
            if executor.executor in live.silent:
                cores = _had(executor.executor, [*here, *(parts if spans else ())])
            else:
                cores = self._budget.of(executor, live.time_ms, here, beside)
                cores -= _guests(executor.executor, far)
            by_name = {s.name: s for s in here}
            look = looked_into if self._inside else with_hot_keys
            shown = [look(part, by_name[part.partition]) for part in shown]
            if not spans:
                # Cores that somebody has wanted for them elsewhere are theirs beside the node's.
                shown = [_as_home(part) for part in shown]
                cores += sum(sum(s.part.wanted_elsewhere.values()) for s in here)
            room = Room(max(cores + idle_lanes(here, shown, cores), len(here)), cores)
            if spans and executor.leaving:
                held = sum(s.lanes.home for s in here)
                room = Room(held, 0)
            if here or (spans and not executor.leaving):
                rooms[executor.executor] = room
            measured[executor.executor] = shown
            if here and not spans:
                alone = {executor.executor: room}
                found.append(self._island(executor.executor, alone, here, shown, windows, news))
        if spans and parts:
            there = [s for s in parts if s.part.executor in rooms]
            named = {s.name: s for s in there}
            shown = [
                _among(part, rooms, named[part.partition])
                for each in measured.values()
                for part in each
            ]
            found.append(self._island("", rooms, there, shown, windows, news))
        found = [replace(island, silent=frozenset(live.silent)) for island in found]
        return found, [part for each in measured.values() for part in each]

    def _look_at_batches(self, live: Snapshot, parts: Sequence[Seen]) -> set[str]:
        """Run ids of micro-batch queries of which a batch has ended since the last look."""
        runs = _by(lambda s: s.query.run_id, parts)
        self._runs = {run: self._runs.get(run) or QueryMeter() for run in runs}
        return {
            run
            for run, mine in runs.items()
            if self._runs[run].look(mine[0].query, mine, live.executors, live.time_ms)
        }

    def _look_at_tasks(
        self, live: Snapshot, parts: Sequence[Seen], measured: Sequence[PartitionLoad]
    ) -> None:
        """Real-time queries' tasks; those of micro-batches are looked at as their batches end."""
        shown = {part.partition: part for part in measured}
        for run, mine in _by(lambda s: s.query.run_id, parts).items():
            query = mine[0].query
            if query.mode is Mode.REAL_TIME:
                self._runs[run].tasks.looked(query, mine, shown, live.executors, live.time_ms)

    def _with_queries(
        self, islands: Sequence[Island], live: Snapshot, parts: Sequence[Seen]
    ) -> tuple[Island, ...]:
        """``islands``, the first that has partitions of a query with its stores and its tasks."""
        there = {s.query.run_id: s.query for s in parts}
        loads = [
            known.stores.load(there[run], live.time_ms)
            for run, known in self._runs.items()
            if known.stores is not None
        ]
        stores = {load.query: load for load in loads if load is not None}
        done = [load for run in self._runs.values() if (load := run.tasks.load) is not None]
        tasks = {load.query: load for load in sorted(done, key=lambda load: load.query)}
        found = []
        for island in islands:
            if island.cluster is not None and (stores or tasks):
                here = island.cluster.queries
                cluster = changed(
                    island.cluster, stores=_taken(stores, here), tasks=_taken(tasks, here)
                )
                island = replace(island, cluster=cluster)
            found.append(island)
        return tuple(found)

    def _batches(self, seen: Seen) -> QueryBatches | None:
        """Those of a partition's query; None unless it runs in micro-batches."""
        known = self._runs.get(seen.query.run_id)
        return None if known is None else known.batches

    def _mine(self, parts: Sequence[Seen]) -> list[Seen]:
        return [s for s in parts if self.only in (None, s.query.run_id)]

    def forget(self) -> None:
        """Nothing will be measured any more."""
        self._forget_all_but(set())
        self._budget.forget_all_but(())
        self._looks.clear()
        self._runs.clear()
        self._newest.clear()

    def _forget_all_but(self, there: set[Key]) -> None:
        for memory in (self._rates, self._shares):
            for key in memory.keys() - there:
                del memory[key]

    def _shown(
        self,
        here: Sequence[Seen],
        windows: Mapping[Key, Window],
        resting: set[str],
        unheard: set[Key],
        news: set[str],
        now_ms: int,
    ) -> list[PartitionLoad]:
        """What is known of an executor's partitions; of those ``unheard`` what was known before."""
        measured = []
        for s in here:
            window = windows.get(s.key)
            if (batches := self._batches(s)) is not None:
                in_batch = batches.shown(s)
                if in_batch is not None:
                    is_new = s.query.run_id in news
                    measured.append(in_batch if is_new else changed(in_batch, repeated=True))
                if window is not None and s.has_moved_since(window.was):
                    self._shares[s.key].begin(s)
            elif window is not None and s.has_moved_since(window.was):
                # It counts from nothing there; what was measured says the old executor is its home.
                self._shares[s.key].begin(s)
                self._rates[s.key].begin()
            elif window is not None:
                shown = self._rates[s.key].shown(s, window, ran=s.query.run_id not in resting)
                measured += [] if shown is None else [shown]
            elif s.key in unheard and (known := self._rates[s.key].known(s.part)) is not None:
                measured.append(changed(known, repeated=True))
            if s.key not in unheard:
                self._shares[s.key].count(s, now_ms)
        return measured

    def _glanced(self, here: Sequence[Seen], windows: Mapping[Key, Window]) -> list[PartitionLoad]:
        """What is known of an executor's partitions, those of ``windows`` measured anew."""
        found: list[PartitionLoad | None] = []
        for s in here:
            batches = self._batches(s)
            if s.key in windows and batches is None:
                found.append(self._rates[s.key].shown(s, windows[s.key], ran=True))
                continue
            known = self._rates[s.key].known(s.part) if batches is None else batches.shown(s)
            found.append(None if known is None else changed(known, repeated=True))
        return [part for part in found if part is not None]

    def _island(
        self,
        executor: str,
        rooms: Mapping[str, Room],
        here: Sequence[Seen],
        measured: Sequence[PartitionLoad],
        windows: Mapping[Key, Window],
        news: set[str],
    ) -> Island:
        refs = {s.name: s for s in here}
        is_new = any(s.query.run_id in news or self._batches(s) is None for s in here)
        shares = {s.name: share for s in here if (share := self._shares[s.key].share) is not None}
        if not measured or not windows:
            return Island(executor, rooms, refs, None, {}, shares)
        cores = sum(room.cores for room in rooms.values())
        most = {p.partition: p.max_cores for p in measured if p.max_cores is not None}
        measured = [
            _at_most(part, rooms[part.home].cores if part.stays_home else cores)
            for part in measured
        ]
        cluster, sources = _cluster(executor, rooms, here, measured, next(iter(windows.values())))
        return Island(executor, rooms, refs, cluster, sources, shares, is_new, most)


def _taken(loads: dict[QueryId, L], here: Collection[QueryId]) -> tuple[L, ...]:
    """The loads of queries that are here; no other island gets them."""
    return tuple(loads.pop(query) for query in tuple(loads) if query in here)


def _by(name: Callable[[Seen], str], parts: Sequence[Seen]) -> dict[str, list[Seen]]:
    """``parts`` by that name."""
    found: dict[str, list[Seen]] = {}
    for s in parts:
        found.setdefault(name(s), []).append(s)
    return found


def _guests(executor: str, others: Sequence[Seen]) -> int:
    """Lanes that ``others`` are to have on an executor that is not their own."""
    return sum(
        s.part.wanted_elsewhere.get(executor, 0) for s in others if s.part.executor != executor
    )


def _had(executor: str, parts: Sequence[Seen]) -> int:
    """Lanes that ``parts`` have or want on an executor."""
    lanes = {s.key: s.lanes.on(executor, s.part.executor) for s in parts}
    return sum(lanes.values())


def _as_home(part: PartitionLoad) -> PartitionLoad:
    """``part`` with all of its cores at home."""
    if part.cores_on(part.home) == part.cores:
        return part
    lanes = tuple(replace(lane, node=part.home) for lane in part.lanes)
    return changed(part, placement=(NodeCores(part.home, part.cores),), lanes=lanes)


def _among(part: PartitionLoad, rooms: Mapping[str, Room], whole: Seen) -> PartitionLoad:
    """``part`` with what a policy that places lanes has to know of it.

    Cores on executors that are leaving are not its own any more.
    """
    operator, seen = whole.operator, whole.part
    cells = tuple(
        cell
        for cell in part.placement
        if cell.node == part.home or (cell.node in rooms and seen.max_elsewhere)
    )
    most = seen.max_lanes + seen.max_elsewhere
    if seen.max_elsewhere == 0:
        most = min(most, max(1, rooms[part.home].budget))
    return changed(
        placed(part, cells),
        max_cores=most if operator.is_dealt else min(most, seen.shards),
        kept_at_home=1,
        stays_home=seen.max_elsewhere == 0,
    )


def _at_most(part: PartitionLoad, cores: int) -> PartitionLoad:
    """In micro-batch, ``part`` as one that no more lanes than those cores help."""
    if part.batch is None:
        return part
    most = max(1, cores)
    return changed(part, max_cores=most if part.max_cores is None else min(part.max_cores, most))


def _cluster(
    island: str,
    rooms: Mapping[str, Room],
    here: Sequence[Seen],
    measured: Sequence[PartitionLoad],
    window: Window,
) -> tuple[ClusterLoad, dict[SourceId, QuerySnapshot]]:
    """What a policy sees of executors, and the sources of it that a command can reach."""
    fed = edges(here, measured)
    sources = entering(here, measured, fed)
    cluster = ClusterLoad(
        time_s=window.now_ms / 1000,
        window_s=window.seconds,
        nodes=tuple(
            Node(NodeId(name), max(room.budget, sum(p.cores_on(NodeId(name)) for p in measured)))
            for name, room in rooms.items()
        ),
        partitions=tuple(measured),
        edges=fed,
        sources=tuple(source for source, _ in sources),
        island=island,
    )
    reached = {source.source: query for source, query in sources if source.source.endswith(SOURCE)}
    return cluster, reached
