"""The contents of a log's entries: batches of records, their places, numbers and encryption. Pure.

Read `position.py` (where a record is), `batch.py` (bytes of a batch), `producers.py` (numbers that
make appends idempotent), `txids.py`, `attributes.py` (keys, headers, event times) with
`attribute_json.py` and `arrow_rows.py`, `encryption.py` with `keyring.py`.

May import: values and ports, the ledger's values. Imported by every other room of the log.
"""
