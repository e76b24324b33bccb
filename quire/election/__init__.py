"""Leader election over the metadata store."""

from quire.election.election import Election, Leader, Leadership

__all__ = ["Election", "Leader", "Leadership"]
