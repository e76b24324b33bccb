"""A deposed leader that sees nothing of the metadata store, after its ledger was dropped (B11)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import OutcomeUnknownError
from quire.log.records.position import Position
from tests.support.log_cluster import NAME, Client, LogCluster, refuse, run


async def _silence(*_: object) -> None:
    """A store that tells nothing any more."""
    await asyncio.Event().wait()


async def _trim(client: Client) -> None:
    log = await client.open()
    await log.append(b"of the next leader")
    await log.trim(Position(2, 0, 0))
    await log.close()


async def _delete(client: Client) -> None:
    await client.logs.delete(NAME)


@pytest.mark.parametrize("end", [_trim, _delete])
@pytest.mark.parametrize("count", [1, 100])
def test_a_leader_in_exile_gets_nothing_acknowledged_when_its_segment_was_collected(
    end: object, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            exile = cluster.new_client()
            monkeypatch.setattr(exile.store, "wait", _silence)
            log = await exile.open(batch_records=1)
            await log.append(b"before the exile")
            ledger = (await exile.manifest()).segments[0].ledger
            exile.store.before = refuse()
            await end(cluster.new_client())  # type: ignore[operator]
            assert ledger not in await cluster.ledgers()
            for bookie in cluster.bookies.values():
                bookie.retire(ledger)
            appends = [await log.submit(b"after it %d" % number) for number in range(count)]
            for append in appends:
                with pytest.raises(OutcomeUnknownError):
                    await append
            assert not any(cluster.holders(ledger, entry) for entry in range(count + 1))
            log.abandon()

    run(main)
