"""The programs of the tutorial on a cluster of Apache BookKeeper: only their URI differs.

The dice players and the replicas of the key-value server are processes; leaders are killed and
stopped, and a bookie is killed. What they said is then held against the log, or against one order
of events.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Awaitable, Callable

import httpx

import quire
from quire.cli.copying import CopyOrder, copy_log
from quire.cluster import LocalCluster
from quire.log.manifest.options import LogOptions
from tests.interop.runs import COUNT, Scene, all_writable
from tests.tutorial.test_kv import CLIENTS, REPLICAS, Client, serving
from tutorial.demo import compare, current_leader, curtain, next_leader, read_log
from tutorial.kv.history import Operation, check
from tutorial.pausing import pause
from tutorial.stage import Stage, State

INTERVAL_SECONDS = 0.1
ROLLS = 10
ANSWERS = 10
"""Answers that each client waits for in a scene."""


async def the_dice_are_rolled(scene: Scene) -> str:
    """Play the demo's scenes: leaders die and sleep, a bookie dies, a player forgets all."""
    store = scene.servers.writable_uri
    stage = Stage(["alice", "bob", "carol"])
    victim = scene.rng.choice(sorted(scene.servers.bookies))
    try:
        for player in stage.players:
            await player.start(store, INTERVAL_SECONDS)
        await stage.until("a leader", lambda: stage.leader() is not None)
        await stage.until_rolls(ROLLS)
        first = current_leader(stage)
        await first.end(signal.SIGKILL, State.KILLED)
        second = await next_leader(stage, first)
        await stage.until_rolls(ROLLS)
        await second.pause()
        await next_leader(stage, second)
        await stage.until_rolls(ROLLS)
        second.send(signal.SIGCONT, State.PLAYING)
        await asyncio.to_thread(scene.servers.kill, victim)
        await stage.until_rolls(ROLLS)
        await stage.add("forgetful").start(store, INTERVAL_SECONDS)
        await stage.until_rolls(ROLLS)
        await curtain(stage)
    finally:
        await stage.end()
        await asyncio.to_thread(scene.servers.ensure, victim)
    await all_writable(scene.servers, scene.client)
    log = await read_log(store)
    wrong = [each.claim for each in compare(stage.players, log) if not each.holds]
    assert not wrong, wrong
    return f"{len(log)} rolls, epochs {sorted({roll.epoch for roll in log})}"


async def the_key_value_server_serves(scene: Scene) -> str:
    """Let clients ask at random while leaders die and sleep; the answers fit one order."""
    history: list[Operation] = []
    async with (
        serving([scene.servers.writable_uri] * REPLICAS) as servers,
        httpx.AsyncClient(follow_redirects=True, timeout=3.0) as http,
    ):
        clients = [Client(number, servers.addresses, history) for number in range(CLIENTS)]
        first = await servers.leader(http)
        asking = _ask(clients, http)
        await servers.kill(first)
        second = await servers.leader(http, but=first)
        await servers.start(first)
        await asking
        asking = _ask(clients, http)
        await pause(servers.processes[second], servers.stores[second])
        await servers.leader(http, but=second)
        await asking
        asking = _ask(clients, http)
        servers.signal(second, signal.SIGCONT)
        await asking
    answered = sum(client.answered for client in clients)
    assert check(history) == []
    return f"{answered} answers of {len(history)} fit one order"


def _ask(clients: list[Client], http: httpx.AsyncClient) -> asyncio.Future[list[None]]:
    """Let every client ask until it has some more answers."""

    async def ask(client: Client, goal: int) -> None:
        while client.answered < goal:
            await client.request(http)

    return asyncio.gather(*(ask(client, client.answered + ANSWERS) for client in clients))


async def a_log_is_copied_there_and_back(scene: Scene) -> str:
    """Copy a log from quire's bookies to Apache's, and from there to quire's under another name."""
    name = f"moved-{scene.rng.getrandbits(32)}"
    with tempfile.TemporaryDirectory(prefix="quire-interop-") as directory:
        async with (
            LocalCluster(directory, 3) as cluster,
            quire.connect(cluster.store_uri) as own,
        ):
            async with await own.open_log(name) as log:
                for number in range(COUNT):
                    await log.append(b"%d" % number, txid=number)
            there, back = CopyOrder(name, name, LogOptions()), CopyOrder(name, "back", LogOptions())
            await copy_log(own, scene.client, there, lambda _: None)
            await copy_log(scene.client, own, back, lambda _: None)
            found = [(each.payload, each.txid) async for each in own.read_log("back")]
    assert found == [(b"%d" % number, number) for number in range(COUNT)]
    return f"{len(found)} records"


PROGRAMS: dict[str, Callable[[Scene], Awaitable[str]]] = {
    each.__name__: each
    for each in (
        the_dice_are_rolled,
        the_key_value_server_serves,
        a_log_is_copied_there_and_back,
    )
}
