"""Connections to a gRPC port that make no calls: which of them are ended, and when."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving import idlers as module
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.idlers import GRACE_SECONDS, Idlers, Remote
from quire.storage.serving.limits import ServiceLimits
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from tests.wire.link import KEY, SOON, run_of


def of(host: str, count: int, first: int = 1) -> list[Remote]:
    return [(host, port) for port in range(first, first + count)]


def test_a_connection_without_a_call_is_ended_in_time() -> None:
    idlers = Idlers(100, 50, 30.0)
    quick, silent = ("192.0.2.1", 1), ("192.0.2.2", 2)
    idlers.called(quick)
    assert idlers.judge([quick, silent], 100.0) == {}
    assert idlers.judge([quick, silent], 129.0) == {}
    assert idlers.judge([quick, silent], 130.0) == {silent: "a connection made no call for 30 s"}
    assert idlers.judge([quick], 1000.0) == {}


def test_beyond_its_share_a_peer_loses_its_oldest() -> None:
    idlers = Idlers(100, 10, 30.0)
    strangers, friend = of("192.0.2.1", 12), ("192.0.2.2", 1)
    for each in strangers[:3]:
        idlers.called(each)
    ended = idlers.judge([*strangers, friend], 0.0)
    assert list(ended) == strangers[3:5]
    assert set(ended.values()) == {"192.0.2.1 has more than 10 connections"}


def test_calls_do_not_give_a_peer_more_than_its_share() -> None:
    idlers = Idlers(100, 3, 30.0)
    strangers, friend = of("192.0.2.1", 5), ("192.0.2.2", 1)
    for each in (*strangers, friend):
        idlers.called(each)
    ended = idlers.judge([*strangers, friend], 0.0)
    assert set(ended) == {*strangers[3:]}, "those that were there first stay"
    assert idlers.judge([*strangers[:3], friend], 1.0) == {}


def test_a_quarter_of_all_stays_free() -> None:
    idlers = Idlers(8, 8, 30.0)
    early, late = of("192.0.2.1", 4), of("192.0.2.2", 4)
    assert idlers.judge(early, 0.0) == {}
    assert idlers.judge([*early, *late], GRACE_SECONDS).keys() == {*early[:2]}
    assert idlers.is_pressed
    assert idlers.judge(late, 2 * GRACE_SECONDS) == {}
    assert not idlers.is_pressed


def test_in_their_first_second_connections_are_spared_for_their_call() -> None:
    idlers = Idlers(8, 8, 30.0)
    assert idlers.judge(of("192.0.2.1", 8), 0.0) == {}


def test_a_call_before_the_first_look_counts_and_an_old_one_does_not() -> None:
    idlers = Idlers(100, 50, 30.0)
    remote = ("192.0.2.1", 1)
    idlers.called(remote)
    idlers.judge([], 0.0)
    idlers.judge([], 1.0)  # it is gone, and its port may come again
    idlers.judge([remote], 2.0)
    assert remote in idlers.judge([remote], 40.0)


STEPS = st.lists(
    st.tuples(
        st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 6))),
        st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 6))),
        st.sampled_from([0.0, 1.0, 31.0]),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_connection_with_a_call_is_ended_beyond_the_share_only(
    steps: list[tuple[set[Remote], set[Remote], float]],
) -> None:
    idlers, now = Idlers(8, 4, 30.0), 0.0
    called = set[Remote]()
    for present, calls, pause in steps:
        now += pause
        for each in sorted(calls):
            idlers.called(each)
        called |= calls
        ended = idlers.judge(sorted(present), now)
        assert ended.keys() <= present
        for host in ("a", "b"):
            busy = [each for each in present if each[0] == host and each in called]
            assert len([each for each in busy if each in ended]) == max(0, len(busy) - 4)
        called &= present
        called |= calls
        left = present - ended.keys()
        for host in ("a", "b"):
            silent = [each for each in left if each[0] == host and each not in called]
            spoke = [each for each in left if each[0] == host and each in called]
            assert len(silent) <= max(0, 4 - len(spoke))


async def _end_of(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(1000):
            pass


async def _name_of(bookie: RemoteBookie) -> str:
    """Ask until there is an answer: gRPC counts a connection for a moment after its end."""
    while True:
        try:
            return (await bookie.info()).bookie
        except BookieUnavailableError:
            await asyncio.sleep(0.05)


@pytest.mark.real_time
async def test_a_stranger_that_holds_connections_leaves_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "PRESSED_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.0)
    limits, refusals = ServiceLimits(connections=8, peer_share=1.0), Refusals()
    serving = serve_bookie(MemoryBookie("b1"), "b1", limits=limits, refusals=refusals)
    async with asyncio.timeout(SOON), serving as address:
        friend = RemoteBookie(address)
        await friend.add(7, KEY, run_of(0))
        host, port = address.address.split(":")
        strangers = [await asyncio.open_connection(host, int(port)) for _ in range(7)]
        for _, writer in strangers:  # they speak HTTP/2, and say nothing
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        # Those that one look finds are ended in the order of their descriptors.
        ends = [asyncio.create_task(_end_of(reader)) for reader, _ in strangers]
        _, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        assert refusals.counts["idle"] >= 1
        # The clock must not decide whether the newcomer calls in time.
        monkeypatch.setattr(module, "GRACE_SECONDS", math.inf)
        newcomer = RemoteBookie(address)
        assert await _name_of(newcomer) == "b1"
        await friend.add(7, KEY, run_of(1))
        for _, writer in strangers:
            writer.close()
        await friend.close()
        await newcomer.close()
