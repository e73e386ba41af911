"""What a change of placement moves (Elasticutor, 2019, 4.4), and data intensity (there, 1).

X is an (m, n) integer array: ``placement[j, i]`` cores of partition j on node i. State is taken as
spread evenly over a partition's cores [S].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray, vector


def migration_bytes(before: ArrayLike, after: ArrayLike, state_bytes: ArrayLike) -> float:
    """C(X | X~): bytes of state that leave a node when ``before`` becomes ``after``.

    C = sum_j sum_i max(0, s_j * x~_ij/X~_j - s_j * x_ij/X_j). The max(0, .) form is reconstructed
    [R]; for one added or removed core it gives the paper's closed forms C+ and C- [S].

    Args:
        before, after: X~ and X, integers >= 0, shape (m, n), every row with at least one core.
        state_bytes: s_j, shape (m,), >= 0.

    >>> migration_bytes([[2, 0]], [[2, 2]], [1000])  # from one node to two: half of the state
    500.0
    """
    old, new = placement_array("before", before), placement_array("after", after)
    if old.shape != new.shape:
        raise InputError("after", new.shape, f"the shape of before, {old.shape}", "Align nodes.")
    size = vector("state_bytes", state_bytes, low=0, size=old.shape[0], unit="bytes")
    held, target = old.sum(axis=1), new.sum(axis=1)
    for name, total in (("before", held), ("after", target)):
        if (total < 1).any():
            where = int(np.argmin(total))
            raise InputError(f"{name}[{where}]", 0, "at least one core", "Keep the last core.")
    leaving = np.maximum(0.0, old / held[:, None] - new / target[:, None])
    return float((leaving * size[:, None]).sum())


def cost_to_add(placement: ArrayLike, state_bytes: ArrayLike) -> FloatArray:
    """C+_ij(X) = s_j (X_j - x_ij) / (X_j (X_j + 1)), bytes, shape (m, n) [S].

    A partition without cores costs 0: there is no state elsewhere yet [D].
    """
    held = placement_array("placement", placement)
    size = vector("state_bytes", state_bytes, low=0, size=held.shape[0], unit="bytes")
    total = held.sum(axis=1)
    scale = np.zeros(len(held))
    np.divide(size, total * (total + 1), out=scale, where=total > 0)
    return np.asarray(scale[:, None] * (total[:, None] - held))


def cost_to_take(placement: ArrayLike, state_bytes: ArrayLike) -> FloatArray:
    """C-_ij(X) = s_j (X_j - x_ij) / (X_j (X_j - 1)), bytes, shape (m, n) [S].

    +inf where there is no core to take, and for a partition's last core, which is never taken [D].
    """
    held = placement_array("placement", placement)
    size = vector("state_bytes", state_bytes, low=0, size=held.shape[0], unit="bytes")
    total = held.sum(axis=1)
    scale = np.full(len(held), np.inf)
    np.divide(size, total * (total - 1), out=scale, where=total > 1)
    with np.errstate(invalid="ignore"):
        cost = scale[:, None] * (total[:, None] - held)
    return np.where((held > 0) & (total[:, None] > 1), cost, np.inf)


def data_intensity(
    input_bytes_per_s: ArrayLike, output_bytes_per_s: ArrayLike, cores: ArrayLike
) -> FloatArray:
    """d_j = (bytes in + bytes out per second) / cores, bytes/s per core, shape (m,) [S].

    The source does not say whether ``cores`` are the current or the target ones; the authors'
    prototype takes the current ones [XP].
    """
    inward = vector("input_bytes_per_s", input_bytes_per_s, low=0, unit="bytes/s")
    outward = vector("output_bytes_per_s", output_bytes_per_s, low=0, size=inward.size)
    count = vector("cores", cores, low=1, size=inward.size, unit="cores")
    return (inward + outward) / count


def placement_array(name: str, placement: ArrayLike) -> IntArray:
    """``placement`` as int64 (m, n); raises `InputError` for negatives, fractions, other shapes."""
    held = np.asarray(placement)
    if held.ndim != 2 or not np.issubdtype(held.dtype, np.integer):
        raise InputError(
            name, f"{held.dtype} {held.shape}", "integers, shape (partitions, nodes)", "Reshape it."
        )
    if (held < 0).any():
        raise InputError(name, int(held.min()), "counts >= 0", "Correct the counts.")
    return held.astype(np.int64)
