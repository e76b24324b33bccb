"""`python -m tests.console.sizes`: what each page of a console costs on a large cluster.

100,000 ledgers, 1,000 logs and 50 bookies, in memory: so the figures are the console's own work,
and the store's time comes on top. Seconds are of a processor, bytes are those of the answer.
"""

from __future__ import annotations

import asyncio
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from quire.client import Client
from quire.metastore.layout import ledger_path
from quire.testing.cluster import MemoryCluster
from tests.console import scene
from tests.console.pages import Shown, console_of

LEDGERS, LOGS, BOOKIES, GATEWAYS = 100_000, 1_000, 50, 12
TRIES: Final = 5
PAGES: Final = (
    *("/", "/bookies", "/bookies?order=pace", "/logs", "/logs?order=growth&page=10"),
    *("/logs?find=log-09", "/log?name=orders", "/records?log=orders&from=beginning", "/healing"),
    *("/ledgers", f"/ledgers?from={LEDGERS // 2}", "/ledger?id=0", "/growth", "/connections"),
    "/gateways",
)


class Cost(NamedTuple):
    """What a page costs."""

    page: str
    seconds: float
    bytes: int
    rows: int


@asynccontextmanager
async def large_console(
    ledgers: int = LEDGERS, logs: int = LOGS, bookies: int = BOOKIES
) -> AsyncIterator[Shown]:
    """Show a large cluster: its ledgers are records of the store, the rest is made up."""
    async with MemoryCluster() as cluster, console_of(cluster) as shown:
        client = shown.source.client
        async with await client.create_ledger() as writer:
            await writer.append(b"the first")
        async with await client.open_log("orders") as log:
            await log.append_many([b"x" * 1000] * 100)
        record = await client._store.get(ledger_path(writer.ledger))
        for ledger in range(await _next(client), ledgers):
            await client._store.create(ledger_path(ledger), record.value)
        shown.show(scene.with_gateways(scene.healthy(bookies, logs), GATEWAYS))
        yield shown


async def _next(client: Client) -> int:
    return max(await client.list_ledgers()) + 1


async def costs(shown: Shown) -> list[Cost]:
    """Return the costs of all pages, each the least of some tries."""
    found = []
    for page in PAGES:
        taken = []
        for _ in range(1 + TRIES):  # the first compiles the template
            began = time.process_time()
            answer = await shown.http.get(page)
            taken.append(time.process_time() - began)
            assert answer.status_code == 200, f"{page}: {answer.text[:300]}"
        found.append(Cost(page, min(taken), len(answer.content), answer.text.count("<tr")))
    return found


async def main() -> None:
    """Print the costs as a table of the documents."""
    async with large_console() as shown:
        print("| page | ms | KB |\n|---|---|---|")
        for each in await costs(shown):
            print(f"| `{each.page}` | {each.seconds * 1000:.0f} | {each.bytes / 1000:.0f} |")
        tracemalloc.start()
        for page in PAGES:
            await shown.http.get(page)
        _, peak = tracemalloc.get_traced_memory()
        print(f"\nmemory of all pages at its peak: {peak / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
