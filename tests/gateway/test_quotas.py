"""Quotas of clients: the budgets, and what each protocol says."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import ConfigurationError
from quire.gateway import quotas as quotas_module
from quire.gateway.answers import QuotaError
from quire.gateway.limits import GatewayLimits
from quire.gateway.quotas import Direction, Quotas, client_of
from quire.gateway.reads import paced, stream_events
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import ANONYMOUS, client_identity
from tests.gateway.test_app import RECORDS, serving

APPEND, READ = Direction.APPEND, Direction.READ


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def quotas(clock: Clock, **rates: float) -> Quotas:
    named = {f"client_{name}_per_second": rate for name, rate in rates.items()}
    return Quotas(GatewayLimits(**named), clock)  # type: ignore[arg-type]


def test_a_second_is_saved_up_and_more_is_paid_for_afterwards() -> None:
    clock = Clock()
    limited = quotas(clock, append_bytes=100)
    assert limited.charge("a", APPEND, 100, 1) == 0
    limited.check("a", APPEND)
    assert limited.charge("a", APPEND, 250, 1) == pytest.approx(2.5)
    with pytest.raises(QuotaError, match=r"a has used up its quota to append: go on in 2\.500 s"):
        limited.check("a", APPEND)
    limited.check("b", APPEND)
    limited.check("a", READ)
    clock.now += 2.5
    limited.check("a", APPEND)
    assert limited.charge("a", READ, 10**9, 10**9) == 0, "reads have no quota here"


def test_the_scarcer_of_bytes_and_records_counts() -> None:
    limited = quotas(Clock(), append_bytes=1000, append_records=10)
    assert limited.charge("a", APPEND, 10, 30) == pytest.approx(2.0)
    assert limited.charge("b", APPEND, 4000, 1) == pytest.approx(3.0)


def test_budgets_that_are_full_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    limited = quotas(clock, read_records=1)
    monkeypatch.setattr(quotas_module, "CLIENTS_MAX", 3)
    for number in range(10):
        limited.charge(f"c{number}", READ, 1, 1)
    assert len(limited) == 3
    clock.now += 10
    limited.charge("last", READ, 1, 1)
    assert len(limited) == 1


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0, 3)), max_size=30))
def test_over_any_time_a_client_gets_its_rate_a_second_and_a_request(
    steps: list[tuple[int, float]],
) -> None:
    clock = Clock()
    limited = quotas(clock, append_bytes=100)
    taken: list[tuple[float, int]] = []
    for size, pause in steps:
        clock.now += pause
        if limited.wait("a", APPEND) == 0:
            limited.charge("a", APPEND, size, 1)
            taken.append((clock.now, size))
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            seconds = taken[last][0] - taken[first][0]
            total = sum(size for _, size in taken[first:last])
            assert total <= 100 * (seconds + 1) + 300 + 1e-6


def test_a_client_is_its_identity_or_its_address() -> None:
    assert client_of(client_identity("shop"), "10.0.0.1") == "quire://client/shop"
    assert client_of(ANONYMOUS, "10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize("rate", [-1.0, float("nan")])
def test_a_rate_is_positive(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="must be positive"):
        GatewayLimits(client_append_records_per_second=rate)


async def test_http_says_when_to_go_on() -> None:
    limits = GatewayLimits(client_append_records_per_second=2, client_read_records_per_second=2)
    async with serving(MemoryCluster(), limits=limits) as one:
        assert (await one.http.post(RECORDS, json={"records": [*"abcdefghi"]})).status_code == 201
        refused = await one.http.post(RECORDS, json="j")
        assert (refused.status_code, refused.json()["error"]) == (429, "quota_exceeded")
        assert refused.headers["retry-after"] == "4"
        await asyncio.sleep(4)
        assert (await one.append("j")).status_code == 201
        assert len((await one.http.get(RECORDS)).json()["records"]) == 10
        read = await one.http.get(RECORDS)
        assert (read.status_code, read.headers["retry-after"]) == (429, "4")
        assert (await one.http.get(f"{RECORDS}/1")).status_code == 429
        counted = (await one.http.get("/metrics")).text
        assert 'quire_gateway_throttled_total{direction="append"} 1.0' in counted
        assert 'quire_gateway_throttled_total{direction="read"} 1.0' in counted


async def test_a_stream_of_events_is_slowed() -> None:
    limits = GatewayLimits(client_read_records_per_second=2)
    async with serving(MemoryCluster(), limits=limits) as one:
        await one.append(*"abcdef")
        now = asyncio.get_running_loop().time

        def charge(size: int, records: int) -> float:
            return one.gateway.quotas.charge("reader", READ, size, records)

        begun = now()
        opening = partial(one.gateway.consumers.stream, "http", "reader", "orders")
        async with aclosing(
            paced(stream_events(one.gateway.client, "orders", 0), charge, opening)
        ) as events:
            for _ in range(7):
                await anext(events)
        assert 1.5 <= now() - begun <= 2.5, "five records before the sixth, at 2/s, 2 saved up"
