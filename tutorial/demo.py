"""The main job in a minute: three players share one log while everything that may happen happens.

`make demo` runs this. It starts six bookies on the embedded store and three dice players, kills the
leader, pauses the next one past its lease and wakes it, kills a bookie that is being written to,
and lets the killed player come back without memory. Then it stops everything, compares what the
players printed with each other and with the log itself, and ends with a verdict and exit status.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import quire
from quire.cluster import LocalCluster
from tutorial.dice import LOG
from tutorial.stage import Player, Roll, Stage, State

BOOKIES: Final = 6
INTERVAL_SECONDS: Final = 0.25
ROLLS_A_SCENE: Final = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked at the end."""

    holds: bool
    claim: str


def scene(number: int, text: str) -> None:
    print(f"\n[{number}/7] {text}", flush=True)


def note(text: str) -> None:
    print(f"      {text}", flush=True)


async def perform(stage: Stage, cluster: LocalCluster) -> list[Finding]:
    """Play all scenes; returns what was noticed on the way."""
    store = str(cluster.directory)  # which has the certificates of a client, too
    scene(2, "Three players join. One is elected and rolls; a roll counts once two of three copies")
    note("are on disk. The others follow. Every line below is one roll and who has shown it.\n")
    for player in stage.players:
        await player.start(store, INTERVAL_SECONDS)
    print(stage.heading())
    await stage.until("a leader", lambda: stage.leader() is not None)
    await stage.until_rolls(ROLLS_A_SCENE)

    first = current_leader(stage)
    scene(3, f"{first.name} leads. Killing {first.name} with SIGKILL, in the middle of everything.")
    await first.end(signal.SIGKILL, State.KILLED)
    second = await next_leader(stage, first)
    await stage.until_rolls(ROLLS_A_SCENE)

    scene(4, f"Pausing {second.name} with SIGSTOP: it cannot know that its lease runs out.")
    await second.pause()
    third = await next_leader(stage, second)
    await stage.until_rolls(ROLLS_A_SCENE)
    missed = stage.newest() - len(second.rolls)
    old_epoch = second.rolls[-1].epoch
    note(f"Waking {second.name}, which still believes that it leads. It missed {missed} rolls.")
    second.send(signal.SIGCONT, State.PLAYING)
    await stage.until_rolls(ROLLS_A_SCENE)
    led = [roll.epoch for roll, label in second.lines() if label == "leading"]
    note(f"{second.name} was refused, and caught up on what it had missed.")

    bookie = await written_to(store, cluster)
    scene(5, f"Killing bookie {bookie}, which {third.name}'s rolls are being written to.")
    cluster.kill(bookie)
    await stage.until_rolls(ROLLS_A_SCENE)
    note("Nobody noticed: another bookie took its place.")

    scene(6, f"{first.name} comes back, remembering nothing, and shows the whole history.")
    again = stage.add(f"{first.name} again")
    await again.start(store, INTERVAL_SECONDS)
    print(stage.heading())
    await stage.until_rolls(ROLLS_A_SCENE)
    note(f"{again.name} showed {len(again.rolls)} rolls from the first on.")
    claim = f"{second.name}, woken after its deposition, led no further"
    return [Finding(max(led) == old_epoch, claim)]


def current_leader(stage: Stage) -> Player:
    leader = stage.leader()
    assert leader is not None
    return leader


async def next_leader(stage: Stage, previous: Player) -> Player:
    """Wait until somebody else leads, and say how long that took."""
    started = asyncio.get_running_loop().time()
    await stage.until("the next leader", lambda: stage.leader() is not None and not previous.leads)
    leader = current_leader(stage)
    seconds = asyncio.get_running_loop().time() - started
    note(f"{leader.name} leads now, epoch {leader.rolls[-1].epoch}, after {seconds:.1f} s.")
    return leader


async def written_to(store: str, cluster: LocalCluster) -> int:
    """The number of a bookie that holds the newest entries of the log."""
    async with quire.connect(store) as client:
        manifest = await client.log_info(LOG)
        info = await client.ledger_info(manifest.segments[-1].ledger)
    return cluster.index_of(info.fragments[-1].bookies[0])


async def curtain(stage: Stage) -> None:
    """Let everybody show one more roll, and stop all while nobody rolls."""
    scene(7, "Stopping everybody at once, and comparing what each of them printed.")
    await stage.until_rolls(1)
    players = stage.on_stage()
    await asyncio.gather(*(player.end(signal.SIGTERM, State.STOPPED) for player in players))


async def read_log(store: str) -> list[Roll]:
    """The log itself, read by none of the players, once nobody plays any more.

    It is taken over first: the last roll of a leader that ended on the spot is in the log, but
    readers are shown it only when somebody confirms it, as the next leader does.
    """
    async with quire.connect(store) as client:
        async with await client.open_log(LOG):
            pass
        return [
            Roll(record.position, record.payload[0], record.epoch)
            async for record in await client.read_log(LOG)
        ]


def compare(players: list[Player], log: list[Roll]) -> list[Finding]:
    """Hold what every player printed against the log."""
    findings = []
    for player in players:
        count = len(player.rolls)
        same = player.rolls == log[:count]
        extent = "all of it" if count == len(log) else f"its first {count}"
        claim = f"{player.name:<12} printed {count:>3} rolls: exactly the log's, {extent}"
        findings.append(Finding(same, claim if same else f"{claim}{difference(player, log)}"))
    epochs = [roll.epoch for roll in log]
    findings.append(
        Finding(
            epochs == sorted(epochs) and len(set(epochs)) >= 3,
            f"the log has {len(log)} rolls under {len(set(epochs))} leaders, epochs only grow",
        )
    )
    acked = {roll for player in players for roll in player.rolls}
    findings.append(Finding(acked <= set(log), "no roll that anybody ever showed is missing"))
    return findings


def difference(player: Player, log: list[Roll]) -> str:
    """Where a player printed something else than the log has."""
    for number, (roll, label) in enumerate(player.lines()):
        other = log[number] if number < len(log) else None
        if roll != other:
            has = "nothing" if other is None else f"{other.value} at {other.position}"
            return f"; it printed {roll.value} at {roll.position} ({label}), the log has {has}"
    return ""


def verdict(findings: list[Finding]) -> bool:
    print()
    for finding in findings:
        print(f"      {'✓' if finding.holds else '✗ NOT SO:'} {finding.claim}")
    good = all(finding.holds for finding in findings)
    if good:
        print(
            "\nPASSED: a leader killed, one paused and woken, a bookie lost, and still one history."
        )
    else:
        print("\nFAILED: see the lines marked ✗ above.")
    return good


async def main(*, tls: bool = False) -> bool:
    """Play the demo, with mutual TLS if asked for; return whether all findings hold."""
    stage = Stage(["alice", "bob", "carol"])
    with tempfile.TemporaryDirectory(prefix="quire-demo-") as directory:
        scene(1, f"Starting {BOOKIES} bookies, each a process with its own disk, in {directory}")
        async with LocalCluster(Path(directory), bookies=BOOKIES, tls=tls) as cluster:
            try:
                findings = await perform(stage, cluster)
                await curtain(stage)
                log = await read_log(str(cluster.directory))
            finally:
                await stage.end()
    return verdict(findings + compare(stage.players, log))


if __name__ == "__main__":
    try:
        sys.exit(0 if asyncio.run(main(tls="--tls" in sys.argv[1:])) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except (RuntimeError, quire.QuireError) as error:
        print(f"\nFAILED: {error}", file=sys.stderr)
        sys.exit(1)
