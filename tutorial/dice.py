"""A dice player: whoever leads rolls, everybody shows the same sequence.

    python -m tutorial.dice --store sqlite:///tmp/dice/metadata.db --name alice

Start it several times, kill players, pause them (Ctrl-Z) and wake them (fg). What each one prints
is always a prefix of the same sequence: a value is shown only when the log has it for ever, and a
leader that slept through its own deposition prints nothing of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys

import quire
from quire.errors import DeposedError, LeadershipLostError, OutcomeUnknownError, SessionExpiredError

LOG = "dice"
SESSION_SECONDS = 2.0
STEPPED_DOWN = (DeposedError, LeadershipLostError, OutcomeUnknownError, SessionExpiredError)
"""What ends a leadership. None of them says that the last roll was lost: reading on will tell."""


class Player:
    """One player: remembers where it is in the sequence, so that nothing is shown twice."""

    def __init__(self, client: quire.Client, name: str, interval: float) -> None:
        self.client = client
        self.name = name
        self.interval = interval
        self.dice = random.Random()
        self.next = quire.BEGINNING

    async def play(self) -> None:
        """Follow until elected, lead until deposed, for ever."""
        while True:
            following = asyncio.create_task(self.follow())
            try:
                election = self.client.election(LOG, self.name, session_timeout=SESSION_SECONDS)
                async with election.lead() as leadership:
                    await stop(following)
                    await self.lead(leadership)
            except STEPPED_DOWN as error:
                self.say(f"no longer leading: {error}")
            finally:
                await stop(following)

    async def follow(self) -> None:
        """Show every record from where we are, as it comes."""
        async with await self.client.read_log(
            LOG, self.next, follow=True, wait_for_log=True
        ) as reader:
            async for record in reader:
                self.show(record, "following")

    async def lead(self, leadership: quire.Leadership) -> None:
        """Take the log over, show what we missed, then roll until somebody takes it from us."""
        self.say("becoming leader")
        log = await self.client.open_log(LOG)
        try:
            async with await self.client.read_log(LOG, self.next) as reader:
                async for record in reader:
                    self.show(record, "catching up")
            while not leadership.is_lost:
                value = self.dice.randint(1, 6)
                position, _ = await log.append(bytes([value]))
                self.next = position.after
                print(line(position, value, log.epoch, "leading"), flush=True)
                await asyncio.sleep(self.interval)
        finally:
            log.abandon()

    def show(self, record: quire.Record, label: str) -> None:
        print(line(record.position, record.payload[0], record.epoch, label), flush=True)
        at = record.position
        self.next = quire.Position(at.segment, at.entry, at.slot + 1)

    def say(self, text: str) -> None:
        print(f"({self.name}: {text})", flush=True)


def line(position: quire.Position, value: int, epoch: int, label: str) -> str:
    return f"{position}  Value = {value}, epoch = {epoch}, {label}"


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it is gone; an error it ended with is raised here.

    `await task` would do, but then a cancellation of our own looks the same as the task's: whoever
    is told to stop while it waits here would swallow that and play on.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--store", required=True, help="metadata store of the cluster")
    arguments.add_argument("--name", required=True, help="what to call this player")
    arguments.add_argument("--interval", type=float, default=1.0, help="seconds between rolls")
    options = arguments.parse_args()
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    async with quire.connect(options.store) as client:
        await Player(client, options.name, options.interval).play()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except quire.QuireError as error:
        sys.exit(f"error: {error}")
    except (asyncio.CancelledError, KeyboardInterrupt):
        sys.exit(0)
