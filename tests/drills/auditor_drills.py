"""Drills in which the bookies' own auditor heals the cluster. See drills.py for what a drill is."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from quire.entry import LedgerId
from tests.drills.scene import DrillError, Proof, Scene, check, scene

LEDGERS: Final = 60
ENTRIES: Final = 10
WAIT_SECONDS_MAX: Final = 90.0
QUICK: Final = """
[bookie.serve]
healing-delay = "3s"

[bookie.serve.storage]
collect-seconds = "1s"
disown-seconds = "2s"
mend-seconds = "200ms"
"""
"""What production does in ten minutes or an hour, in seconds."""


@asynccontextmanager
async def healing_scene(bookies: int) -> AsyncIterator[Scene]:
    """A cluster whose bookies heal it within seconds."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        file = Path(directory) / "quire.toml"
        file.write_text(QUICK)
        with patch.dict(os.environ, {"QUIRE_CONFIG": str(file)}):
            async with scene(bookies) as here:
                await _until(here, lambda found: found["state"] == "idle")
                yield here


async def _until(here: Scene, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what `quire healing status` says, once something holds of it."""
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not found or not holds(found):
                (found,) = (await here.command("healing", "status", "--json")).json
    except TimeoutError:
        raise DrillError(f"it never came true: {found}") from None
    return found


def _is_healed(found: dict[str, Any]) -> bool:
    """Whether a bookie was lost and nothing is left to do."""
    return bool(found["lost"]) and found["state"] == "idle" and not found["open"]


async def _ledgers_of(here: Scene, bookie: str) -> int | None:
    listed = await here.command("bookie", "list", "--json")
    return next((each["ledgers"] for each in listed.json if each["bookie"] == bookie), None)


def _disk_bytes(here: Scene, index: int) -> int:
    root = here.cluster.directory / f"bookie-{index}" / "entries"
    return sum(each.stat().st_size for each in root.glob("*.entries"))


async def _read_all(here: Scene, ledgers: list[LedgerId]) -> None:
    for ledger in ledgers:
        async with await here.client.open_ledger(ledger) as reader:
            found = [each.payload async for each in reader.read(0)]
            check(len(found) == ENTRIES, f"ledger {ledger} has {len(found)} entries")


async def returned() -> Proof:
    """A lost bookie that returns gives up the copies that others made, and nothing is lost."""
    async with healing_scene(5) as here:
        ledgers = await here.closed_ledgers(LEDGERS, ENTRIES)
        await here.cluster.restart(0)  # it has flushed all to its entry logs then
        bookie, held = here.bookie(0), await _ledgers_of(here, here.bookie(0))
        before = _disk_bytes(here, 0)
        await here.kill(0)
        await _until(here, _is_healed)
        await here.cluster.restart(0)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while await _ledgers_of(here, bookie) != 0 or _disk_bytes(here, 0) >= before // 2:
                pass  # a command takes a second
        await here.check_whole()
        await _read_all(here, ledgers)
        await here.kill(0)
        shutil.rmtree(here.cluster.directory / "bookie-0")
        await _read_all(here, ledgers)
        return Proof(f"it gave up {held} ledgers, {before} bytes of entry logs shrank to few")


async def paused() -> Proof:
    """A pause is shown, moves nothing, and ends."""
    async with healing_scene(4) as here:
        await here.closed_ledgers(LEDGERS, ENTRIES)
        await here.command("healing", "pause", "--reason", "a drill", "--until", "10m")
        bookie = await here.kill(0)
        found = await _until(here, lambda it: bool(it["lost"]))
        check(found["state"] == "paused", f"it is {found['state']}")
        check("a drill" in found["why"], f"the reason is not shown: {found['why']}")
        health = await here.command("cluster", "health", code=None)
        check("paus" in health.out, f"the cluster's health does not name the pause: {health.out}")
        asked = await here.command("healing", "list", "--json")
        check(not asked.json, f"bookies were asked for copies: {asked.out[:200]}")
        await here.command("healing", "resume")
        await _until(here, _is_healed)
        await here.check_whole()
        return Proof(f"nothing moved from bookie {bookie} while paused, all of it afterwards")


async def silenced() -> Proof:
    """A third of the bookies missing at once: nothing moves until an operator says go."""
    async with healing_scene(6) as here:
        await here.closed_ledgers(LEDGERS, ENTRIES)
        for index in range(2):
            here.cluster.kill(index)
        found = await _until(here, lambda it: it["state"] == "mass-loss")
        health = await here.command("cluster", "health", code=11)
        asked = await here.command("healing", "list", "--json")
        check(not asked.json, f"bookies were asked for copies: {asked.out[:200]}")
        await here.command("healing", "go")
        await _until(here, _is_healed)
        await here.check_whole()
        return Proof(f"{found['why']}; health: {health.out.splitlines()[0]}")
