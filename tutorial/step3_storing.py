"""Step 3, storing: a value is said only when it is stored on a quorum of bookies.

    python -m tutorial.step3_storing --store ./dice-cluster --name alice

New: `create_ledger` and `append`. What was said can no longer be lost; but every leader writes a
ledger of its own that nobody reads, and a leader that was paused can still append to its own.
"""

from __future__ import annotations

import asyncio

import quire
from tutorial import step1_dice, step2_election


class Player(step2_election.Player):
    """Writes each value to a ledger before it says it."""

    election_name = "dice-3"

    async def lead(self, leadership: quire.Leadership) -> None:
        async with await self.client.create_ledger() as ledger:
            while not leadership.is_lost:
                value = self.throw()
                entry = await ledger.append(bytes([value]))
                self.say(f"Value = {value}, ledger = {ledger.ledger}, entry = {entry}")
                await asyncio.sleep(self.interval)


if __name__ == "__main__":
    asyncio.run(step1_dice.play(Player))
