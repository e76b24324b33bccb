"""A client's figures: shown in the application's registry, added up over clients, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import quire
from quire.errors import AppendOutcomeUnknownError
from quire.ledger.options import LedgerOptions
from quire.metrics import client as client_figures
from quire.metrics.client import shown_in
from quire.metrics.meter import ELECTIONS_MAX
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


class Acting:
    """A handle without figures. A scrape that looks at it does something else."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def _figures(self) -> None:
        self._act()


async def test_a_client_that_ends_during_a_scrape_is_counted_once() -> None:
    registry, ending = CollectorRegistry(), ExitStack()
    ending.enter_context(shown_in(registry)).appended(3, 0.1)
    with shown_in(registry) as other:
        handle = Acting(ending.close)
        other.watch(handle)
        assert scrape(registry)['quire_append_total{outcome="ok"}'] == 3
        assert scrape(registry)['quire_append_total{outcome="ok"}'] == 3


@pytest.mark.real_time
async def test_a_scrape_from_another_thread_counts_in_the_loop() -> None:
    """There a count that appears meanwhile does not end it."""
    registry, loop, numbers = CollectorRegistry(), asyncio.get_running_loop(), count()

    class Outcome(str):
        """Names an error that is counted for the first time while it is looked at elsewhere."""

        def __hash__(self) -> int:
            with suppress(RuntimeError):
                if asyncio.get_running_loop() is loop:
                    return super().__hash__()
            meter.fetched(f"Error{next(numbers)}", 0.1)
            return super().__hash__()

    with shown_in(registry) as meter:
        for each in map(Outcome, ("ok", "NoSuchEntryError")):
            meter.fetched(each, 0.1)
        shown = await asyncio.to_thread(scrape, registry)
    assert shown['quire_read_seconds_count{outcome="ok"}'] == 1


class EndingLoop:
    """A loop that ends while it is asked: it is closed by then, or never comes to the question."""

    def __init__(self, way: str) -> None:
        self._way = way

    def is_running(self) -> bool:
        return True

    def call_soon_threadsafe(self, *_: object) -> None:
        if self._way == "closed":
            raise RuntimeError("Event loop is closed")


@pytest.mark.real_time
@pytest.mark.parametrize("way", ["closed", "stopped"])
async def test_a_client_with_a_loop_that_ends_is_shown_as_it_was(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_figures, "ANSWER_SECONDS", 0.01)
    registry = CollectorRegistry()
    with shown_in(registry) as meter:
        meter.appended(3, 0.1)
        await asyncio.to_thread(scrape, registry)
        monkeypatch.setattr(
            client_figures._collectors[registry].clients[0], "_loop", EndingLoop(way)
        )
        after = await asyncio.to_thread(scrape, registry)
    assert after['quire_append_total{outcome="ok"}'] == 3


async def test_elections_of_the_past_are_forgotten() -> None:
    """Clients of a gateway name its groups: a label for each would grow without end."""
    registry = CollectorRegistry()
    for part in range(3):
        with shown_in(registry) as meter:
            for number in range(ELECTIONS_MAX):
                meter.elected(f"group {part}.{number}")
                meter.lost(f"group {part}.{number}")
                meter.elected("orders")
            shown = scrape(registry)
        for family in ("won", "lost"):
            name = f"quire_elections_{family}_total"
            assert sum(each.startswith(name) for each in shown) == ELECTIONS_MAX
        assert shown['quire_elections_won_total{election="orders"}'] == (part + 1) * ELECTIONS_MAX
        assert f'quire_elections_lost_total{{election="group {part}.0"}}' in shown
