"""One file per policy; find them by name with :mod:`laneshift.scheduler.registry`."""
