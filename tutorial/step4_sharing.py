"""Step 4, sharing: one log for all leaders. Each reads the history before it adds to it.

    python -m tutorial.step4_sharing --store ./dice-cluster --name alice

New: `open_log` instead of a ledger. It fences whoever led before, so that from now on a leader that
was paused says nothing more: its append is refused. And it makes the values of all leaders one
sequence, which a new leader shows from the beginning, every time.
"""

from __future__ import annotations

import asyncio

import quire
from quire.errors import DeposedError, LeadershipLostError, OutcomeUnknownError
from tutorial import step1_dice, step2_election

LEADER_NO_MORE = (DeposedError, LeadershipLostError, OutcomeUnknownError)
"""None of them says that the last value was lost: the next to read the log will know."""


class Player(step2_election.Player):
    """Takes the log over, shows what is in it, and goes on from there."""

    election_name = "dice-4"

    async def lead(self, leadership: quire.Leadership) -> None:
        try:
            log = await self.client.open_log(
                self.election_name, is_leader=lambda: not leadership.is_lost
            )
            await self.catch_up()
            while not leadership.is_lost:
                value = self.throw()
                position, _ = await log.append(bytes([value]))
                self.show(position, value, log.epoch, "leading")
                await asyncio.sleep(self.interval)
            log.abandon()
            self.say(f"({self.name}: no longer leading)")
        except LEADER_NO_MORE as error:
            self.say(f"({self.name}: no longer leading: {error})")

    async def catch_up(self) -> None:
        async with await self.client.read_log(self.election_name) as reader:
            async for record in reader:
                self.show(record.position, record.payload[0], record.epoch, "catching up")

    def show(self, position: quire.Position, value: int, epoch: int, label: str) -> None:
        self.say(f"{position}  Value = {value}, epoch = {epoch}, {label}")


if __name__ == "__main__":
    asyncio.run(step1_dice.play(Player))
