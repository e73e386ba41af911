"""Control from another process or machine: the service beside the driver, and its clients."""

import os

# Before gRPC is imported: a client that goes is no news for its log.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# A process that forks here does so to execute something else (a Spark session its JVM): gRPC has
# nothing to keep alive in it, and its handlers, on their way, have kept it from starting.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
