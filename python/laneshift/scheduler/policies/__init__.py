"""One file per policy; find them by name with :mod:`laneshift.scheduler.registry`.

``docs/papers.md`` has the papers that they are from, by short title and year, and the marks.
"""
