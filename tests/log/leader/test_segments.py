"""A ledger made ahead, once a manifest may list it: the chain's own steps, without a log around."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import DeposedError, InvalidRequestError, QuireError
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position
from quire.log.segment_store.ledgers import LedgerSink
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import NAME, PATH, LogCluster, eventually, lose_answer, refuse, run
from tests.support.memory_cluster import hung


@pytest.mark.parametrize("why", ["its bookie went away", "another key is current"])
@pytest.mark.parametrize("is_made", [True, False], ids=["installed", "not installed"])
def test_a_spare_that_was_offered_is_kept_until_the_manifest_is_known(
    why: str, is_made: bool
) -> None:
    """The answer of the change that lists the spare is lost. A spare that is not wanted any more
    may be deleted before such a change only. The record would list a ledger that is gone.
    """

    async def main() -> None:
        async with LogCluster(4) as cluster:
            client = cluster.new_client()
            keyring = Keyring({"a": bytes(32), "b": b"b" * 32}, current="a")
            log = await client.open(keyring=keyring)
            await log.append(b"0")
            chain = log._chain
            await chain.prepare(1)
            assert isinstance(chain._spare, LedgerSink)
            spare, metadata = chain._spare.ledger, chain._spare.writer._metadata
            client.store.after = lose_answer("put", path=PATH)
            reads = 0

            async def refuse_the_second_look(method: str, path: str) -> None:
                nonlocal reads
                reads += (method, path) == ("get", PATH)
                if reads > 1 or (method == "put" and not is_made):
                    await refuse("get", "put", path=PATH)(method, path)

            client.store.before = refuse_the_second_look
            with pytest.raises(QuireError):
                await chain.install_successor(1)
            assert (await cluster.new_client().manifest()).lists(spare) == is_made
            if why == "another key is current":
                keyring.rotate("b")
            else:
                await cluster.unregister(metadata.last_fragment.bookies[0])
            client.store.before = refuse("create", path=LEDGERS)
            await chain.install_successor(1)
            assert chain.successor is not None
            assert chain.successor.writer.ledger == spare
            assert spare in await cluster.ledgers()
            log.abandon()
            await cluster.check()

    run(main)


def test_nothing_is_trimmed_that_is_not_confirmed() -> None:
    """Entries that are sent may be lost yet; a position after them is not the log's."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=1)
            await log.append(b"0")
            for bookie in cluster.bookies.values():
                bookie.before = hung("add")
            sent = [await log.submit(b"%d" % number) for number in range(2)]
            await eventually(lambda: log._chain.current.entries > 1)
            log._chain.check_trim(Position(1, 1, 0))
            with pytest.raises(InvalidRequestError, match="it ends at 1"):
                log._chain.check_trim(Position(1, 2, 0))
            log.abandon()
            await asyncio.gather(*sent, return_exceptions=True)

    run(main)


def test_the_writes_move_to_the_next_segment_only() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0")
            chain = log._chain
            await chain.install_successor(1)
            assert chain.successor is not None
            chain.successor.number = 3
            with pytest.raises(AssertionError, match="segment 3 cannot follow segment 1"):
                chain.switch()
            assert chain.current.number == 1
            log.abandon()

    run(main)


def test_a_leader_does_not_lead_the_next_log_of_its_name() -> None:
    """The log is deleted and recreated; the new one has the same name, epoch and segment."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0")
            other = cluster.new_client()
            await other.logs.delete(NAME)
            heir = await other.open()
            assert heir.epoch == log.epoch
            assert (await other.manifest()).log_id != log.log_id
            with pytest.raises(DeposedError, match="deleted"):
                await log._chain.find_mine()
            await heir.close()
            log.abandon()

    run(main)
