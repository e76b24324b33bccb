"""The Durable Streams protocol: a log as a stream of bytes or JSON values at a URL.

Read in this order:
  * state.py: the state of a stream, in a header of its log's records; pure.
  * asking.py: headers and queries of requests; pure.
  * bodies.py: bodies and records; pure.
  * numbers.py: epochs and sequences of producers as numbers of the log; pure.
  * streams.py: finding, creating, appending, and reading.
  * live.py: reads that wait.
  * calls.py: the calls over HTTP.

May import the gateway's limits, quotas and owners, and the client; nothing imports this package but
the table of calls. Decision 56 tells why a stream is a log, and names the refusals.
"""
