"""What both ends of the control service agree on beside ``control.proto``."""

from __future__ import annotations

REVISION = 5
"""Of ``control.proto``: rises when a call or a field is added that its caller relies on.

Not for what either side does as well without.
"""

DOMAIN = "laneshift"
"""Of the error details that carry our conditions."""

TOKEN_KEY, SCHEME = "authorization", "Bearer "
"""Metadata with the token."""

MOST_REPLY_BYTES = 64 << 20
"""Of a reply: 100,000 handoffs are 9 MB, 200 partitions in a snapshot 0.2 MB (ours)."""

SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Between two snapshots of a watcher, and between two turns of a policy."""
