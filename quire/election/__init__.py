"""Leader election over the metadata store.

Read `ballot.py` (pure: which candidate leads, and what to watch), `leadership.py`
(a time in office and its fence), then `election.py`, which stands, waits and resigns.

May import: quire.metastore, quire.aio, values. Never: quire.log, which fences by itself.
"""

from quire.election.election import Election, Leader
from quire.election.leadership import Leadership

__all__ = ["Election", "Leader", "Leadership"]
