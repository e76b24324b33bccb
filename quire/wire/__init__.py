"""Bookies over gRPC: the messages, errors and options that both ends share (docs/protocol.md).

Read `bookie.proto` (the service), `codec.py` (values and messages), `transport.py` (options of both
ends), `adds.py` and `reads.py` with `varint.py` (messages that carry runs, assembled by hand),
`framed.py` and `run_calls.py` (plain frames: runs, subscriptions with `news.py`, and reads with
`framed_reads.py`),
`peer_sockets.py` (the end of a connection), `exposure.py` (ports without TLS).

For TLS read `identity.py` (names of peers), `certificates.py` (the files), `tls.py`
(TLS without I/O) and `tls_layer.py` (in a connection), `grpc_tls.py` and `channel.py` (of gRPC),
`issuing.py` (certificates of one's own).

May import: values. It knows no client and no storage.
"""

import os

# The C core writes a line to stderr for every connection lost; callers get an error instead. It
# looks at this once, when grpc is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# Its fork handlers, which are on by default, kill many a process that is forked while a call is
# under way (with a `preexec_fn`, as PySpark starts its JVM): without a word, before it has begun.
# No connection of quire's is meant to live on in a child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
