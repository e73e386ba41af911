"""Control from another process or machine: the service beside the driver, and its clients."""

import os

# Before gRPC is imported: a client that goes is no news for its log.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
