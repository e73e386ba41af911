"""The report of a finished run: pictures and decisions of a recorded trace."""
