"""The placement while a partitioner works on it, and the net plan that comes out.

A partitioner takes amounts of keys off targets and puts them elsewhere; what comes back is no
migration ([E] of Data Distribution, 2017: emit the NET plan, rebuild Y from final shares).
"""

from __future__ import annotations

import numpy as np

from laneshift.partitioning.model import (
    KeyIndex,
    Loads,
    Move,
    MovePlan,
    Routing,
    TargetId,
    splits_of,
    verdict,
)

#: Leftovers below this share of a key's load are rounding noise and follow the rest of the key.
DUST = 1e-12


class Holdings:
    """Mutable view: ``on[t][k]`` and ``places(k)[t]`` are the amounts of key k on target t."""

    def __init__(self, loads: Loads, routing: Routing) -> None:
        self.loads = loads
        self.routing = routing
        self.key_load: list[float] = loads.load.tolist()
        self.load: list[float] = routing.target_load(loads).tolist()
        self.amount = loads.load[routing.key] * routing.share
        order = np.argsort(routing.target, kind="stable")
        bounds = np.searchsorted(routing.target[order], np.arange(routing.n_targets + 1))
        keys = routing.key[order].tolist()
        amounts = self.amount[order].tolist()
        self.on: list[dict[int, float]] = [
            dict(zip(keys[a:b], amounts[a:b], strict=True))
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
        self._touched: dict[int, dict[int, float]] = {}
        self._start: list[int] = routing.start.tolist()
        self._target: list[int] = routing.target.tolist()
        self._amount: list[float] = self.amount.tolist()

    def _initial(self, key: int) -> dict[int, float]:
        a, b = self._start[key], self._start[key + 1]
        return dict(zip(self._target[a:b], self._amount[a:b], strict=True))

    def places(self, key: int) -> dict[int, float]:
        """{target: amount} of a key now; do not write to it."""
        found = self._touched.get(key)
        return self._initial(key) if found is None else found

    def holds(self, key: int, target: int) -> bool:
        """Whether target holds any of key now."""
        return key in self.on[target]

    def take(self, key: int, target: int, amount: float) -> float:
        """Take up to ``amount`` of key off target; returns what was taken (dust goes along)."""
        here = self.on[target][key]
        if here - amount <= DUST * self.key_load[key]:
            amount = here
        self._change(key, target, -amount)
        return amount

    def put(self, key: int, target: int, amount: float) -> None:
        """Put ``amount`` of key on target."""
        self._change(key, target, amount)

    def _change(self, key: int, target: int, amount: float) -> None:
        places = self._touched.get(key)
        if places is None:
            places = self._touched[key] = self._initial(key)
        now = places.get(target, 0.0) + amount
        if amount < 0 and now <= DUST * self.key_load[key]:
            places.pop(target, None)
            self.on[target].pop(key, None)
        else:
            places[target] = now
            self.on[target][key] = now
        self.load[target] += amount

    def finish(self, partitioner: str, tolerance: float, why: str) -> MovePlan:
        """Net moves per key, new routing, verdict. Removed targets end empty."""
        self._evacuate_leftovers()
        moves: list[Move] = []
        rows: list[tuple[int, int, float]] = []
        for key in sorted(self._touched):
            after = self._touched[key]
            moves += net_moves(key, self._initial(key), after, self.key_load[key])
            total = sum(after.values())
            rows += [
                (key, t, after[t] / total if total > 0 else 1.0 / len(after)) for t in sorted(after)
            ]
        routing = replace_rows(self.routing, set(self._touched), rows)
        feasible, reason = verdict(self.loads, routing, tolerance, why)
        return MovePlan(partitioner, tuple(moves), splits_of(routing), routing, feasible, reason)

    def _evacuate_leftovers(self) -> None:
        """[E] what a partitioner leaves on a removed target: keys without load, and rounding noise.

        Both still have state. They join the key's largest other holder, else go home, else to the
        least loaded target.
        """
        active = self.routing.active.tolist()
        alive = [t for t, a in enumerate(active) if a]
        for t in [t for t, a in enumerate(active) if not a]:
            for key, amount in list(self.on[t].items()):
                places = dict(self.places(key))
                del places[t], self.on[t][key]
                others = [x for x in places if active[x]]
                home = int(self.routing.home[key])
                if others:
                    goal = max(others, key=places.__getitem__)
                else:
                    goal = home if active[home] else min(alive, key=self.load.__getitem__)
                places[goal] = self.on[goal][key] = places.get(goal, 0.0) + amount
                self.load[t] -= amount
                self.load[goal] += amount
                self._touched[key] = places


def net_moves(
    key: int, before: dict[int, float], after: dict[int, float], key_load: float
) -> list[Move]:
    """Pair surplus with deficit, both by target id; amounts in load units."""
    eps = DUST * key_load
    give = [(t, a - after.get(t, 0.0)) for t, a in sorted(before.items())]
    want = [(t, a - before.get(t, 0.0)) for t, a in sorted(after.items())]
    if key_load == 0.0:
        gone = [t for t in before if t not in after]
        new = [t for t in after if t not in before] or list(after)
        return [Move(KeyIndex(key), 0.0, TargetId(s), TargetId(new[0])) for s in gone]
    surplus = [[t, x] for t, x in give if x > eps]
    deficit = [[t, x] for t, x in want if x > eps]
    moves: list[Move] = []
    i = j = 0
    while i < len(surplus) and j < len(deficit):
        x = min(surplus[i][1], deficit[j][1])
        moves.append(
            Move(KeyIndex(key), x, TargetId(int(surplus[i][0])), TargetId(int(deficit[j][0])))
        )
        surplus[i][1] -= x
        deficit[j][1] -= x
        i += surplus[i][1] <= eps
        j += deficit[j][1] <= eps
    return moves


def replace_rows(routing: Routing, keys: set[int], rows: list[tuple[int, int, float]]) -> Routing:
    """Routing with all fragments of ``keys`` replaced by (key, target, share) ``rows``."""
    if not keys:
        return routing
    gone = np.zeros(routing.home.size, dtype=bool)
    gone[list(keys)] = True
    stay = ~gone[routing.key]
    key = np.concatenate([routing.key[stay], np.array([r[0] for r in rows], dtype=np.int64)])
    target = np.concatenate([routing.target[stay], np.array([r[1] for r in rows], dtype=np.int64)])
    share = np.concatenate([routing.share[stay], np.array([r[2] for r in rows], dtype=np.float64)])
    order = np.lexsort((target, key))
    return Routing(routing.home, key[order], target[order], share[order], routing.active)


def whole_key_plan(
    partitioner: str, loads: Loads, routing: Routing, goal: list[int], tolerance: float, why: str
) -> MovePlan:
    """Plan that puts every key whole on ``goal[key]`` (K entries)."""
    where = np.asarray(goal, dtype=np.int64)
    single = np.diff(routing.start) == 1
    same = single & (routing.target[routing.start[:-1]] == where)
    moves: list[Move] = []
    for key in np.flatnonzero(~same).tolist():
        for t, q in routing.places(key).items():
            if t != where[key]:
                moves.append(
                    Move(KeyIndex(key), float(loads.load[key] * q), t, TargetId(int(where[key])))
                )
    after = Routing(routing.home, np.arange(where.size), where, np.ones(where.size), routing.active)
    feasible, reason = verdict(loads, after, tolerance, why)
    return MovePlan(partitioner, tuple(moves), (), after, feasible, reason)
