"""Step 6, tailing: those who do not lead follow. Everybody shows everything, at once, once.

    python -m tutorial.step6_tailing --store ./dice-cluster --name alice

New: `follow=True`, while we wait to be elected. This is the whole application; `dice.py` is the
same in one piece.
"""

from __future__ import annotations

import asyncio

from tutorial import step1_dice, step5_tracking


class Player(step5_tracking.Player):
    """Follows until it is elected."""

    election_name = "dice-6"
    following: asyncio.Task[None] | None = None

    async def play(self) -> None:
        while True:
            self.following = asyncio.create_task(self.follow())
            try:
                election = self.client.election(self.election_name, self.name, session_timeout=2.0)
                async with election.lead() as leadership:
                    await self.stop_following()
                    self.say("becoming leader")
                    await self.lead(leadership)
            finally:
                await self.stop_following()

    async def follow(self) -> None:
        async with await self.client.read_log(
            self.election_name, self.next, follow=True, wait_for_log=True
        ) as reader:
            async for record in reader:
                self.show(record.position, record.payload[0], record.epoch, "following")

    async def stop_following(self) -> None:
        assert self.following is not None
        self.following.cancel()
        await asyncio.gather(self.following, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(step1_dice.play(Player))
