"""Key groups: the fixed slices of the key space by which state is stored and rescaled.

Equal to Flink's, vector by vector (``python/tests/benchmarks/keygroups``):

>>> from keygroups import key_group, rescale_plan
>>> key_group("hello", 128)
35
>>> [(r.new, r.old, r.groups.start, r.groups.end) for r in rescale_plan(10, 3, 4).reads]
[(0, 0, 0, 2), (1, 0, 3, 3), (1, 1, 4, 4), (2, 1, 5, 6), (2, 2, 7, 7), (3, 2, 8, 9)]
"""

from keygroups.hashing import java_hash_code, key_group, key_groups, murmur
from keygroups.ranges import (
    KeyGroupRange,
    default_max_parallelism,
    key_group_range,
    key_group_ranges,
    owner,
    prefix_bytes,
)
from keygroups.rescale import Read, RescalePlan, rescale_plan, restore, shards_of_executor

__all__ = [
    "KeyGroupRange",
    "Read",
    "RescalePlan",
    "default_max_parallelism",
    "java_hash_code",
    "key_group",
    "key_group_range",
    "key_group_ranges",
    "key_groups",
    "murmur",
    "owner",
    "prefix_bytes",
    "rescale_plan",
    "restore",
    "shards_of_executor",
]
