"""The layer of TLS in a connection, over pipes in memory and in virtual time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.wire.identity import bookie_identity, client_identity
from quire.wire.tls import Blame, Contexts, Peer, TlsError
from quire.wire.tls_layer import (
    HANDSHAKE_SECONDS,
    LINGER_SECONDS,
    CertificateEndedError,
    TlsLayer,
)
from tests.support.virtual import virtually
from tests.wire.certificates import Directory, contexts
from tests.wire.pipes import Pipe, Recorder, join, turns, until


class Ends:
    """A server and a client, each with a layer and a recorder inside."""

    def __init__(
        self,
        server: Contexts,
        client: Contexts,
        *,
        bookie: str = "b1",
    ) -> None:
        self.refused: list[str] = []
        self.server, self.client = Recorder(), Recorder()
        self.layers = (
            TlsLayer(
                *(server.accept(), self.server),
                is_server=True,
                refuse_plain=lambda said: b"TLS only",
                on_refused=self.refused.append,
            ),
            TlsLayer(client.open(bookie), self.client, is_server=False),
        )

    def join(self) -> tuple[Pipe, Pipe]:
        return join(*self.layers)

    async def opened(self) -> None:
        self.join()
        await asyncio.gather(*(layer.opened for layer in self.layers))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return Directory(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(files: Directory) -> tuple[Contexts, Contexts]:
    return contexts(files.bookie()), contexts(files.client())


def test_both_sides_know_each_other_before_a_byte(pair: tuple[Contexts, Contexts]) -> None:
    async def main() -> None:
        ends = Ends(*pair)
        await ends.opened()
        server, client = (layer.get_extra_info("peer") for layer in ends.layers)
        assert isinstance(server, Peer)
        assert (server.identity, client.identity) == (
            client_identity("tests"),
            bookie_identity("b1"),
        )

    virtually(main)


PARTS = st.lists(st.lists(st.binary(max_size=100_000), max_size=3), max_size=6)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_bytes_arrive_as_they_were_written(
    pair: tuple[Contexts, Contexts], data: st.DataObject
) -> None:
    messages = data.draw(PARTS)

    async def main() -> None:
        ends = Ends(*pair)
        await ends.opened()
        for parts in messages:
            ends.layers[1].writelines(parts)
        whole = b"".join(b"".join(parts) for parts in messages)
        await until(lambda: len(ends.server.received) >= len(whole))
        assert ends.server.received == whole
        ends.layers[0].write(whole[:1000])
        await until(lambda: len(ends.client.received) >= len(whole[:1000]))
        ends.layers[0].close()
        await until(lambda: bool(ends.client.lost))
        assert ends.client.received == whole[:1000]
        assert (ends.client.lost, ends.server.lost) == ([None], [None])

    virtually(main)


def test_nothing_is_sent_in_plain(pair: tuple[Contexts, Contexts]) -> None:
    async def main() -> None:
        ends = Ends(*pair)
        pipes = ends.join()
        await asyncio.gather(*(layer.opened for layer in ends.layers))
        ends.layers[1].write(b"a secret payload")
        await until(lambda: ends.server.received == b"a secret payload")
        assert b"secret" not in pipes[1].sent

    virtually(main)


def test_a_refused_client_hears_why_and_is_read_until_it_goes(files: Directory) -> None:
    """Its handshake succeeds: only what comes back tells it."""
    stranger = Directory(files.path / "stranger", "another authority")

    async def main() -> None:
        wrong = contexts(replace(stranger.client(), ca=files.ca))
        ends = Ends(contexts(files.bookie()), wrong)
        ends.join()
        await ends.layers[1].opened
        await until(lambda: bool(ends.client.lost))
        (error,) = ends.client.lost
        assert isinstance(error, TlsError)
        assert error.blame is Blame.OURS
        assert "does not trust the authority of this client" in str(error)
        await until(lambda: bool(ends.server.lost))
        assert ends.server.transport is None, "it never was a connection"
        (reason,) = ends.refused
        assert reason.startswith("the certificate is not accepted: ")

    virtually(main)


def test_a_client_that_stays_after_its_refusal_is_ended(pair: tuple[Contexts, Contexts]) -> None:
    async def main() -> None:
        ends, plain = Ends(*pair), Recorder()
        join(ends.layers[0], plain)
        assert plain.transport is not None
        begun = asyncio.get_running_loop().time()
        plain.transport.write(b"quire/runs/2\n")
        await until(lambda: plain.received == b"TLS only")
        plain.transport.write(b"more of it")
        await ends.server.end
        assert asyncio.get_running_loop().time() == begun + LINGER_SECONDS
        assert ends.refused == ["it speaks no TLS"]

    virtually(main)


def test_a_handshake_has_a_limit_of_time(pair: tuple[Contexts, Contexts]) -> None:
    async def main() -> None:
        for number, layer in enumerate(Ends(*pair).layers):
            silent = Recorder()
            join(*((layer, silent) if number == 0 else (silent, layer)))
            begun = asyncio.get_running_loop().time()
            with pytest.raises(TimeoutError):
                await layer.opened
            assert asyncio.get_running_loop().time() == begun + HANDSHAKE_SECONDS

    virtually(main)


@pytest.mark.parametrize("which", [0, 1])
def test_a_connection_ends_with_the_certificate_of_the_other_side(
    files: Directory, which: int
) -> None:
    """Each side of it by itself: the other one may be a stranger by then."""
    life = 7200.0

    async def main() -> None:
        loop, started = asyncio.get_running_loop(), time.time()
        lives = (10 * life, life) if which == 0 else (life, 10 * life)

        def clock() -> float:
            return started + loop.time() - begun

        begun = loop.time()
        ends = Ends(
            contexts(files.bookie(seconds=lives[0]), clock),
            contexts(files.client(seconds=lives[1]), clock),
        )
        await ends.opened()
        error = await (ends.server, ends.client)[which].end
        assert isinstance(error, CertificateEndedError)
        assert "the certificate ended at" in str(error)
        assert life - 2.0 <= loop.time() - begun <= life + 2.0

    virtually(main)


def test_a_port_without_tls_is_named(pair: tuple[Contexts, Contexts]) -> None:
    class Plain(Recorder):
        def data_received(self, data: bytes) -> None:
            assert self.transport is not None
            self.transport.abort()

    async def main() -> None:
        layer = Ends(*pair).layers[1]
        join(Plain(), layer)
        with pytest.raises(TlsError, match="instead of a TLS handshake"):
            await layer.opened

    virtually(main)


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_no_bytes_harm_a_server(pair: tuple[Contexts, Contexts], sent: bytes) -> None:
    """Neither instead of a handshake, nor as the rest of one, nor in place of a record."""

    async def harm(intact: int) -> None:
        ends = Ends(*pair)
        stranger = Recorder()
        if intact == 2:
            pipes = ends.join()
            await asyncio.gather(*(layer.opened for layer in ends.layers))
            pipes[1].write(sent)
            await turns()
            pipes[1].abort()
        else:
            join(ends.layers[0], stranger)
            assert stranger.transport is not None
            stranger.transport.write(b"\x16\x03\x01" * intact + sent)
            await turns()
            stranger.transport.abort()
        await until(lambda: bool(ends.server.lost))
        assert ends.server.received == b""

    async def main() -> None:
        for intact in (0, 1, 2):
            await harm(intact)

    virtually(main)
