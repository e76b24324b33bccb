"""A bookie of quire that speaks Apache BookKeeper's protocols, for its Java clients.

Read `request.py` (requests and replies), `codec3.py`, `codec2.py` and `codec.py` (as bytes),
`answers.py`, `client_stream.py` and `port.py` (the port), `system.py` (ids, registration and the
proof of deletions in that system's metadata).

May import: what quire.bookkeeper may, quire.storage, quire.wire, quire.rights.
"""
