"""A bounded buffer in front of identical units, window by window (CRAA, 2018; OERA, 2023).

Speaking names for the papers' Greek letters, which clash: ``occ_high`` is CRAA's beta and OERA's
alpha, ``occ_low`` CRAA's gamma and OERA's beta, ``occ_target`` CRAA's delta and OERA's upsilon.
Levels are rows, rates are rows/s, windows are seconds; occupancy is level / capacity.
"""

from __future__ import annotations

import math

from laneshift.inputcheck import choice

ROUNDINGS = ("truncate", "floor")
_NEAR = 1e-9


def transfer(
    selectivity: float, capacity_rate: float, arrival_rate: float, backlog: float, window_s: float
) -> float:
    """Mean output rate of a window, CRAA (2): CR * min(e*P, I + BO(n-1)/dt) [R].

    Args:
        selectivity: CR, rows out per row processed.
        capacity_rate: e*P(n), rows/s that the units process at most.
        arrival_rate: I(n), rows/s.
        backlog: BO(n-1), rows at the start of the window; the printed BO(n) does not conserve rows.
        window_s: dt.
    """
    return selectivity * min(capacity_rate, arrival_rate + backlog / window_s)


def raw_level(level: float, arrival_rate: float, capacity_rate: float, window_s: float) -> float:
    """Level at the end of a window before clipping, CRAA (9), OERA (1) [P].

    Negative means spare capacity, above the buffer's capacity means rows lost: triggers and sizing
    need the unclipped value [R].

    >>> raw_level(100, arrival_rate=900, capacity_rate=1000, window_s=5)
    -400
    """
    return level + (arrival_rate - capacity_rate) * window_s


def rate_change(raw: float, capacity: float, occ_target: float, window_s: float) -> float:
    """CP: change of the processing rate that ends the window at ``occ_target``, CRAA (10) [P]."""
    return (raw - capacity * occ_target) / window_s


def unit_change(change: float, unit_rate: float, rounding: str = "truncate") -> int:
    """CPN: whole units for a rate change, CRAA (11).

    Growth is rounded up [P]. Shrinking is truncated toward zero [R]; ``floor`` is the printed form,
    which removes up to one unit too many (our correction).

    >>> unit_change(250, unit_rate=100), unit_change(-250, unit_rate=100)
    (3, -2)
    """
    choice("rounding", rounding, ROUNDINGS)
    units = change / unit_rate
    # A quotient that is whole but for rounding must not cost a unit.
    near = round(units)
    if abs(units - near) <= _NEAR * max(1.0, abs(units)):
        return near
    return math.ceil(units) if units > 0 or rounding == "truncate" else math.floor(units)


def units_for_target(
    arrival_rate: float,
    level: float,
    capacity: float,
    occ_target: float,
    unit_rate: float,
    window_s: float,
    rounding: str = "ceil",
) -> int:
    """N: units with which the window ends at ``occ_target``, OERA (2), at least 1.

    D = I*dt + level - capacity*occ_target; N = ceil(D / (P_E*dt)), 1 if D <= 0. The ceiling marks
    are lost in the text [R]; ``floor`` is there to show what it costs.
    """
    choice("rounding", rounding, ("ceil", "floor"))
    amount = arrival_rate * window_s + level - capacity * occ_target
    if amount <= 0:
        return 1
    units = amount / (unit_rate * window_s)
    near = round(units)
    if abs(units - near) <= _NEAR * max(1.0, units):
        return max(1, near)
    return max(1, math.ceil(units) if rounding == "ceil" else math.floor(units))


def units_to_keep_up(arrival_rate: float, unit_rate: float) -> int:
    """ceil(I / P_E), at least 1: the fewest units that do not fall behind."""
    return max(1, math.ceil(arrival_rate / unit_rate * (1.0 - _NEAR)))


def input_for_target(
    capacity_rate: float, level: float, capacity: float, occ_target: float, window_s: float
) -> float:
    """UI: input rate of the next window that ends it at ``occ_target``, CRAA (5) [R].

    The printed form lacks the division by dt and gives rows, not rows/s.
    """
    return capacity_rate + (capacity * occ_target - level) / window_s


def throttle_room(
    raw: float,
    capacity: float,
    occ_ceiling: float,
    next_surplus_rate: float,
    capacity_rate: float,
    window_s: float,
) -> float:
    """d: most that an upstream can cut its own rate in a window, CRAA (6), (7) [R].

    Args:
        raw: its unclipped level at the end of that window without the cut, rows.
        capacity: its buffer, rows.
        occ_ceiling: tau, occupancy it may reach in that window.
        next_surplus_rate: I - P of the window after, rows/s; it must not overflow then.
        capacity_rate: e*P, rows/s: more than all cannot be cut.
        window_s: dt.
    """
    now = (capacity * occ_ceiling - raw) / window_s
    after = (capacity - raw) / window_s - next_surplus_rate
    return max(0.0, min(now, after, capacity_rate))


def trend_verdict(
    direction: int,
    rate_next: float,
    rate_after: float,
    raw_next: float,
    capacity: float,
    tolerance: float = 0.0,
) -> bool:
    """Whether to carry out an adjustment, CRAA (12), (13) [P]: CJ == 1.

    Go with the trend. Against it, scale out only if the buffer would overflow in the next window,
    and never scale in.

    Args:
        direction: +1 to scale out, -1 to scale in.
        rate_next, rate_after: I(n+1), I(n+2), rows/s.
        raw_next: unclipped level at the end of n+1, rows.
        capacity: rows.
        tolerance: eps; rates within this share of each other count as flat, and flat agrees.
    """
    if direction > 0:
        falling = rate_after < rate_next * (1.0 - tolerance)
        return not falling or raw_next >= capacity
    return rate_after <= rate_next * (1.0 + tolerance)


def feedback_choice(offers: dict[int, float], need: float) -> list[int]:
    """Which upstreams are asked to cut, CRAA Algorithm 1 (FAA): the fewest, largest offer first.

    Nobody if nothing is needed or if all offers together do not suffice. The printed loop takes
    every candidate; prose and complexity demand this prefix [R]. Ties: lowest key.
    """
    if need <= 0 or need > sum(offers.values()) + _NEAR * abs(need):
        return []
    chosen: list[int] = []
    got = 0.0
    for key in sorted(offers, key=lambda k: (-offers[k], k)):
        if got >= need:
            break
        chosen.append(key)
        got += offers[key]
    return chosen
