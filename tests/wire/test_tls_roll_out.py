"""The roll-out of docs/security.md: from no TLS to TLS only, with appends under way."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.bookie import BookieAddress, TlsPorts
from quire.entry import EntryId
from quire.errors import TlsMismatchError
from quire.ledger.links import link_bookie
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.certificates import TlsMode
from quire.wire.tls import Contexts
from tests.wire.certificates import Directory, contexts
from tests.wire.link import KEY, SOON, run_of

HERE = "127.0.0.1:0"


class Client:
    """Adds entries, at the address that the bookie has registered last."""

    def __init__(self, entries: Iterator[EntryId], tls: Contexts | None = None) -> None:
        self.entries = entries
        self.tls = tls

    async def add(self, address: BookieAddress) -> bool:
        """Add the next entry; return whether it went by TLS."""
        stub = link_bookie(address, request_timeout=SOON, tls=self.tls)
        assert isinstance(stub, RemoteBookie)
        try:
            entry = next(self.entries)
            await stub.add(7, KEY, run_of(entry))
            assert await stub.list_entries(7) == [(0, entry)]
        finally:
            await stub.close()
        return stub._tls is not None


def test_a_cluster_gets_tls_without_downtime(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    bookie = MemoryBookie("b1")

    async def main() -> None:
        entries = itertools.count()
        old, new = Client(entries), Client(entries)
        server = contexts(files.bookie())
        async with serve_bookie(bookie, "b1", HERE, HERE) as address:
            assert not await old.add(address)
            assert not await new.add(address)
            new.tls = contexts(files.client(mode=TlsMode.OPTIONAL))  # step 1
            assert not await new.add(address)
        beside = TlsPorts(HERE, HERE)
        async with serve_bookie(bookie, "b1", HERE, HERE, tls=server, beside=beside) as address:
            assert not await old.add(address)  # step 2
            assert await new.add(address)
            new.tls = contexts(files.client(mode=TlsMode.REQUIRED))  # step 3
            assert await new.add(address)
        async with serve_bookie(bookie, "b1", HERE, HERE, tls=server) as address:  # step 4
            assert await new.add(address)
            with pytest.raises(TlsMismatchError):
                await old.add(address)
        assert await bookie.list_entries(7) == [(0, 6)]

    asyncio.run(main())
