"""Step 2, election: several processes, one of which plays. When it dies, another goes on.

    python -m tutorial.step2_election --store ./dice-cluster --name alice

New: `election.lead()`. Pause the leader with Ctrl-Z until another leads, and wake it with fg: it
says one more value while another leads. Who leads is a thing of the past by the time anybody acts
upon it; an election alone cannot change that.
"""

from __future__ import annotations

import asyncio

import quire
from tutorial import step1_dice

SESSION_SECONDS = 2.0


class Player(step1_dice.Player):
    """Stands for election for ever, and plays while it leads."""

    election_name = "dice-2"

    async def play(self) -> None:
        election = self.client.election(
            self.election_name, self.name, session_timeout=SESSION_SECONDS
        )
        while True:
            async with election.lead() as leadership:
                self.say("becoming leader")
                await self.lead(leadership)

    async def lead(self, leadership: quire.Leadership) -> None:
        while True:
            is_leader = not leadership.is_lost
            self.say(f"Value = {self.throw()}, is_leader = {is_leader}")
            if not is_leader:
                return
            await asyncio.sleep(self.interval)


if __name__ == "__main__":
    asyncio.run(step1_dice.play(Player))
