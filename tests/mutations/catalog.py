"""All edits. `make mutations` makes them one by one."""

from __future__ import annotations

from typing import Final

from tests.mutations import clients, formats, healing, storage
from tests.mutations.edit import Edit

EDITS: Final[tuple[Edit, ...]] = (
    *storage.EDITS,
    *clients.EDITS,
    *formats.EDITS,
    *healing.EDITS,
)
