"""The same work on several systems: recorded rows, who works on them, one measuring code."""
