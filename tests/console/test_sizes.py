"""A console of a large cluster: pages stay small, and their cost does not grow with the cluster.

The figures of docs/console.md are of 100,000 ledgers: `python -m tests.console.sizes`. Here bytes
and requests to the store are compared, which no busy machine changes.
"""

from __future__ import annotations

import pytest

from tests.console.pages import Shown
from tests.console.sizes import PAGES, costs, large_console

BYTES_MAX = 200_000
ROWS_MAX = 100 + 40
"""A page of 100 rows, with heads, groups and smaller tables beside."""


@pytest.mark.slow
async def test_a_page_of_a_large_cluster_is_small() -> None:
    async with large_console(ledgers=2_000) as shown:
        for cost in await costs(shown):
            assert cost.bytes < BYTES_MAX, cost
            assert cost.rows <= ROWS_MAX, cost


async def store_requests(shown: Shown, page: str) -> int:
    """Return how many records a page reads."""
    store = shown.source.client._store
    read, get = [], store.get

    async def counted(path: str) -> object:
        read.append(path)
        return await get(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "get", counted)
        answer = await shown.http.get(page)
        assert answer.status_code == 200
    return len(read)


@pytest.mark.slow
async def test_a_page_reads_as_much_of_a_large_cluster_as_of_a_small_one() -> None:
    async with large_console(ledgers=200, logs=10, bookies=3) as shown:
        small = {page: await store_requests(shown, page.replace("50000", "50")) for page in PAGES}
    async with large_console(ledgers=3_000, logs=1_000, bookies=50) as shown:
        large = {page: await store_requests(shown, page.replace("50000", "50")) for page in PAGES}
    assert large == small
    assert max(large.values()) <= 101
