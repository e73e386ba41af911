"""MNRT's LOADINGSELECT: the best (piece, target) pair (Data Distribution, 2017, Algorithm 4)."""

from __future__ import annotations

from heapq import heappop, heappush

from laneshift.partitioning.holdings import Holdings

#: Load rank of (effect on the key, direction); effect 1 merge, 2 unchanged, 3 split;
#: direction 1 back, 2 across, 3 out. (1,3) comes from the option merge_out_rank.
RANK = {
    (1, 1): 1.0, (1, 2): 2.0, (2, 1): 3.0, (2, 2): 4.0,
    (2, 3): 5.0, (3, 1): 6.0, (3, 2): 7.0, (3, 3): 8.0,
}  # fmt: skip
Piece = tuple[int, float, int]


class Pool:
    """Pieces (key, amount, origin) waiting for a target; a lazy heap by (rank, -amount, id)."""

    def __init__(
        self, state: Holdings, home: list[int], low: set[int], merge_out_rank: float
    ) -> None:
        self._state = state
        self._home = home
        self._low = low
        self._rank = {**RANK, (1, 3): merge_out_rank}
        self._pieces: dict[int, Piece] = {}
        self._of_key: dict[int, set[int]] = {}
        self._heap: list[tuple[float, float, int]] = []
        self._next = 0

    def add(self, key: int, amount: float, origin: int) -> None:
        """Add a piece; its rank is found when it comes up."""
        piece, self._next = self._next, self._next + 1
        self._pieces[piece] = (key, amount, origin)
        self._of_key.setdefault(key, set()).add(piece)
        heappush(self._heap, (0.0, -amount, piece))

    def remove(self, piece: int) -> Piece:
        """Take a piece out."""
        found = self._pieces.pop(piece)
        self._of_key[found[0]].discard(piece)
        return found

    def holders_changed(self, key: int) -> None:
        """Another target holds the key now: its waiting pieces may have a better place."""
        for piece in self._of_key.get(key, ()):
            heappush(self._heap, (0.0, -self._pieces[piece][1], piece))

    def best(self) -> tuple[int, int | None] | None:
        """(piece id, target), target None if nobody is under-loaded; None if the pool is empty.

        Order: rank, larger piece, lower piece id; then the less loaded target, lower target id.
        """
        heap = self._heap
        while heap:
            rank, minus_amount, piece = heap[0]
            if piece not in self._pieces:
                heappop(heap)
                continue
            now, target = self._best_target(*self._pieces[piece])
            if now == rank:
                heappop(heap)
                return piece, target
            heappop(heap)
            heappush(heap, (now, minus_amount, piece))
        return None

    def _best_target(self, key: int, amount: float, origin: int) -> tuple[float, int | None]:
        """Lowest (rank, load, id) over the under-loaded targets."""
        low, load = self._low, self._state.load
        if not low:
            return 99.0, None
        places, home = self._state.places(key), self._home[key]
        origin_keeps = origin in places
        options = [t for t in places if t in low]
        if home in low and home not in places:
            options.append(home)
        fresh = [(load[t], t) for t in low if t != home and t not in places]
        if fresh:
            options.append(min(fresh)[1])
        best: tuple[float, float, int] | None = None
        for t in options:
            effect = 2 + origin_keeps - (t in places)
            direction = 1 if t == home else 3 if origin == home else 2
            cell = (self._rank[effect, direction], load[t], t)
            if best is None or cell < best:
                best = cell
        assert best is not None  # low is not empty, so one of the three lists had an entry
        return best[0], best[2]
