"""Step 5, tracking: a player remembers where it is, and shows nothing twice.

    python -m tutorial.step5_tracking --store ./dice-cluster --name alice

New: the position behind the last value shown. A position is all that a reader has to remember; an
application that must survive its own death stores it with its state, or as a cursor of the log.
"""

from __future__ import annotations

import asyncio

import quire
from tutorial import step1_dice, step4_sharing


class Player(step4_sharing.Player):
    """Reads from where it is."""

    election_name = "dice-5"
    next = quire.BEGINNING

    async def catch_up(self) -> None:
        async with await self.client.read_log(self.election_name, self.next) as reader:
            async for record in reader:
                self.show(record.position, record.payload[0], record.epoch, "catching up")

    def show(self, position: quire.Position, value: int, epoch: int, label: str) -> None:
        super().show(position, value, epoch, label)
        self.next = position.after


if __name__ == "__main__":
    asyncio.run(step1_dice.play(Player))
