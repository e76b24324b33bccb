"""The runbook of docs/operations.md on hosts of our own: three ZooKeepers, four bookies.

The servers are configured by deploy/zookeeper/zoo.cfg. Each of them is lost in turn, the one that
leads among them, while a log is written and its leader changes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.netns.site import BOOKIES, PLAYERS, site
from tests.netns.test_partitions import DEADLINE_SECONDS, another_leads, more_acked

ZOOKEEPERS = ("zoo1", "zoo2", "zoo3")


def test_any_one_zookeeper_may_be_lost(tmp_path: Path) -> None:
    async def main() -> None:
        with site(tmp_path, ZOOKEEPERS) as here:
            status = json.loads(here.quire("cluster", "status", "--json", f"--store={here.store}"))
            modes = sorted(each["mode"] for each in status["zookeeper"])
            assert modes == ["follower", "follower", "leader"]
            assert status["writable"] == len(BOOKIES)
            async with asyncio.timeout(DEADLINE_SECONDS), here.players("runbook") as workers:
                for name in ZOOKEEPERS:
                    slot = await workers.new_leader(0)
                    rest = [each for each in here.network.hosts if each != name]
                    here.network.cut(name, rest)
                    await workers.kill(slot)
                    other = await another_leads(workers, slot)
                    await workers.start(slot)
                    here.network.heal()
                    await more_acked(workers, other, 100)
            assert len(workers.lives) == len(PLAYERS) + len(ZOOKEEPERS)

    asyncio.run(main())
