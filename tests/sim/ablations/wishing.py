"""Safeguards of a bookie that obeys an operator, and what replaces them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from quire.bookie import refused
from quire.entry import LedgerId
from quire.errors import NoSuchEntryError, ReadOnlyBookieError
from quire.metastore.standing import Standing
from quire.storage.serving.obedient import ObedientBookie
from tests.sim.ablations.patch import Patch


def take_entries_off_duty() -> list[Patch]:
    """The registration says that the bookie takes none, and it takes them all the same."""
    return [(ObedientBookie, "_refuses", lambda *_: False)]


def refuse_recoveries_off_duty() -> list[Patch]:
    """A bookie off duty refuses every add, as if recoveries were not the reason that it is up."""

    def add(self: ObedientBookie, ledger: LedgerId, *args: Any, **options: Any) -> Awaitable[None]:
        if self.is_off_duty:
            return refused(ReadOnlyBookieError(self.name, "it is off duty"))
        return self._bookie.add(ledger, *args, **options)

    return [(ObedientBookie, "add", add)]


def deny_off_duty() -> list[Patch]:
    """A bookie off duty answers as if it had nothing."""
    read = ObedientBookie.read

    async def deny(
        self: ObedientBookie, ledger: LedgerId, first: int, last: int, **options: Any
    ) -> bytes:
        if self.is_off_duty:
            raise NoSuchEntryError(ledger, first)
        return await read(self, ledger, first, last, **options)

    return [(ObedientBookie, "read", deny)]


def never_come_back() -> list[Patch]:
    """An away has no end of its own."""
    return [(Standing, "seconds_left", lambda *_: None)]
