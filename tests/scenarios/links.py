"""The lines of a scenario's clients: to bookies, to the store, each under the script's control.

A request of `client` to `bookie` passes the rules in the order they were made; the last that
matches decides:

    up      it arrives and is answered
    down    refused at once
    hung    it never arrives and is never answered
    mute    it arrives and is carried out; the answer is lost
    held    it waits on the line until the rule is gone

A process that ends breaks its lines: what is held fails, and what was not answered never will be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from quire.bookie import READ_BYTES_MAX, Bookie, BookieInfo, LedgerTail, Stride
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import BookieUnavailableError
from quire.outline import Outline

T = TypeVar("T")

KINDS = {
    "adds": ("add", "sync"),
    "reads": ("read",),
    "tails": ("read_tail", "wait_tail"),
    "syncs": ("sync",),
}


@dataclass(frozen=True)
class Rule:
    """What happens to matching requests; None matches all."""

    bookie: BookieId
    mode: str
    methods: tuple[str, ...] | None
    client: str | None


class Lines:
    """All lines to bookies. `processes` has the bookies that run."""

    def __init__(self) -> None:
        self.processes: dict[BookieId, Bookie] = {}
        self._rules: list[Rule] = []
        self._changed = asyncio.Event()

    def rule(self, rule: Rule) -> None:
        """Add a rule; one for everything of a bookie replaces those before it."""
        if rule.methods is None and rule.client is None:
            self._rules = [each for each in self._rules if each.bookie != rule.bookie]
        self._rules.append(rule)
        self.changed()

    def changed(self) -> None:
        """Let held requests look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _mode(self, client: str, bookie: BookieId, method: str) -> str:
        mode = "up"
        for rule in self._rules:
            if rule.bookie == bookie and rule.client in (None, client):
                mode = rule.mode if rule.methods is None or method in rule.methods else mode
        return mode

    async def carry(
        self, client: str, bookie: BookieId, method: str, call: Callable[[Bookie], Awaitable[T]]
    ) -> T:
        """Carry a request over the line and its answer back."""
        process = self.processes.get(bookie)
        while (mode := self._mode(client, bookie, method)) == "held":
            if process is None or process is not self.processes.get(bookie):
                break
            await self._changed.wait()
        if mode == "hung":
            await asyncio.Event().wait()
        if mode == "down" or process is None or process is not self.processes.get(bookie):
            raise BookieUnavailableError(bookie, "connection refused")
        answer = await call(process)
        if mode == "mute" or self.processes.get(bookie) is not process:
            await asyncio.Event().wait()
        return answer


class Line:
    """A bookie at the far end of one client's line."""

    def __init__(self, lines: Lines, client: str, bookie: BookieId) -> None:
        self._lines = lines
        self._client = client
        self._bookie = bookie

    async def _carry(self, method: str, call: Callable[[Bookie], Awaitable[T]]) -> T:
        return await self._lines.carry(self._client, self._bookie, method, call)

    async def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> None:
        await self._carry(
            "add", lambda far: far.add(ledger, key, run, recovery=recovery, deferred=deferred)
        )

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        return await self._carry(
            "read",
            lambda far: far.read(
                ledger, first, last, fence_key=fence_key, bytes_max=bytes_max, stride=stride
            ),
        )

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        return await self._carry(
            "read_tail", lambda far: far.read_tail(ledger, fence_key=fence_key)
        )

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        return await self._carry("wait_tail", lambda far: far.wait_tail(ledger, above, timeout))

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        await self._carry("write_lac", lambda far: far.write_lac(ledger, key, packet))

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        return await self._carry("sync", lambda far: far.sync(ledger, key, first, last))

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        return await self._carry("list_entries", lambda far: far.list_entries(ledger, first))

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        return await self._carry("list_ledgers", lambda far: far.list_ledgers(first))

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        return await self._carry("outlines", lambda far: far.outlines(ledgers))

    async def info(self) -> BookieInfo:
        return await self._carry("info", lambda far: far.info())

    async def close(self) -> None:
        return None
