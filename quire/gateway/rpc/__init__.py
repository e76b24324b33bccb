"""A gateway's logs over gRPC: `logs.proto` is what clients generate their code from.

Read `logs.proto`, `statuses.py` (how an error becomes a status; pure), `records.py` (messages and
records; pure), `appending.py` (a stream of appends), `service.py` (the calls), `port.py` (the
server).

May import: the gateway, `quire.wire`. Every message is taken only after its caller is known.
"""
