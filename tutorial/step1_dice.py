"""Step 1, base: one process throws dice. When it dies, the game is over.

python -m tutorial.step1_dice --name alice
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys

import quire


class Player:
    """Throws a die now and then and says what it shows."""

    def __init__(self, name: str, interval: float, client: quire.Client | None = None) -> None:
        self.name = name
        self.interval = interval
        self.dice = random.Random()
        self._client = client

    async def play(self) -> None:
        while True:
            self.say(f"Value = {self.throw()}")
            await asyncio.sleep(self.interval)

    def throw(self) -> int:
        return self.dice.randint(1, 6)

    def say(self, text: str) -> None:
        print(text, flush=True)

    @property
    def client(self) -> quire.Client:
        assert self._client is not None, "from step 2 on a cluster is needed: --store"
        return self._client


async def play(player: type[Player]) -> None:
    """Let a player play until Ctrl-C; every step is run by this."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--name", required=True, help="what to call this player")
    arguments.add_argument("--store", help="metadata store of the cluster, from step 2 on")
    arguments.add_argument("--interval", type=float, default=1.0, help="seconds between throws")
    options = arguments.parse_args()
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        if options.store is None:
            await player(options.name, options.interval).play()
        else:
            try:
                async with quire.connect(options.store) as client:
                    await player(options.name, options.interval, client).play()
            except quire.QuireError as error:
                sys.exit(f"error: {error}")


if __name__ == "__main__":
    asyncio.run(play(Player))
