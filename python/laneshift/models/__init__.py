"""Cost models: pure functions of numbers and numpy arrays, no clock, no I/O.

``docs/papers.md`` has the papers that they are from, by short title and year, and the marks.
"""
