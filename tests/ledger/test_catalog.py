"""Creating, opening, deleting and listing ledgers, with a store whose answers get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.entry import DigestKind, LedgerId
from quire.errors import (
    InvalidReplicationError,
    InvalidRequestError,
    LedgerFencedError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    StoreOutcomeUnknownError,
    UnauthorizedError,
)
from quire.ledger.metadata import LedgerState
from quire.ledger.new_record import NEW_BYTES_MAX
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.metastore.layout import LEDGERS, bookie_path, ledger_path
from quire.metastore.memory import MemoryStore
from tests.support.memory_cluster import MemoryCluster, slowly
from tests.support.virtual import virtually


def scenario(
    size: int, body: Callable[[MemoryCluster], Awaitable[None]], store: MemoryStore | None = None
) -> None:
    async def main() -> None:
        async with MemoryCluster(size, store=store) as cluster:
            await body(cluster)

    virtually(main)


class ForgetfulStore(MemoryStore):
    """Loses the next answers to changes, after or before they are made."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: list[str] = []
        """Names of calls to spoil, once each: `create` is made but not answered, `!create` lost."""

    async def create(self, path: str, value: bytes) -> int:
        if "!create" in self.lose and path.startswith(LEDGERS + "/"):
            self.lose.remove("!create")
            raise StoreOutcomeUnknownError(path, "by order of the test")
        version = await super().create(path, value)
        if "create" in self.lose and path.startswith(LEDGERS + "/"):
            self.lose.remove("create")
            raise StoreOutcomeUnknownError(path, "by order of the test")
        return version

    async def put(self, path: str, value: bytes, version: int) -> int:
        changed = await super().put(path, value, version)
        if "put" in self.lose:
            self.lose.remove("put")
            raise StoreOutcomeUnknownError(path, "by order of the test")
        return changed

    async def delete(self, path: str, version: int | None = None) -> None:
        await super().delete(path, version)
        if "delete" in self.lose:
            self.lose.remove("delete")
            raise StoreOutcomeUnknownError(path, "by order of the test")


def test_a_ledger_is_what_was_asked_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(
            Replication(4, 3, 2),
            password=b"pw",
            digest=DigestKind.HMAC_SHA256,
            custom_metadata={"owner": "dice"},
        )
        metadata = await cluster.catalog.metadata(writer.ledger)
        assert metadata == writer._metadata
        assert metadata.state is LedgerState.OPEN
        assert metadata.replication == Replication(4, 3, 2)
        assert metadata.digest is DigestKind.HMAC_SHA256
        assert metadata.custom_metadata == {"owner": "dice"}
        assert metadata.created_ms == 1500
        assert len(metadata.fragments) == 1
        assert len(set(metadata.last_fragment.bookies)) == 4
        await writer.close()

    scenario(5, body)


def test_too_few_bookies_say_how_many() -> None:
    async def body(cluster: MemoryCluster) -> None:
        with pytest.raises(NotEnoughBookiesError) as caught:
            await cluster.catalog.create()
        assert (caught.value.needed, caught.value.available) == (3, 2)
        await cluster.register("late")
        await (await cluster.catalog.create()).close()

    scenario(2, body)


def test_impossible_replication_is_refused() -> None:
    with pytest.raises(InvalidReplicationError):
        Replication(3, 2, 3)


def test_a_read_only_bookie_gets_no_ledger() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await cluster.register("full", writable=False)
        await cluster.roster.refresh()
        for _ in range(5):
            writer = await cluster.catalog.create(Replication(2, 2, 2))
            assert "full" not in writer._metadata.last_fragment.bookies
            await writer.close()
        with pytest.raises(NotEnoughBookiesError, match=r"2 can be used \(1 more take") as caught:
            await cluster.catalog.create(Replication(3, 3, 2))
        assert (caught.value.available, caught.value.unwritable) == (2, 1)

    scenario(2, body)


@pytest.mark.parametrize("lost", [["create"], ["!create"], ["!create", "create"]])
def test_a_creation_whose_answer_is_lost_is_recognised(lost: list[str]) -> None:
    store = ForgetfulStore()

    async def body(cluster: MemoryCluster) -> None:
        store.lose = list(lost)
        writer = await cluster.catalog.create()
        assert store.lose == []
        assert await writer.append(b"works") == 0
        await writer.close()
        assert await cluster.catalog.list() == [writer.ledger]

    scenario(3, body, store)


def test_an_id_that_is_taken_is_not_ours() -> None:
    async def body(cluster: MemoryCluster) -> None:
        other = await cluster.catalog.create()
        record = await cluster.store.get(ledger_path(other.ledger))
        await cluster.store.create(ledger_path(other.ledger + 1), record.value)
        writer = await cluster.catalog.create()
        assert writer.ledger == other.ledger + 2
        await other.close()
        await writer.close()

    scenario(3, body)


def test_an_opening_copes_with_lost_answers() -> None:
    store = ForgetfulStore()

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        await writer.append(b"kept")
        for _ in range(2):
            store.lose = ["put", "put"]
            reader = await cluster.catalog.open(writer.ledger)
            assert [entry.payload async for entry in reader.read()] == [b"kept"]
        writer.abandon()
        await writer.close()

    scenario(3, body, store)


@pytest.mark.parametrize("recover", [True, False])
def test_a_wrong_password_is_refused_before_any_bookie_is_asked(recover: bool) -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(password=b"right")
        await writer.append(b"secret")
        asked: list[str] = []

        async def before(method: str, ledger: LedgerId) -> None:
            asked.append(method)

        for bookie in cluster.bookies.values():
            bookie.before = before
        catalog = cluster.catalog
        opening = catalog.open if recover else catalog.open_without_recovery
        with pytest.raises(UnauthorizedError) as caught:
            await opening(writer.ledger, password=b"wrong")
        assert "wrong'" not in str(caught.value)
        assert "fence" not in asked
        assert "read" not in asked
        assert "read_tail" not in asked
        assert (await catalog.metadata(writer.ledger)).state is LedgerState.OPEN
        await writer.append(b"still mine")
        await writer.close()

    scenario(3, body)


@pytest.mark.parametrize("method", ["open", "open_without_recovery", "delete", "metadata"])
def test_an_unknown_ledger_is_named(method: str) -> None:
    async def body(cluster: MemoryCluster) -> None:
        with pytest.raises(NoSuchLedgerError, match="ledger 12345 does not exist"):
            await getattr(cluster.catalog, method)(12345)

    scenario(1, body)


def test_a_deleted_ledger_is_gone() -> None:
    """8."""

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        await writer.append(b"x")
        await writer.close()
        await cluster.catalog.delete(writer.ledger)
        with pytest.raises(NoSuchLedgerError):
            await cluster.catalog.open(writer.ledger)
        with pytest.raises(NoSuchLedgerError):
            await cluster.catalog.delete(writer.ledger)
        assert await cluster.catalog.list() == []

    scenario(3, body)


def test_a_deletion_whose_answer_is_lost_succeeds() -> None:
    store = ForgetfulStore()

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        await writer.close()
        store.lose = ["delete"]
        await cluster.catalog.delete(writer.ledger)
        assert await cluster.catalog.list() == []

    scenario(3, body, store)


def test_ledgers_are_listed_in_order_over_all_shards() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        record = await cluster.store.get(ledger_path(writer.ledger))
        for ledger in (5_000, 999, 1_000, 2**40):
            await cluster.store.create(ledger_path(ledger), record.value)
        assert await cluster.catalog.list() == [writer.ledger, 999, 1_000, 5_000, 2**40]
        await writer.close()

    scenario(3, body)


def test_opening_stops_the_writer_and_keeps_what_it_had_acked() -> None:
    """1."""

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        await writer.append_many([b"%d" % number for number in range(100)])
        reader = await cluster.client().open(writer.ledger)
        with pytest.raises(LedgerFencedError):
            await writer.append(b"too late")
        assert [int(entry.payload) async for entry in reader.read()] == list(range(100))
        with pytest.raises(LedgerFencedError):
            await writer.close()

    scenario(3, body)


def test_opening_without_recovery_disturbs_nobody() -> None:
    """3."""

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        await writer.append_many([b"a", b"b"])
        reader = await cluster.client().open_without_recovery(writer.ledger)
        assert await reader.last_confirmed() <= writer.last_confirmed
        assert await writer.append(b"c") == 2
        assert not reader.is_closed
        await writer.close()

    scenario(3, body)


def test_many_open_while_the_writer_streams() -> None:
    """2: all agree, and nothing acked is missing."""

    async def body(cluster: MemoryCluster) -> None:
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0.001)
        writer = await cluster.catalog.create()
        acked: list[int] = []

        async def stream() -> None:
            while True:
                acked.append(await writer.append(b"x"))

        streaming = asyncio.create_task(stream())
        await asyncio.sleep(0.050)
        readers = await asyncio.gather(*(cluster.client().open(writer.ledger) for _ in range(5)))
        with pytest.raises(LedgerFencedError):
            await streaming
        ends = [(each._metadata.last_entry, each._metadata.length) for each in readers]
        assert len(set(ends)) == 1
        assert 0 < acked[-1] <= (ends[0][0] or 0)
        writer.abandon()
        await writer.close()

    scenario(3, body)


def test_an_unregistered_bookie_is_named_when_it_is_needed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        assert await cluster.store.get(bookie_path("b0"))
        await cluster.unregister("b0")
        await cluster.roster.refresh()
        with pytest.raises(NotEnoughBookiesError):
            await cluster.catalog.create()

    scenario(3, body)


@pytest.mark.parametrize(("bookies", "ensemble"), [(2, None), (3, 3), (4, 4), (5, 5), (6, 5)])
def test_opportunistic_striping_takes_as_many_as_there_are(
    bookies: int, ensemble: int | None
) -> None:
    async def main() -> None:
        options = LedgerOptions(opportunistic_striping=True)
        async with MemoryCluster(bookies, options=options) as cluster:
            wanted = Replication(5, 3, 2)
            if ensemble is None:
                with pytest.raises(NotEnoughBookiesError) as caught:
                    await cluster.catalog.create(wanted)
                assert (caught.value.needed, caught.value.available) == (3, 2)
                return
            async with await cluster.catalog.create(wanted) as writer:
                assert writer._metadata.replication == Replication(ensemble, 3, 2)
                assert len(writer._metadata.last_fragment.bookies) == ensemble
                assert await writer.append(b"a") == 0

    virtually(main)


def test_a_record_keeps_room_for_its_end() -> None:
    """One that just fits can never be recovered: what was acknowledged is out of reach."""

    async def main(cluster: MemoryCluster) -> None:
        large = {"k": "x" * (NEW_BYTES_MAX - 1000)}
        writer = await cluster.catalog.create(custom_metadata=large)
        await writer.append(b"kept")
        writer.abandon()
        async with await cluster.catalog.open(writer.ledger) as reader:
            assert (await reader.read_entry(0)).payload == b"kept"
        with pytest.raises(InvalidRequestError, match="keep large values in entries"):
            await cluster.catalog.create(custom_metadata={"k": "x" * NEW_BYTES_MAX})

    scenario(3, main)


def test_a_record_that_cannot_be_believed_keeps_no_other_from_being_seen() -> None:
    async def main(cluster: MemoryCluster) -> None:
        writers = [await cluster.catalog.create() for _ in range(3)]
        for writer in writers:
            await writer.close()
        path = ledger_path(writers[1].ledger)
        found = await cluster.store.get(path)
        await cluster.store.put(path, b"rotten", found.version)
        seen = [metadata.ledger async for metadata in cluster.catalog.each()]
        assert seen == [writers[0].ledger, writers[2].ledger]

    scenario(3, main)


def test_an_open_ledger_is_closed_before_it_is_deleted() -> None:
    async def main(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(Replication(3, 3, 2), password=b"secret")
        await writer.append(b"acknowledged")
        with pytest.raises(UnauthorizedError):
            await cluster.catalog.close_and_delete(writer.ledger, password=b"guess")
        await writer.append(b"still its writer")
        await cluster.catalog.close_and_delete(writer.ledger, password=b"secret")
        with pytest.raises(LedgerFencedError):
            await writer.append(b"too late")
        assert await cluster.catalog.list() == []
        with pytest.raises(NoSuchLedgerError):
            await cluster.catalog.close_and_delete(writer.ledger, password=b"secret")

    scenario(3, main)
