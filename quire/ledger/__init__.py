"""One ledger, seen by its clients: write it, read it, recover it. Bookies are reached by a port.

Pure: `quorum.py` (write sets and quorums), `metadata.py` with `ranges.py` (the record), `info.py`
(what applications see of it), `domains.py`, `arrangement.py`, `placement.py` (which bookies),
`window.py` (which entries are confirmed), `read_plan.py`, `recovery_plan.py`, `verify.py` (bytes of
a bookie), `options.py`.
Writing: `writer.py`, `append_steps.py`, `pending_appends.py`, `backlog.py`, `ensemble.py`,
`replica_sender.py`, `sender_calls.py`, `ensemble_change.py`, `explicit_lac.py`, `forcing.py`,
`closing.py`, `numbered.py`, `ledger_record.py`.
Reading: `reader.py`, `known.py`, `fetch.py`, `read_ahead.py`, `pushed_read.py`; followers:
`following.py`, `tail.py`, `recent.py` and `pushed.py` (pure), `end_watch.py`, the port
`subscription.py`. Recovery: `recovery.py`, `read_lac.py`, `write_back.py`,
`replicate_fragments.py`. All of them ask by `quorum_call.py`.
Records: the port `records.py`, quire's own in `stored_records.py` with `ids.py`, `new_record.py`,
and `versioned.py`.
Around them: `catalog.py`, `inventory.py`, `outlines.py`, `screening.py`, `observed_store.py`, and
the way to a bookie: `roster.py`, `links.py`, `read_keys.py`, `remote.py`, `run_stream.py` with
its `run_account.py` and the port `run_link.py` before it, `news_link.py` (subscriptions),
`read_link.py` (reads), `freshness.py` (certificates).

May import: quire.aio, quire.metastore, values. Never: quire.storage, quire.log.
"""
