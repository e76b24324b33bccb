"""Kafka's protocol in front of logs: a log is a topic with one partition, an offset is an offset.

Read `messages.py` (bytes to requests and answers to bytes), `records.py` (batches of records),
`errors.py` (how an error becomes a code), `nodes.py` (the gateways as brokers), `broker.py` (what
requests share), then `topics.py`, `offsets.py` (the ends of topics, times, trimming), `configs.py`
(options), `producing.py`, `served.py` (where records are; pure), `fetching.py`, `groups.py`
(members of consumer groups; pure), `commits.py` (commits that are written together),
`coordinating.py` (groups and their cursors), `describing.py` (groups as operators see them),
`connection.py` (one connection), `server.py` (the table of requests, and the port).

May import: the gateway, quire.client and its values. Never: storage.
"""
