"""Drills in which the bookies' own auditor heals the cluster. See drills.py for what a drill is."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from quire.cluster import LocalCluster
from quire.entry import LedgerId
from quire.labels import Labels
from tests.drills.scene import DrillError, Proof, Scene, check, scene
from tests.drills.small_disk import note_of

LEDGERS: Final = 60
ENTRIES: Final = 10
AWAY_SECONDS: Final = 30.0
PAUSE: Final = "a drill prepares"
COPIED: Final = "copied"
FULL_BYTES: Final = 100 * 1024 * 1024
"""Less than a bookie's low mark."""
WATCH_SECONDS: Final = 10.0
BUSY_SHARE_MAX: Final = 0.05
QUICK: Final = """
[bookie.serve]
healing-delay = "3s"

[bookie.serve.storage]
collect-seconds = "1s"
disown-seconds = "2s"
mend-seconds = "200ms"
space-check-seconds = "500ms"
"""
"""What production does in ten minutes or an hour, in seconds."""


@asynccontextmanager
async def healing_scene(
    bookies: int,
    program: Sequence[str] = LocalCluster.program,
    labels: Sequence[Labels] = (),
) -> AsyncIterator[Scene]:
    """A cluster whose bookies heal it within seconds."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        file = Path(directory) / "quire.toml"
        file.write_text(QUICK)
        with patch.dict(os.environ, {"QUIRE_CONFIG": str(file)}):
            async with scene(bookies, labels, program=program) as here:
                await _until(here, lambda found: found["state"] == "idle")
                yield here


async def _until(here: Scene, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what `quire healing status` says, once something holds of it."""
    found: dict[str, Any] = {}

    async def is_told() -> bool:
        nonlocal found
        (found,) = (await here.command("healing", "status", "--json")).json
        return holds(found)

    try:
        await here.until(is_told, "the auditor's findings")
    except DrillError as error:
        raise DrillError(f"{error}: {found}") from None
    return found


async def _pause(here: Scene) -> None:
    """Let nothing move: what a drill prepares takes as long as the machine wants, and the
    auditor's delay is three seconds.
    """
    await here.command("healing", "pause", "--reason", PAUSE, "--until", "12h")
    await _until(here, lambda it: it["state"] == "paused")


async def _resume(here: Scene) -> None:
    await here.command("healing", "resume")


def _healed(*bookies: str) -> Callable[[dict[str, Any]], bool]:
    """Make the question whether bookies count as lost, and nothing is left to do."""

    def holds(found: dict[str, Any]) -> bool:
        is_done = found["state"] == "idle" and not found["open"]
        return is_done and set(bookies) <= set(found["lost"])

    return holds


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


async def spread() -> Proof:
    """Ledgers that lost a rack are copied within the others, and spread again once it is back."""
    racks = [Labels(rack=each) for each in ("r0", "r0", "r1", "r1", "r2")]
    async with healing_scene(5, labels=racks) as here:
        await _pause(here)
        ledgers = await here.closed_ledgers(LEDGERS, ENTRIES)
        rack = {each.bookie: each.labels.rack for each in here.client.bookies()}

        async def narrow() -> int:
            found = [await here.client.ledger_info(ledger) for ledger in ledgers]
            used = [{rack[name] for name in each.fragments[-1].bookies} for each in found]
            return sum(len(each) < 3 for each in used)

        check(await narrow() == 0, "new ledgers are not in all three racks")
        lost = await here.kill(4)
        await _resume(here)
        await _until(here, _healed(lost))
        narrowed = await narrow()
        check(narrowed == LEDGERS, f"{narrowed} ledgers of {LEDGERS} are in two racks")
        await here.cluster.restart(4)

        async def is_spread() -> bool:
            (told,) = (await here.command("healing", "status", "--json")).json
            return told["state"] == "idle" and await narrow() == 0

        await here.until(is_spread, "every ledger is in three racks again")
        await _until(here, lambda it: it["state"] == "idle" and not it["counts"].get("spread"))
        await here.whole()
        await _read_all(here, ledgers)
        moved = await here.copied()
        return Proof(f"{narrowed} ledgers in two racks are in three again", moved, COPIED)


async def returned() -> Proof:
    """A lost bookie that returns gives up the copies that others made, and nothing is lost."""
    async with healing_scene(5) as here:
        await _pause(here)
        ledgers = await here.closed_ledgers(LEDGERS, ENTRIES)
        await here.cluster.restart(0)  # it has flushed all to its entry logs then
        bookie, held = here.bookie(0), await _ledgers_of(here, here.bookie(0))
        before = _disk_bytes(here, 0)
        check(bool(held) and before > 0, f"it held {held} ledgers, {before} bytes of entry logs")
        await here.kill(0)
        await _resume(here)
        await _until(here, _healed(bookie))
        await _pause(here)  # nothing asks it for new copies
        await here.cluster.restart(0)

        async def has_given_up() -> bool:
            return await _ledgers_of(here, bookie) == 0 and _disk_bytes(here, 0) < before // 2

        await here.until(has_given_up, "it gives up what it held, and its disk falls")
        after = _disk_bytes(here, 0)
        await here.whole()
        await _read_all(here, ledgers)
        await here.kill(0)
        shutil.rmtree(here.cluster.directory / "bookie-0")
        await _read_all(here, ledgers)
        return Proof(
            f"it gave up {held} ledgers, and {before:,} bytes of entry logs shrank to {after:,}",
            *(before - after, "freed"),
        )


async def paused() -> Proof:
    """A pause is shown everywhere, moves nothing, and ends."""
    async with healing_scene(4) as here:
        await _pause(here)
        await here.closed_ledgers(LEDGERS, ENTRIES)
        bookie = await here.kill(0)
        found = await _until(here, lambda it: bookie in it["lost"])
        check(found["state"] == "paused", f"it is {found['state']}")
        check(PAUSE in found["why"], f"the reason is not shown: {found['why']}")
        health = await here.command("cluster", "health", code=None)
        check("paus" in health.out, f"the cluster's health does not name the pause: {health.out}")
        status = await here.command("cluster", "status", code=None)
        check("paus" in status.out, f"the cluster's status does not name it: {status.out}")
        await _none_asked(here)
        await _resume(here)
        await _until(here, _healed(bookie))
        await here.whole()
        return Proof(
            f"nothing moved from bookie {bookie} while paused, all of it afterwards",
            *(await here.copied(), COPIED),
        )


async def _none_asked(here: Scene) -> None:
    asked = await here.command("healing", "list", "--json")
    check(not asked.json, f"bookies were asked for copies: {asked.out[:200]}")


async def silenced() -> Proof:
    """Half of the bookies missing at once: nothing moves until an operator says go."""
    async with healing_scene(6) as here:
        await _pause(here)
        ledgers = await here.closed_ledgers(LEDGERS, ENTRIES)
        silent = [here.bookie(index) for index in range(3)]
        for index in range(3):
            here.cluster.kill(index)
        await here.registered(*silent, wanted=False)
        await _resume(here)  # they are missing at once, however long their sessions took to end
        found = await _until(here, lambda it: it["state"] == "mass-loss")
        health = await here.command("cluster", "health", code=11)
        await _none_asked(here)
        await here.command("healing", "go")
        # Ledgers with all copies on the three wait for these; every other one is made whole.
        left = await _until(here, lambda it: set(silent) <= set(it["lost"]) and not _to_copy(it))
        copied = await here.copied()
        for index in range(3):
            await here.cluster.restart(index)
        await _until(here, lambda it: not it["lost"] and not it["open"])
        await here.whole()
        await _read_all(here, ledgers)
        alone = left["counts"].get("no-copy", 0)
        return Proof(
            f"{found['why'].partition(':')[0]}; health: {health.out.splitlines()[0]}; after the go "
            f"all was copied but {alone} ledgers that only they had",
            *(copied, COPIED),
        )


def _to_copy(found: dict[str, Any]) -> int:
    """Return how many ledgers lack a copy that can be made. Requests for the others stay open."""
    counts = found["counts"]
    ready = sum(counts.get(each, 0) for each in ("one-copy", "short", "holes"))
    return int(ready or found["open"] - counts.get("no-copy", 0))


async def away() -> Proof:
    """An away ends by itself; until then nothing is copied, and afterwards the bookie is lost."""
    async with healing_scene(5) as here:
        await _pause(here)
        await here.closed_ledgers(LEDGERS, ENTRIES)
        bookie = await here.kill(0)
        seconds, until = AWAY_SECONDS, await _send_away(here, bookie, AWAY_SECONDS)
        while not (found := await _seen_away(here, until)):
            seconds *= 2  # a busy machine took longer than the away lasted
            until = await _send_away(here, bookie, seconds)
        await _resume(here)
        requests = found["totals"]["requests"]
        while found["at_ms"] < until:  # by the findings' own time: a command may take long
            check(bookie not in found["lost"], f"it is lost {until - found['at_ms']} ms too soon")
            check(found["totals"]["requests"] == requests, f"copies were asked for: {found}")
            found = await _until(here, lambda it: True)
        found = await _until(here, _healed(bookie))
        await here.whole()
        copied = found["totals"]["requests_ended"]
        return Proof(
            f"bookie {bookie} away for {seconds:.0f} s: nothing copied; then it was lost, and "
            f"{copied} ledgers copied",
            *(await here.copied(), COPIED),
        )


async def _seen_away(here: Scene, until_ms: int) -> dict[str, Any]:
    """Return the findings that count one bookie as away; nothing if its time is over before."""

    def is_told(found: dict[str, Any]) -> bool:
        return bool(found["bookies"]["away"] == 1 or found["at_ms"] >= until_ms)

    found = await _until(here, is_told)
    return found if found["bookies"]["away"] == 1 else {}


async def _send_away(here: Scene, bookie: str, seconds: float) -> int:
    """Set a bookie away that is missing, and return when that ends, in milliseconds."""
    wish = ("bookie", "away", bookie, "--for", f"{seconds:.0f}s", "--anyway", "--json")
    return int((await here.command(*wish)).json[0]["until_ms"])


async def voided() -> Proof:
    """An away is void as soon as another bookie is lost: the ledgers of both are copied."""
    async with healing_scene(6) as here:
        await _pause(here)
        ledgers = await here.closed_ledgers(LEDGERS, ENTRIES)
        await here.command("bookie", "away", here.bookie(0), "--for", "12h")
        first = await here.kill(0)
        await _resume(here)
        before = await _until(here, lambda it: it["bookies"]["away"] == 1)
        later = before["totals"]["rounds"] + 2
        found = await _until(here, lambda it: it["totals"]["rounds"] >= later)
        check(found["lost"] != [first], "the bookie that is away counts as lost")
        # While the second is not healed: so healing waits until both are seen to be lost.
        await _pause(here)
        second = await here.kill(1)
        await _until(here, lambda it: {first, second} <= set(it["lost"]))
        await _resume(here)
        found = await _until(here, _healed(first, second))
        await here.whole()
        await _read_all(here, ledgers)
        return Proof(
            f"{found['totals']['requests_ended']} ledgers copied, hours before its end",
            *(await here.copied(), COPIED),
        )


async def crowded() -> Proof:
    """Full disks take no copies: that is shown, costs no work, and healing goes on with space."""
    async with healing_scene(4, ("-m", "tests.drills.small_disk")) as here:
        await _pause(here)
        await here.closed_ledgers(LEDGERS, ENTRIES)
        for index in range(1, 4):
            note_of(here.cluster.directory / f"bookie-{index}").write_text(str(FULL_BYTES))
        await _until(here, lambda it: it["bookies"]["read-only"] == 3)
        bookie = await here.kill(0)
        await _resume(here)
        found = await _until(here, lambda it: it["state"] == "stuck")
        check("no room" in found["why"], f"it does not say why: {found['why']}")
        health = await here.command("cluster", "health", "--json", code=None)
        codes = [each["code"] for each in health.json[0]["reasons"]]
        check("no-room" in codes, f"the cluster's health does not name it: {codes}")
        share = await _busy_share(here, range(1, 4))
        check(share < BUSY_SHARE_MAX, f"a bookie is busy for {share:.1%} of the time")
        await _none_asked(here)
        for index in range(1, 4):
            note_of(here.cluster.directory / f"bookie-{index}").unlink()
        await _until(here, _healed(bookie))
        await here.whole()
        return Proof(
            f"{found['why'][:60]}; a bookie was busy for {share:.1%} of the time at most",
            *(await here.copied(), COPIED),
        )


async def _busy_share(here: Scene, indexes: Sequence[int]) -> float:
    """Return the largest share of the time that a bookie's process was at work."""
    pids = [here.cluster._process(each).pid for each in indexes]
    before = [worked(each) for each in pids]
    await asyncio.sleep(WATCH_SECONDS)
    after = [worked(each) for each in pids]
    return max(map(float.__sub__, after, before)) / WATCH_SECONDS


def worked(pid: int) -> float:
    """Return the seconds of a processor that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
