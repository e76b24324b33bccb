"""A gateway: logs over HTTP, gRPC and to Kafka's clients, for programs in any language.

    POST /v1/logs/orders/records      append
    GET  /v1/logs/orders/records      read, wait for more, or stream

A gateway is a process over the client library and keeps nothing. A log is written by one gateway at
a time, the winner of the log's election; another one sends the client there. Safety is the log's
own: a gateway that was replaced has its writes refused.

Read `bodies.py` (what requests say, and how records are written; pure), `answers.py` (how an error
becomes an answer; pure), `limits.py` (how much may be under way; pure), `owners.py` (the logs that
this gateway writes), `space.py` (bytes of clients), `reads.py`, `app.py` (the routes),
`server.py` (the process). The room `kafka` answers Kafka's clients, `rpc` gRPC's.

May import: quire.client, quire.connection and what they give out. Never: storage.
"""
