"""A bookie of quire that speaks Apache BookKeeper's protocols, for its Java clients.

Read `request.py` (requests and replies), `codec3.py`, `codec2.py` and `codec.py` (as bytes).

May import: what quire.bookkeeper may.
"""
