"""A client's figures: shown in the application's registry, added up over clients, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import quire
from quire.errors import AppendOutcomeUnknownError
from quire.ledger.options import LedgerOptions
from quire.metrics.client import shown_in
from quire.metrics.table import METRICS, Owner
from quire.testing import MemoryCluster
from quire.version import __version__
from tests.support.virtual import virtually

Scene = Callable[[MemoryCluster, CollectorRegistry], Coroutine[Any, Any, None]]


def play(scene: Scene, bookies: int = 4) -> None:
    with MemoryCluster(bookies) as cluster:
        virtually(lambda: scene(cluster, CollectorRegistry()))


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    """Return the samples as `name{label="value"}`, in the text format of Prometheus."""
    text = generate_latest(registry).decode()
    return {
        sample.name + _labels(sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _labels(labels: Mapping[str, str]) -> str:
    named = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"{{{named}}}" if named else ""


def test_appends_are_counted_and_timed() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            async with await client.create_ledger() as writer:
                for future in [await writer.submit(b"x") for _ in range(5)]:
                    await future
                shown = scrape(registry)
                assert shown["quire_window_entries"] == 0
            assert shown['quire_append_total{outcome="ok"}'] == 5
            assert shown["quire_append_seconds_count"] == 5
            assert shown[f'quire_client_info{{version="{__version__}"}}'] == 1

    play(scene)


def test_an_append_without_an_answer_is_unknown() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        options = LedgerOptions(append_timeout=2.0)
        async with quire.connect(cluster.store_uri, options=options, metrics=registry) as client:
            assert scrape(registry)['quire_append_total{outcome="unknown"}'] == 0, "from the start"
            writer = await client.create_ledger()
            for number in range(3):
                cluster.pause(number)
            waiting = await writer.submit(b"x")
            await asyncio.sleep(1.5)
            shown = scrape(registry)
            assert shown["quire_window_entries"] == 1
            assert shown["quire_position_down"] >= 2
            with pytest.raises(AppendOutcomeUnknownError):
                await waiting
            assert scrape(registry)['quire_append_total{outcome="unknown"}'] == 1
            writer.abandon()
            cluster.heal()

    play(scene, bookies=3)


def test_a_replaced_bookie_is_counted_with_its_error() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            writer = await client.create_ledger()
            await writer.append(b"a")
            member = next(
                number
                for number in range(4)
                if f"{cluster.name}-bookie-{number}" in writer.info.fragments[0].bookies
            )
            cluster.kill(member)
            await writer.append(b"b")
            await asyncio.sleep(5)
            shown = scrape(registry)
            reason = 'quire_ensemble_changes_total{reason="BookieUnavailableError"}'
            assert shown[reason] == 1
            assert shown["quire_position_down"] == 0

    play(scene)


def test_a_led_log_a_reader_and_an_election_are_shown() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            async with client.lead_log("orders") as log:
                await log.append_many([b"a", b"b", b"c"])
                await log.append(b"d")
                reader = await client.read_log("orders", follow=True)
                await anext(reader)
                await anext(reader)
                shown = scrape(registry)
                assert shown['quire_log_epoch{log="orders"}'] == 1
                assert shown['quire_log_segments{log="orders"}'] == 1
                assert shown['quire_log_records{log="orders"}'] == 4
                assert shown['quire_reader_records{log="orders"}'] == 2
                assert shown['quire_leader{election="orders"}'] == 1
                assert shown['quire_elections_won_total{election="orders"}'] == 1
                assert shown['quire_takeover_seconds_count{outcome="ok"}'] == 1
                await reader.close()
            shown = scrape(registry)
            assert 'quire_log_epoch{log="orders"}' not in shown
            assert 'quire_reader_records{log="orders"}' not in shown
            assert 'quire_elections_lost_total{election="orders"}' not in shown

    play(scene)


def test_the_lag_of_a_reader_grows_while_its_program_works() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            async with await client.open_log("orders") as log:
                await log.append_many([b"a", b"b"])
            reader = await client.read_log("orders")
            await anext(reader)
            reader._clock = lambda: 4_000_000_000.0  # the program is still at the first record
            assert scrape(registry)['quire_reader_lag_seconds{log="orders"}'] > 1_000_000

    play(scene)


def test_a_recovery_and_its_reads_are_timed() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            writer = await client.create_ledger()
            await writer.append(b"a")
            ledger = writer.ledger
            writer.abandon()
            async with await client.open_ledger(ledger) as reader:
                assert (await reader.read_entry(0)).payload == b"a"
            shown = scrape(registry)
            assert shown['quire_recovery_seconds_count{outcome="ok"}'] == 1
            assert shown['quire_read_seconds_count{outcome="ok"}'] >= 1
            assert shown['quire_store_request_seconds_count{op="get",outcome="ok"}'] > 0

    play(scene)


def test_a_slow_bookie_costs_a_hedged_read() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            async with await client.create_ledger() as writer:
                await writer.append(b"a")
            reader = await client.open_ledger(writer.ledger)
            for number in range(3):
                cluster.pause(number)
                await reader.read_entry(0)
                cluster.resume(number)
            assert scrape(registry)['quire_hedged_reads_total{won="true"}'] >= 1

    play(scene, bookies=3)


def test_clients_of_one_registry_are_added_up_and_no_counter_falls() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as first:
            async with quire.connect(cluster.store_uri, metrics=registry) as second:
                for client in (first, second):
                    async with await client.create_ledger() as writer:
                        await writer.append(b"x")
                assert scrape(registry)['quire_append_total{outcome="ok"}'] == 2
            assert scrape(registry)['quire_append_total{outcome="ok"}'] == 2
        assert scrape(registry)['quire_append_total{outcome="ok"}'] == 2

    play(scene)


def test_nothing_is_registered_globally() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry) as client:
            await client.list_logs()
            assert not [each.name for each in REGISTRY.collect() if each.name.startswith("quire")]

    play(scene)


def test_every_figure_of_a_client_is_in_the_table_and_the_other_way_round() -> None:
    async def scene(cluster: MemoryCluster, registry: CollectorRegistry) -> None:
        async with quire.connect(cluster.store_uri, metrics=registry):
            shown = sorted(family.name for family in registry.collect())
        assert shown == sorted(each.family for each in METRICS if each.part is Owner.CLIENT)

    play(scene)


@pytest.mark.real_time
async def test_a_scrape_from_another_thread_asks_the_loop() -> None:
    registry = CollectorRegistry()
    with shown_in(registry) as meter:
        meter.appended(3, 0.1)
        shown = await asyncio.to_thread(scrape, registry)
    assert shown['quire_append_total{outcome="ok"}'] == 3
