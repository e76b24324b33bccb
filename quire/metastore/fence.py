"""The fence of a change of the metadata store, such as a leadership that must not be over.

A process that believes in its office may be paused between a look at it and the change after the
look. So the look is a part of the change: one transaction makes both, or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quire.metastore.changes import Change


class Fence(Protocol):
    """A condition of changes, told by a record that is replaced when the condition ends."""

    async def _fence(self) -> Sequence[Change]:
        """Return changes that change nothing. A transaction with them fails with `ConflictError`
        once the condition has ended. Ask again for each transaction.

        Raises the error that names the end if it is known, and the store's errors.
        """
        ...
