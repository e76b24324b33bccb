"""Ledgers whose reads need their password: at the door of a bookie, in records, at a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire.entry import (
    DigestKind,
    LedgerId,
    Sealer,
    access_key,
    guards_reads,
    is_checked,
    is_of_guarded_reads,
    key_check,
)
from quire.errors import (
    ConfigurationError,
    LevelNeededError,
    UnauthorizedError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.info import info_of
from quire.ledger.read_keys import KEYS_MAX, ReadKeys
from quire.ledger.remote import RemoteBookie
from quire.ledger.stored_records import StoredRecords
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.run import pack_run
from quire.storage.entries.ledger_state import LedgerState, decode_rows, encode_row
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from tests.support.memory_cluster import MemoryCluster
from tests.wire.certificates import Directory, contexts
from tests.wire.link import SOON

HERE = "127.0.0.1:0"
SEALER = Sealer(7, DigestKind.HMAC_SHA256, b"secret", guards_reads=True)
KEY = SEALER.access_key
RUN = pack_run([SEALER.seal(0, -1, 1, b"x")])


def test_a_key_says_by_itself_whether_it_guards_reads() -> None:
    plain = access_key(b"secret")
    assert guards_reads(KEY)
    assert not guards_reads(plain)
    assert not guards_reads(b"R" + plain[1:]), "an ordinary key that happens to begin so"
    assert is_of_guarded_reads(key_check(KEY))
    assert not is_of_guarded_reads(key_check(plain))
    assert is_checked(KEY, key_check(KEY))
    assert not is_checked(plain, key_check(KEY)), "a program that does not know it is refused"


@pytest.mark.parametrize("knows_key", [True, False])
def test_a_bookie_asks_for_the_key_also_if_it_knows_the_check_alone(knows_key: bool) -> None:
    state = LedgerState(7)
    assert state.lets_read(b""), "nothing is known of it"
    if knows_key:
        state.key = KEY
    else:
        state.doubt(key_check(KEY))  # a copy that it was asked to make
        (state,) = decode_rows(encode_row(state))
    assert [state.lets_read(each) for each in (KEY, b"", access_key(b"secret"))] == [
        True,
        False,
        False,
    ]
    other = LedgerState(8)
    other.key = access_key(b"secret")
    assert other.lets_read(b"")


def test_a_client_keeps_the_keys_that_it_used_last() -> None:
    keys = ReadKeys()
    keys.learn(1, access_key(b"secret"))
    assert keys.of(1) == b"", "it guards no reads"
    for ledger in range(KEYS_MAX):
        keys.learn(ledger, KEY)
    assert keys.of(0) == KEY
    keys.learn(KEYS_MAX, KEY)
    assert (keys.of(0), keys.of(1)) == (KEY, b"")


@asynccontextmanager
async def linked(stub: RemoteBookie) -> AsyncIterator[RemoteBookie]:
    try:
        yield stub
    finally:
        await stub.close()


async def answers(stub: RemoteBookie) -> list[bool]:
    """Whether a bookie answers each kind of read."""
    found = []
    for call in (
        lambda: stub.read(7, 0, 0),
        lambda: stub.read_tail(7),
        lambda: stub.wait_tail(7, -1, 0.1),
    ):
        try:
            await call()
        except UnauthorizedError:
            found.append(False)
        else:
            found.append(True)
    return found


@pytest.mark.real_time
async def test_at_its_door_a_bookie_asks_readers_for_the_key_and_bookies_for_a_certificate(
    tmp_path: Path,
) -> None:
    files, refusals, state = Directory(tmp_path), Refusals(), LedgerState(7)
    bookie, begun = MemoryBookie("b1"), asyncio.Event()
    await bookie.add(7, KEY, RUN)

    async def note(method: str, ledger: LedgerId) -> None:
        if method == "wait_change":
            begun.set()

    bookie.before = note
    serving = serve_bookie(
        *(bookie, "b1", HERE),
        tls=contexts(files.bookie()),
        refusals=refusals,
        lets_read=lambda _, key: state.lets_read(key),
        drain_seconds=0.0,
    )
    client, keys = contexts(files.client()), ReadKeys()
    keys.learn(7, KEY)
    async with asyncio.timeout(SOON), serving as address:
        async with linked(RemoteBookie(address, tls=client)) as stranger:
            waiting = asyncio.create_task(stranger.wait_tail(7, -1, SOON))
            await begun.wait()
            state.key = KEY  # the ledger begins while it is waited for
            await bookie.add(7, KEY, pack_run([SEALER.seal(1, 0, 2, b"y")]))
            with pytest.raises(UnauthorizedError):
                await waiting
            assert await answers(stranger) == [False] * 3
            for wrong in (b"", KEY[1:]):
                with pytest.raises(UnauthorizedError):
                    await stranger.read(7, 0, 0, fence_key=wrong)
            assert refusals.counts["rights"] == 6
            assert not (await bookie.read_tail(7)).fenced
            assert await stranger.list_entries(7) == [(0, 1)], "ids are no payload"
            await stranger.read(7, 0, 0, fence_key=KEY)  # a recovery knows it
        async with linked(RemoteBookie(address, tls=client, keys=keys)) as reader:
            assert await answers(reader) == [True] * 3
        copying = contexts(files.bookie("b2"))
        async with linked(RemoteBookie(address, tls=copying)) as healer:
            assert await answers(healer) == [True] * 3


async def test_a_ledger_is_opened_with_its_password_and_says_what_it_needs() -> None:
    async with MemoryCluster(3) as cluster:
        writer = await cluster.catalog.create(password=b"secret", read_needs_password=True)
        await writer.append(b"first")
        await writer.close()
        found = await cluster.catalog.metadata(writer.ledger)
        assert found.read_needs_password
        assert info_of(found).read_needs_password
        other = cluster.client()
        reader = await other.open(writer.ledger, password=b"secret")
        assert [each.payload async for each in reader.read()] == [b"first"]
        with pytest.raises(UnauthorizedError):
            await other.open(writer.ledger, password=b"wrong")
        plain = await cluster.catalog.create(password=b"secret")
        assert not (await cluster.catalog.metadata(plain.ledger)).read_needs_password


async def test_reads_need_a_password_that_there_is_tls_and_the_level_of_the_cluster() -> None:
    async with MemoryCluster(3) as cluster:
        with pytest.raises(ConfigurationError, match="give password="):
            await cluster.catalog.create(read_needs_password=True)
        records = StoredRecords(cluster.store, cluster.rng)
        openly = LedgerCatalog(
            *(records, cluster.roster),
            rng=cluster.rng,
            clock=lambda: 1.5,
            keys=ReadKeys(has_tls=False),
        )
        with pytest.raises(ConfigurationError, match=r"needs TLS.*give connect\(tls="):
            await openly.create(password=b"secret", read_needs_password=True)
        await cluster.store.create(CLUSTER, Cluster("c", level=1).encode())
        with pytest.raises(LevelNeededError, match="a password for reads"):
            await cluster.catalog.create(password=b"secret", read_needs_password=True)
        await cluster.catalog.create(password=b"secret")
