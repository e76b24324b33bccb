"""A program whose log tells every request: `python -m tests.support.request_client STORE FORMAT`.

It appends an entry, reads it, fences the ledger by a recovery, and follows another ledger. Its log
is on standard error, in lines of `text` or `json` as the command writes them. Standard output has
the ledgers, in one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

from quire import connect
from quire.cli.logs import LogOutput
from quire.ledger.options import LedgerOptions
from quire.ledgers import Replication

TOLD_SECONDS = 1e-9
"""A request over a socket takes longer, so all are in the log of slow requests."""

ONE = Replication(1, 1, 1)


async def main(store: str) -> None:
    """Make the requests one after the other: the log of slow requests has a bounded rate."""
    async with connect(store, options=LedgerOptions(slow_request=TOLD_SECONDS)) as client:
        writer = await client.create_ledger(ONE)
        await writer.append(b"followed by its id")
        async with (
            await client.open_ledger_without_recovery(writer.ledger) as reader,
            aclosing(reader.read_unconfirmed(0, 0)) as entries,
        ):
            await anext(entries)
        async with await client.open_ledger(writer.ledger):  # which fences it
            writer.abandon()
        async with (
            await client.create_ledger(ONE) as other,
            await client.open_ledger_without_recovery(other.ledger) as reader,
            aclosing(reader.follow()) as entries,
        ):
            following = asyncio.ensure_future(anext(entries))
            await asyncio.sleep(0)  # it subscribes, and waits
            await other.append(b"pushed")
            await other.append(b"and confirmed by the next")
            await following
        print(json.dumps({"fenced": writer.ledger, "followed": other.ledger}), flush=True)


if __name__ == "__main__":
    LogOutput(sys.argv[2], "debug").begin()
    asyncio.run(main(sys.argv[1]))
