"""Cost models: pure functions of numbers and numpy arrays, no clock, no I/O."""
