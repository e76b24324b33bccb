"""Bookies over gRPC: the messages, errors and options that both ends share (docs/protocol.md)."""

import os

# The C core writes a line to stderr for every connection lost; callers get an error instead. It
# looks at this once, when grpc is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
