"""A bookie's figures, asked for over HTTP as Prometheus does, from a bookie that really serves."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quire.bookie import BookieAddress, BookieInfo
from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieUnavailableError,
    ConfigurationError,
    LedgerFencedError,
    NoSuchEntryError,
    StoreUnavailableError,
)
from quire.ledger.remote import RemoteBookie
from quire.metrics.figures import BOUNDS, Durations
from quire.metrics.meter import OK
from quire.metrics.table import BY_NAME, METRICS, PROCESS, Owner
from quire.run import pack_run
from quire.storage.identity.identity import format_directory
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.disowning import DisownCounts
from quire.storage.maintenance.self_repair import MendCounts
from quire.storage.server import serve
from quire.storage.serving.metered import Answered, Meter, MeteredBookie
from quire.storage.serving.metrics import serve_metrics
from quire.storage.serving.vitals import HealingFigures, Stage, Vitals
from quire.testing.bookie import MemoryBookie
from tests.support.counter import give_out
from tests.support.virtual import virtually

SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
SMALL = StorageOptions(segment_bytes=1024 * 1024)

ELSEWHERE = {
    f"{work}_{each.name}"
    for work, counts in (("mending", MendCounts), ("disowning", DisownCounts))
    for each in fields(counts)
}
"""Counters of tasks that a bookie alone does not have: they need a way to the others."""

ONLY_WITH_TLS = {"certificate_end_seconds"}

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def run_of(entry: int) -> bytes:
    return pack_run([SEALER.seal(entry, entry - 1, 2**40, b"x" * 1000)])


def ask(address: str) -> Figures:
    answer = httpx.get(f"http://{address}/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


def vitals_of(bookie: MemoryBookie) -> Vitals:
    """The vitals of a process that serves a bookie, and is registered."""
    vitals = Vitals()
    vitals.bookie = bookie
    vitals.is_registered = lambda: True
    vitals.reach(Stage.SERVING)
    return vitals


async def probe(address: str, path: str) -> tuple[int, dict[str, object]]:
    answer = await asyncio.to_thread(httpx.get, f"http://{address}{path}")
    return answer.status_code, answer.json()


@asynccontextmanager
async def served(
    path: Path, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[tuple[RemoteBookie, str]]:
    """A bookie of this process and the address of its figures."""
    store = f"sqlite://{path}/metadata.db"
    await give_out(store, below=9)
    await format_directory(path / "bookie", store)
    ready: asyncio.Future[BookieAddress] = asyncio.get_running_loop().create_future()
    caplog.set_level(logging.INFO, "quire.storage.server")
    serving = asyncio.create_task(
        serve(
            *(path / "bookie", store),
            on_ready=ready.set_result,
            options=SMALL,
            metrics="127.0.0.1:0",
        )
    )
    serving.add_done_callback(lambda _: ready.cancel())
    link = RemoteBookie(await ready)
    try:
        shown = re.search(r"http://(127\.0\.0\.1:\d+)/metrics", caplog.text)
        assert shown is not None
        yield link, shown[1]
    finally:
        await link.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def test_a_serving_bookie_shows_what_it_did(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with served(tmp_path, caplog) as (link, address):
            runs = [run_of(entry) for entry in range(3)]
            for run in runs:
                await link.add(7, KEY, run)
            assert await link.read(7, 0, 1) == runs[0] + runs[1]
            with pytest.raises(NoSuchEntryError):
                await link.read(7, 3, 3, fence_key=KEY)
            with pytest.raises(LedgerFencedError):
                await link.add(7, KEY, run_of(3))
            figures = await asyncio.to_thread(ask, address)

            def requests(request: str, outcome: str) -> float:
                labels = (("outcome", outcome), ("request", request))
                return figures["quire_bookie_request_seconds_count", labels]

            size = sum(map(len, runs))
            assert requests("add", "ok") == 3
            assert requests("add", "LedgerFencedError") == 1
            assert requests("read", "ok") == 1
            assert requests("fencing_read", "NoSuchEntryError") == 1
            assert figures["quire_bookie_request_bytes_total", (("request", "add"),)] == size
            read = figures["quire_bookie_request_bytes_total", (("request", "read"),)]
            assert read == len(runs[0] + runs[1])
            assert figures["quire_bookie_up", ()] == 1
            assert figures["quire_bookie_writable", ()] == 1
            assert figures["quire_bookie_ledgers", ()] == 1
            assert figures["quire_bookie_ledgers_in_limbo", ()] == 0
            assert figures["quire_bookie_disk_free_bytes", ()] > 0
            assert ("quire_bookie_collection_rounds_total", ()) in figures
            synced = (("place", "journal"), ("synced", "true"))
            assert figures["quire_bookie_disk_write_seconds_count", synced] >= 4
            written = figures["quire_bookie_disk_written_bytes_total", (("place", "journal"),)]
            assert written > size

            await link.add(8, Sealer(8, DigestKind.CRC32C, b"").access_key, _other_run())
            later = await asyncio.to_thread(ask, address)
            assert later["quire_bookie_ledgers", ()] == 2

    asyncio.run(main())


def test_every_figure_of_a_bookie_is_in_the_table_and_the_other_way_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with served(tmp_path, caplog) as (link, address):
            text = (await asyncio.to_thread(httpx.get, f"http://{address}/metrics")).text
            shown = set(re.findall("^# TYPE (\\w+) ", text, re.MULTILINE))
            counters = {*(await link.info()).counters, *ELSEWHERE}
        for name in counters:
            assert {f"quire_bookie_{name}", f"quire_bookie_{name}_total"} & BY_NAME.keys(), name
        assert shown >= set(PROCESS)
        shown -= set(PROCESS)
        rows = {each.name for each in METRICS if each.part is Owner.BOOKIE}
        missing = rows - shown
        assert shown <= rows
        assert {each.removeprefix("quire_bookie_").removesuffix("_total") for each in missing} == (
            ELSEWHERE | ONLY_WITH_TLS
        )

    asyncio.run(main())


def _other_run() -> bytes:
    return pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(0, -1, 2**40, b"y")])


def test_a_bookie_whose_storage_failed_is_not_up() -> None:
    class Failed(MemoryBookie):
        async def info(self) -> BookieInfo:
            raise BookieUnavailableError(self.bookie, "its journal failed")

    async def main() -> None:
        async with serve_metrics(vitals_of(Failed("b")), Meter(), "127.0.0.1", 0) as address:
            assert await asyncio.to_thread(ask, address) == {("quire_bookie_up", ()): 0}

    asyncio.run(main())


def test_a_bookie_with_tls_shows_when_its_certificate_ends() -> None:
    async def main() -> None:
        vitals, ends = vitals_of(MemoryBookie("b")), [1000.0]
        vitals.certificate_end = ends.pop
        async with serve_metrics(vitals, Meter(), "127.0.0.1", 0) as address:
            figures = await asyncio.to_thread(ask, address)
            assert figures["quire_bookie_certificate_end_seconds", ()] == 1000

    asyncio.run(main())


def test_what_can_fall_is_no_counter() -> None:
    class Mending(MemoryBookie):
        async def info(self) -> BookieInfo:
            counters = {"mending_entries": 7, "mending_ledgers_left": 3}
            return replace(await super().info(), counters=counters)

    async def main() -> None:
        async with serve_metrics(vitals_of(Mending("b")), Meter(), "127.0.0.1", 0) as address:
            figures = await asyncio.to_thread(ask, address)
        assert figures["quire_bookie_mending_entries_total", ()] == 7
        assert figures["quire_bookie_mending_ledgers_left", ()] == 3
        assert ("quire_bookie_mending_ledgers_left_total", ()) not in figures

    asyncio.run(main())


def test_a_bookie_shows_how_healing_goes_on_and_its_own_figures_without_the_store() -> None:
    class Store:
        is_away = False

        async def figures(self) -> HealingFigures:
            if self.is_away:
                raise StoreUnavailableError("store", "away")
            return {"quire_healing_ledgers": {("short",): 7.0}, "quire_healing_paused": {(): 1.0}}

    async def main() -> None:
        store, vitals = Store(), vitals_of(MemoryBookie("b"))
        vitals.look_at_healing = store.figures
        async with serve_metrics(vitals, Meter(), "127.0.0.1", 0) as address:
            shown = await asyncio.to_thread(ask, address)
            assert shown["quire_healing_ledgers", (("reason", "short"),)] == 7
            assert shown["quire_healing_paused", ()] == 1
            store.is_away = True
            alone = await asyncio.to_thread(ask, address)
            assert alone["quire_bookie_up", ()] == 1
            assert not [name for name, _ in alone if name.startswith("quire_healing_")]

    asyncio.run(main())


async def test_a_store_that_hangs_does_not_hold_up_the_figures() -> None:
    async def hang() -> HealingFigures:
        await asyncio.Event().wait()
        return {}

    vitals = vitals_of(MemoryBookie("b"))
    vitals.look_at_healing = hang
    assert await vitals.healing(2) == {}


def test_an_address_in_use_is_named_with_the_remedy() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConfigurationError, match=rf"127\.0\.0\.1:{port}.* port 0"):
                async with serve_metrics(vitals_of(MemoryBookie("b")), Meter(), "127.0.0.1", port):
                    pass

    asyncio.run(main())


def test_durations_are_counted_below_the_bound_they_reach() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, BOUNDS[-1], BOUNDS[-1] + 1):
        durations.add(seconds)
    assert durations.counts[:2] == [2, 1]
    assert durations.counts[-2:] == [1, 1]
    assert sum(durations.counts) == 5
    assert durations.seconds == pytest.approx(sum((BOUNDS[0] * 2.01, BOUNDS[-1] * 2, 1)))


def test_what_takes_no_turn_of_the_loop_takes_time_all_the_same() -> None:
    """uvloop's clock, as the one here, stands still within a turn."""

    async def main() -> None:
        meter = Meter()
        assert await MeteredBookie(MemoryBookie("b"), meter).list_entries(7) == []
        assert meter.requests[Answered("list_entries", OK)].seconds > 0

    virtually(main)


def test_an_address_in_brackets_is_served() -> None:
    """As IPv6 addresses are written; not every machine has one to try it with."""

    async def main() -> None:
        async with serve_metrics(
            vitals_of(MemoryBookie("b")), Meter(), "[127.0.0.1]", 0
        ) as address:
            port = address.removeprefix("[127.0.0.1]:")
            figures = await asyncio.to_thread(ask, f"127.0.0.1:{port}")
        assert figures["quire_bookie_up", ()] == 1

    asyncio.run(main())


@pytest.mark.real_time
async def test_each_path_answers_its_own_question() -> None:
    vitals = vitals_of(MemoryBookie("b"))
    async with serve_metrics(vitals, Meter(), "127.0.0.1", 0) as address:
        assert await probe(address, "/livez") == (200, {"status": "alive"})
        assert await probe(address, "/readyz") == (200, {"status": "ready"})
        for path in ("/", "/metrics/", "/healthz", "/readyz/x"):
            assert (await probe(address, path))[0] == 404


@pytest.mark.real_time
@pytest.mark.parametrize("stage", [each for each in Stage if each is not Stage.SERVING])
async def test_a_bookie_that_does_not_serve_is_alive_and_not_ready(stage: Stage) -> None:
    vitals = Vitals()
    vitals.reach(stage, "a remark")
    async with serve_metrics(vitals, Meter(), "127.0.0.1", 0) as address:
        assert (await probe(address, "/livez"))[0] == 200
        status, body = await probe(address, "/readyz")
        assert (status, body["reasons"]) == (503, [f"the bookie {stage}: a remark"])
        assert await asyncio.to_thread(ask, address) == {("quire_bookie_up", ()): 0}


async def test_a_bookie_is_not_ready_while_it_is_not_registered_or_drained() -> None:
    class Draining(MemoryBookie):
        async def info(self) -> BookieInfo:
            return replace(await super().info(), counters={"standing_draining": 1})

    vitals = vitals_of(Draining("b"))
    vitals.is_registered = lambda: False
    assert await vitals.reasons(60) == [
        "the bookie is not registered with the metadata store",
        "the bookie is being drained",
    ]


async def test_a_storage_that_failed_or_hangs_is_not_ready() -> None:
    class Failed(MemoryBookie):
        async def info(self) -> BookieInfo:
            raise BookieUnavailableError(self.bookie, "its journal failed")

    class Hanging(MemoryBookie):
        async def info(self) -> BookieInfo:
            await asyncio.Event().wait()
            return await super().info()

    (reason,) = await vitals_of(Failed("b")).reasons(60)
    assert "its journal failed" in reason
    assert await vitals_of(Hanging("b")).reasons(3) == ["the storage does not answer within 3 s"]
