"""One file per policy, and what several of them need; :mod:`laneshift.policies.registry` finds them
by name.

``docs/papers.md`` has the papers that they are from, by short title and year, and the marks.
"""
