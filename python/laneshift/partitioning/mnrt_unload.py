"""MNRT's UNLOADSELECT: what leaves an overloaded target (Data Distribution, 2017, Algorithm 4)."""

from __future__ import annotations

from bisect import bisect_right

from laneshift.partitioning.holdings import Holdings

#: Unload ranks of the classes (merge|unchanged) x (back|across); everything else goes by MC/L.
MERGE_BACK, MERGE_ACROSS, WHOLE_BACK, WHOLE_ACROSS, BY_STATE, GIANT = range(1, 7)


def unload_rank(key: int, d: int, home: int, low: set[int], places: dict[int, float]) -> int:
    """Best class of moving all of the key's part on d to some under-loaded target."""
    if home == d:
        return BY_STATE
    home_low = home in low
    if home_low and home in places:
        return MERGE_BACK
    if any(t != d and t != home and t in low for t in places):
        return MERGE_ACROSS
    if home_low:
        return WHOLE_BACK
    if any(t != home and t not in places for t in low):
        return WHOLE_ACROSS
    return BY_STATE


def pick_keys(
    state: Holdings,
    d: int,
    excess: float,
    low: set[int],
    home: list[int],
    mc: list[float],
    eps: float,
    giant: float,
    fits_first: bool,
) -> list[tuple[int, float]]:
    """(key, amount) in order; the last one may be a part of its key. Amounts sum to ``excess``.

    ``giant``: keys with more load than this on d leave last. ``mc``: MC(k)/L(k) per key.
    """
    classes: dict[tuple[int, float], list[tuple[float, int]]] = {}
    for key, amount in state.on[d].items():
        if amount <= 0.0:
            continue
        if amount > giant:
            group = (GIANT, 0.0)
        elif home[key] == d:
            group = (BY_STATE, mc[key])
        else:
            rank = unload_rank(key, d, home[key], low, state.places(key))
            group = (rank, mc[key] if rank == BY_STATE else 0.0)
        classes.setdefault(group, []).append((amount, -key))
    picks: list[tuple[int, float]] = []
    for group in sorted(classes):
        keys = sorted(classes[group])
        while keys and excess > eps:
            fit = bisect_right(keys, (excess + eps, 0)) - 1
            if not fits_first and keys[-1][0] > excess:
                fit = -1  # the largest key is cut
            if fit >= 0:
                amount, minus_key = keys.pop(fit)
            else:
                amount, minus_key = _cut_candidate(keys, fits_first)
                amount, keys = excess, []
            picks.append((-minus_key, min(amount, excess + eps)))
            excess -= amount
        if excess <= eps:
            break
    return picks


def _cut_candidate(keys: list[tuple[float, int]], smallest: bool) -> tuple[float, int]:
    """Smallest (or largest) key; among equals the lowest id."""
    wanted = keys[0][0] if smallest else keys[-1][0]
    return max((k for k in keys if k[0] == wanted), key=lambda k: k[1])
