"""Where requests arrive: gRPC, plain frames, limits, figures.

Read `grpc_service.py`, `connection_port.py` and `run_listener.py` (plain frames),
`add_stream.py` (the stream of both) and `stream_account.py` (its steps that wait for nothing),
`subscriptions.py` and `news_counts.py` (news for followers), `read_stream.py` (reads),
`limits.py`, `quota.py`, `seats.py`, `held_bytes.py`, `large_messages.py`, `message_turns.py`,
`handing_over.py`, `idlers.py` and `refusals.py` (the cost of a peer), `forwarding.py` (a bookie
before another), the ports `run_taker.py` with `offered_run.py` (runs taken in one step) and
`change_waiter.py` (waiting without an entry), `births.py` (no ledger before its id), `obedient.py`
and `presence.py` (an operator's wish), `store_exposure.py` (a metadata store open to all),
`uses.py` (the users of ledgers), `metered.py` and `metrics.py` (figures for Prometheus),
`vitals.py` (alive and ready).

May import: disk, the wire; presence.py also identity, and with store_exposure.py the metadata
store.
"""
