"""Safeguards of a replicated service: when a command is applied, and what a reader waits for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from quire.errors import QuireError
from quire.service import office, service
from tests.sim.ablations.patch import Patch


def apply_before_it_is_in_the_log() -> list[Patch]:
    async def apply_confirmed(self: Any) -> None:
        replica = self._apply.func.__self__
        while (owed := await self._owed.get()) is not None:
            result = self._apply(owed.payload, replica._next)
            try:
                replica._next = (await owed.position).after
            except QuireError as error:
                owed.fail(error)
            else:
                owed.succeed(result)

    return [(office.Office, "_apply_confirmed", apply_confirmed)]


def lead_without_reading_on() -> list[Patch]:
    whole = service.Service._read_on

    async def read_on(self: Any, *, follow: bool) -> None:
        if follow:
            await whole(self, follow=True)

    return [(service.Service, "_read_on", read_on)]


def read_what_is_there() -> list[Patch]:
    async def barrier(self: Any) -> None:
        self._leading()

    return [(service.Service, "barrier", barrier)]


def trim_before_the_snapshot() -> list[Patch]:
    async def write_snapshot(self: Any, log: Any, at: Any, offset: int, state: bytes) -> None:
        try:
            await log.trim(at)
            await self._snapshots.write(log.log_id, at, offset, state, log.options.replication)
        except QuireError:
            return

    return [(service.Service, "_write_snapshot", write_snapshot)]


def close_for_who_waits_only() -> list[Patch]:
    whole = service.Service.close

    async def close(self: Any) -> None:
        if self._office is not None and self._failure is None:
            with suppress(QuireError):
                await self.hand_over()
        await whole(self)

    return [(service.Service, "close", close)]
