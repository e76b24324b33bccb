"""Blocks around blocking handles end as those around their asynchronous twins do."""

from __future__ import annotations

from typing import Any

import pytest

from quire.aio.handle import Handle
from quire.errors import HandleClosedError
from quire.ledger.numbered import NumberedWriter
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.log.leader.log import Log
from quire.log.reading.reader import LogReader
from quire.sync import (
    SyncLedgerReader,
    SyncLedgerWriter,
    SyncLog,
    SyncLogReader,
    SyncNumberedWriter,
)
from quire.sync.handle import SyncHandle

TWINS: dict[type[SyncHandle], Any] = {
    SyncLedgerReader: LedgerReader,
    SyncLedgerWriter: LedgerWriter,
    SyncLog: Log,
    SyncLogReader: LogReader,
    SyncNumberedWriter: NumberedWriter,
}


class Stubborn(SyncHandle):
    """One that cannot be closed."""

    def close(self) -> None:
        raise HandleClosedError("stubborn")


def test_an_error_of_the_block_is_not_replaced_by_one_of_closing() -> None:
    with pytest.raises(KeyError), Stubborn():
        raise KeyError
    with pytest.raises(HandleClosedError), Stubborn():
        pass


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: str(twin.__name__))
def test_every_handle_ends_its_block_by_the_same_law(twin: type[SyncHandle]) -> None:
    assert twin.__exit__ is SyncHandle.__exit__
    assert TWINS[twin].__aexit__ is Handle.__aexit__
