"""Drills on real processes: a bookie that is killed, restarted, besieged, and a gateway. They are
scraped over HTTP as Prometheus does. Only the monitor's clock moves while a state lasts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from quire import connect
from quire.cluster import LocalCluster
from quire.wire.framed import HELLO_GREETING, pack_message
from quire.wire.transport import split_address
from tests.alerts.drill import drill
from tests.alerts.monitor import Look, Monitor
from tests.support.command import started

CONFIGURATION: Final = '[bookie.serve]\nmetrics = "127.0.0.1:0"\n'
SHOWN: Final = re.compile(r"are at (http://127\.0\.0\.1:\d+/metrics)")
ANSWER_SECONDS: Final = 30.0
"""A machine that is busy is no program that is down."""

STRANGERS: Final = 20
"""Peers between two scrapes."""


def figures_at(url: str) -> list[Metric] | None:
    """Return what a program shows; None if no program answers there."""
    try:
        with urlopen(url, timeout=ANSWER_SECONDS) as answer:
            text = answer.read().decode()
    except ConnectionError:
        return None
    except URLError as error:
        if isinstance(error.reason, ConnectionError):
            return None
        raise
    return list(text_string_to_metric_families(text))


def looking_at(url: str) -> Look:
    """Return what asks a program that stays at one address."""

    async def look() -> Iterable[Metric] | None:
        return await asyncio.to_thread(figures_at, url)

    return look


@asynccontextmanager
async def serving(monitor: Monitor, bookies: int = 1) -> AsyncIterator[LocalCluster]:
    """Run bookies that show their figures, and scrape the first."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        file = Path(directory) / "quire.toml"
        file.write_text(CONFIGURATION)
        with patch.dict(os.environ, {"QUIRE_CONFIG": str(file)}):
            async with LocalCluster(Path(directory) / "data", bookies) as cluster:

                async def look() -> Iterable[Metric] | None:
                    log = (cluster.directory / "bookie-0.log").read_text(encoding="utf-8")
                    return await asyncio.to_thread(figures_at, SHOWN.findall(log)[-1])

                monitor.add("quire-bookie", "b1", look)
                yield cluster


@drill("QuireBookieDown", "QuireBookieDownLong", is_real=True)
async def killed_bookie(monitor: Monitor) -> None:
    """A bookie's process is killed, and nothing starts it again."""
    async with serving(monitor) as cluster:
        await monitor.calm()
        cluster.kill(0)
        await monitor.until_all_fired()


@drill("QuireBookieRestarts", is_real=True)
async def restarting_bookie(monitor: Monitor) -> None:
    """A bookie's process ends and is started again, three times in a row."""
    async with serving(monitor) as cluster:
        await monitor.calm(60.0)
        for _ in range(3):
            await cluster.restart(0)
            await monitor.scrape()
            await monitor.watch(30.0)
        await monitor.until_all_fired()


@drill("QuireDescriptors", is_real=True)
async def few_descriptors(monitor: Monitor) -> None:
    """A bookie may open hardly more files than it has open."""
    async with serving(monitor) as cluster:
        await monitor.calm()
        pid = cluster.pid(0)
        least = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (least + 8, least + 8))
        await monitor.until_all_fired()


@drill("QuirePeersRefused", is_real=True)
async def strangers(monitor: Monitor) -> None:
    """Programs that greet with something else than a hello connect to a bookie, again and again."""
    async with serving(monitor) as cluster:
        await monitor.calm()
        async with connect(cluster.store_uri) as client:
            (address,) = client.bookies()
        assert address.runs is not None
        host, port = split_address(address.runs)

        async def greet() -> None:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(HELLO_GREETING + pack_message(b"no hello"))
            await reader.read(1)  # of the refusal, which is counted then
            writer.close()

        async def besiege() -> None:
            await asyncio.gather(*(greet() for _ in range(STRANGERS)))

        await monitor.until_all_fired(besiege)


@drill("QuireGatewayDown", is_real=True)
async def killed_gateway(monitor: Monitor) -> None:
    """A gateway's process is killed, and nothing starts it again."""
    async with LocalCluster(bookies=3) as cluster:
        options = ("gateway", "serve", "--listen", "127.0.0.1:0", "--json")
        with started(*options, store=cluster.store_uri) as process:
            assert process.stdout is not None
            said = json.loads(await asyncio.to_thread(process.stdout.readline))
            monitor.add("quire-gateway", "g1", looking_at(f"{said['gateway']}/metrics"))
            await monitor.calm()
            process.kill()
            await asyncio.to_thread(process.wait)
            await monitor.until_all_fired()


PROCESS_DRILLS: Final = (
    *(killed_bookie, restarting_bookie, few_descriptors, strangers, killed_gateway),
)
