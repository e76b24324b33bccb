"""Commands by which clients write and read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from quire.entry import EntryId
from quire.ledger.quorum import Replication
from quire.ledger.writer import LedgerWriter
from tests.scenarios.world import PASSWORD, StageBase, command, describe, shape


class ClientCommands(StageBase):
    """What clients do."""

    # Writing.

    @command(r"(?P<who>\w+) creates (?P<numbers>\d/\d/\d)(?P<traits>( \w[\w-]*)*)")
    async def _create(self, who: str, numbers: str, traits: str) -> None:
        client = await self.client(who)
        self.replication = Replication(*map(int, numbers.split("/")))
        wanted: dict[str, Any] = {trait.replace("-", "_"): True for trait in traits.split()}
        client.writer = await client.catalog.create(
            self.replication, password=PASSWORD, digest=self.digest, **wanted
        )
        self.ledger = client.writer.ledger
        self.say(f"ledger {self.ledger} {shape(client.writer._metadata)}")

    @command(r"(?P<who>\w+) appends (?P<payloads>\w+(?: \w+)*)")
    async def _append(self, who: str, payloads: str) -> None:
        writer = await self.writer(who)

        async def answers() -> str:
            return await self._answers(who, writer, payloads.split(), futures)

        futures = [await writer.submit(payload.encode()) for payload in payloads.split()]
        self.work(f"{who} appends {payloads}", answers())

    async def _answers(
        self,
        who: str,
        writer: LedgerWriter,
        payloads: Sequence[str],
        futures: Sequence[asyncio.Future[EntryId]],
    ) -> str:
        await asyncio.wait(futures)
        errors = [future.exception() for future in futures]
        good = [future.result() for future, error in zip(futures, errors, strict=True) if not error]
        parts = []
        if good:
            what = "confirmed" if writer.last_confirmed >= good[-1] else "only accepted"
            parts.append(f"{' '.join(payloads[: len(good)])} {what} as {spans(good)}")
        failed = sorted({describe(error) for error in errors if error is not None})
        if failed:
            parts.append(f"{' '.join(payloads[len(good) :])} failed: {'; '.join(failed)}")
        return f"{who}: {', '.join(parts)}"

    @command(r"(?P<who>\w+) closes")
    async def _close(self, who: str) -> None:
        writer = await self.writer(who)

        async def close() -> str:
            await writer.close()
            return f"{who} closed the ledger at {writer.last_confirmed}"

        self.work(f"{who} closes", close())

    @command(r"(?P<who>\w+) waits for the end of her time")
    async def _wait_ended(self, who: str) -> None:
        writer = await self.writer(who)

        async def wait() -> str:
            await writer.wait_ended()
            return f"{who} knows that she can append no more"

        self.work(f"{who} waits", wait())

    @command(r"(?P<who>\w+) forces")
    async def _force(self, who: str) -> None:
        writer = await self.writer(who)

        async def force() -> str:
            return f"{who} forced everything up to {await writer.force()}"

        self.work(f"{who} forces", force())

    @command(r"(?P<who>\w+) dies")
    async def _die(self, who: str) -> None:
        (await self.writer(who)).abandon()

    # Reading.

    @command(r"(?P<who>\w+) opens(?P<without> without recovery)?(?P<wrong> with a wrong password)?")
    async def _open(self, who: str, without: str | None, wrong: str | None) -> None:
        client = await self.client(who)
        call = client.catalog.open_without_recovery if without else client.catalog.open
        ledger, password = self.ledger, b"guess" if wrong else PASSWORD

        async def opening() -> str:
            client.reader = await call(ledger, password=password)
            return f"{who} opened it {shape(client.reader._metadata)}"

        self.work(f"{who} opens", opening())

    @command(r"(?P<who>\w+) reads(?: (?P<first>\d+)\.\.(?P<last>\d+))?(?P<risky> unconfirmed)?")
    async def _read(self, who: str, first: str | None, last: str | None, risky: str | None) -> None:
        reader = await self.reader(who)
        start, end = int(first or 0), None if last is None else int(last)

        async def read() -> str:
            if risky:
                assert end is not None
                entries = reader.read_unconfirmed(start, end)
            else:
                entries = reader.read(start, end)
            found = [f"{entry.entry} {entry.payload.decode()}" async for entry in entries]
            return f"{who} read {', '.join(found) or 'nothing'}"

        self.work(f"{who} reads", read())

    @command(r"(?P<who>\w+) asks for LAC")
    async def _lac(self, who: str) -> None:
        reader = await self.reader(who)

        async def ask() -> str:
            return f"{who} is told LAC {await reader.last_confirmed()}"

        self.work(f"{who} asks for LAC", ask())

    @command(r"(?P<who>\w+) follows")
    async def _follow(self, who: str) -> None:
        reader = await self.reader(who)

        async def follow() -> str:
            async for entry in reader.follow():
                self.say(f"{who} sees {entry.entry} {entry.payload.decode()}")
            return f"{who} has seen the end"

        self.work(f"{who} follows", follow())

    @command(r"(?P<who>\w+) deletes the ledger")
    async def _delete(self, who: str) -> None:
        await (await self.client(who)).catalog.delete(self.ledger)


def spans(entries: Sequence[EntryId]) -> str:
    """Return consecutive ids as first..last."""
    return f"{entries[0]}..{entries[-1]}" if len(entries) > 1 else str(entries[0])
