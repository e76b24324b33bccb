"""Places for connections to the port for frames: a stranger does not take those of clients."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import ServiceLimits
from quire.storage.serving.refusals import Refusals
from quire.storage.serving.seats import FEW, RESERVED, Seats
from quire.testing.bookie import MemoryBookie
from quire.wire.framed import GREETING
from tests.wire.link import KEY, SOON, run_of
from tests.wire.test_costly_peers import is_ended, open_to

HERE = "127.0.0.1:0"
OWNERS = ("a", "b", "c", "d")


def filled(size: int, peer_max: int, **held: int) -> Seats[int]:
    """Return places of which peers hold some with connections that have spoken."""
    seats, number = Seats[int](size, peer_max), 0
    for owner, count in held.items():
        for _ in range(count):
            number += 1
            assert seats.want(-number, owner) == (None, None)
            seats.spoke(-number)
    return seats


def test_a_connection_that_sent_nothing_makes_space_for_another() -> None:
    seats = filled(16, 16, friend=10)
    for number in range(6):
        seats.want(number, "stranger")
    assert len(seats) == 14, "the last of them replaced its own: 0 and 1"
    assert seats.want(6, "client") == (None, None)
    assert seats.want(7, "client") == (None, None)
    seats.spoke(2)
    assert seats.want(8, "client") == (None, 3)
    assert len(seats) == 16


def test_beyond_its_share_a_peer_replaces_its_own_only() -> None:
    seats = filled(32, 8, stranger=7)
    assert seats.want(0, "other") == (None, None)
    assert seats.want(1, "stranger") == (None, None)
    assert seats.want(2, "stranger") == (None, 1)
    seats.spoke(2)
    refusal, instead = seats.want(3, "stranger")
    assert refusal == "stranger has 8 connections for runs"
    assert instead is None


def test_the_last_places_are_for_peers_with_few_connections() -> None:
    size = 8 * RESERVED
    seats = filled(size, size, stranger=size - RESERVED)
    refusal, _ = seats.want(0, "stranger")
    assert refusal is not None
    assert refusal.endswith("the last 8 places are for peers with fewer than 4")
    for number in range(FEW):
        assert seats.want(number, "client") == (None, None)
        seats.spoke(number)
    assert seats.want(FEW, "client").refusal is not None, "now it has as many as few are"
    assert seats.want(99, "another client").refusal is None


@given(
    st.integers(1, 24),
    st.integers(1, 24),
    st.lists(
        st.tuples(st.sampled_from(["want", "spoke", "left"]), st.integers(0, 40)), max_size=80
    ),
)
def test_places_are_never_more_than_there_are(
    size: int, peer_max: int, steps: list[tuple[str, int]]
) -> None:
    seats, here, spoken = Seats[int](size, peer_max), dict[int, str](), set[int]()
    for what, number in steps:
        owner = OWNERS[number % len(OWNERS)]
        if what == "want" and number not in here:
            refusal, instead = seats.want(number, owner)
            if instead is not None:
                assert instead not in spoken, "a client that sends has its place"
                del here[instead]
            if refusal is None:
                here[number] = owner
            else:
                assert instead is None
        elif what == "spoke" and number in here:
            seats.spoke(number)
            spoken.add(number)
        elif what == "left":
            seats.left(number)
            here.pop(number, None)
            spoken.discard(number)
        assert len(seats) == len(here) <= size
        for each in OWNERS:
            assert list(here.values()).count(each) <= peer_max


def test_a_client_finds_a_place_among_strangers_that_only_greet() -> None:
    async def main() -> None:
        refusals, limits = Refusals(), ServiceLimits(connections=16, peer_share=1)
        serving = serve_bookie(
            *(MemoryBookie("b1"), "b1", HERE, HERE), limits=limits, refusals=refusals
        )
        async with asyncio.timeout(SOON), serving as address:
            early, late = RemoteBookie(address), RemoteBookie(address)
            await early.add(7, KEY, run_of(0))
            held = []
            for _ in range(20):
                reader, writer = await open_to(address.runs)
                writer.write(GREETING)
                held.append((reader, writer))
            assert await is_ended(held[0][0]), "a later one has its place"
            await late.add(7, KEY, run_of(1))
            await early.add(7, KEY, run_of(2))
            assert refusals.counts["connections"] > 0
            for each in (early, late):
                await each.close()
            for _, writer in held:
                writer.close()

    asyncio.run(main())
