"""Leader election over the metadata store.

Read `ballot.py` (pure: which candidate leads, and what to watch), then `election.py`, which stands,
waits and resigns.

May import: quire.metastore, quire.aio, values. Never: quire.log, which fences by itself.
"""

from quire.election.election import Election, Leader, Leadership

__all__ = ["Election", "Leader", "Leadership"]
