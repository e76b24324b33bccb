"""Mutual TLS between real processes: append and read, a refused client, a rotation, and another
machine at a bookie's address."""

from __future__ import annotations

from pathlib import Path

import pytest

import quire
from quire.cli.cluster import store_of
from quire.cluster import LocalCluster
from quire.errors import AppendOutcomeUnknownError, UntrustedBookieError
from quire.ledgers import LedgerOptions, LedgerWriter, Replication
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.certificates import TlsOptions
from quire.wire.issuing import Authority
from tests.wire.certificates import contexts

COPIES = Replication(3, 3, 2)
PATIENT = LedgerOptions(request_timeout=60.0, append_timeout=90.0)
"""A bookie that is only slow is not replaced: this is about certificates."""


async def fragments(client: quire.Client, writer: LedgerWriter) -> list[tuple[str, ...]]:
    info = await client.ledger_info(writer.ledger)
    return [fragment.bookies for fragment in info.fragments]


@pytest.mark.real_time
async def test_a_cluster_with_mutual_tls(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    async with (
        LocalCluster(directory, bookies=4, tls=True) as cluster,
        quire.connect(str(directory), options=PATIENT) as client,
    ):
        writer = await client.create_ledger(COPIES)
        await writer.append(b"0")
        ensemble = await fragments(client, writer)
        async with quire.connect(store_of(cluster)) as other:  # as `cluster up` tells to
            assert await other.list_ledgers() == [writer.ledger]
            await (await other.create_ledger(COPIES)).append(b"of another program")
        await refuse_strangers(cluster, tmp_path)
        await rotate(cluster, directory / "tls", writer)
        assert await fragments(client, writer) == ensemble, "nothing was replaced"
        async with await client.open_ledger(writer.ledger) as reader:
            read = [entry.payload async for entry in reader.read(0, 20)]
            assert read == [b"%d" % number for number in range(21)]
        await take_an_address_over(cluster, client, ensemble[0][0])


async def refuse_strangers(cluster: LocalCluster, directory: Path) -> None:
    """A client that is refused replaces no bookie, and hears why."""
    assert cluster.tls is not None
    pair = Authority.make("another authority").client("local").write(directory, "stranger")
    stranger = TlsOptions(*pair, cluster.tls.ca)
    async with quire.connect(cluster.store_uri, tls=stranger) as client:
        writer = await client.create_ledger(COPIES)
        with pytest.raises(AppendOutcomeUnknownError, match="does not trust the authority"):
            await writer.append(b"never")
        assert len(await fragments(client, writer)) == 1
    async with quire.connect(cluster.store_uri) as client:
        writer = await client.create_ledger(COPIES)
        with pytest.raises(AppendOutcomeUnknownError, match="TLS connections only"):
            await writer.append(b"never")
        assert len(await fragments(client, writer)) == 1


async def rotate(cluster: LocalCluster, tls: Path, writer: LedgerWriter) -> None:
    """New certificates of all processes, while a writer goes on."""
    authority = Authority.load(tls)
    for number in range(1, 21):
        if number == 10:
            authority.client("renewed").write(tls, "client")
            for index in range(cluster.bookies):
                ready = cluster.ready(index)
                assert ready is not None
                authority.bookie(ready.bookie).write(tls, f"bookie-{index}")
        await writer.append(b"%d" % number)


async def take_an_address_over(cluster: LocalCluster, client: quire.Client, victim: str) -> None:
    """By another bookie of the same cluster: its certificate is good, and not the victim's."""
    index = cluster.index_of(victim)
    ready = cluster.ready(index)
    assert ready is not None
    other = (index + 1) % cluster.bookies
    its_files = cluster.bookie_tls(other)
    assert its_files is not None
    cluster.kill(index)
    await cluster._watchers[index]  # its ports are free then
    async with serve_bookie(
        *(MemoryBookie("other"), "other", ready.address), tls=contexts(its_files), drain_seconds=0.0
    ):
        with pytest.raises(UntrustedBookieError, match=f"not of bookie {victim}"):
            await client.bookie_info(victim)
