"""A bookie on a simulated disk that is spread over directories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from quire.metastore.memory import MemoryStore, MemoryTree
from quire.storage.disk.port import Disk
from quire.storage.identity.cookie import (
    Role,
    read_cookie,
    renew_cookie,
)
from quire.storage.identity.directories import with_parts
from quire.storage.identity.identity import (
    NewPart,
    expand_disk,
    format_disk,
    identify,
    settle_twin,
)
from quire.storage.journal.options import StorageOptions
from tests.sim.disk import SimDisk, SimMount
from tests.storage.scene import Scene
from tests.storage.test_crash_points import (
    TINY,
)
from tests.support.sub_disk import SubDisk


@dataclass
class SpreadScene(Scene):
    """A bookie with a journal of its own and one directory for entry logs; a second one is added
    before its second start.
    """

    options: StorageOptions = TINY
    tree: MemoryTree = field(default_factory=MemoryTree)

    async def formatted(self, mount: SimMount) -> tuple[Disk, str, str]:
        store = MemoryStore(self.tree)
        main = SubDisk(mount, await self._directory("main"))
        if await read_cookie(main) is None:
            # An interrupted format is begun anew elsewhere: nobody was ever served there.
            fresh = f"-{self.starts}"
            parts = [
                NewPart(role, name, SubDisk(mount, await self._directory(name)))
                for role, name in (
                    (Role.JOURNAL, "fast" + fresh),
                    (Role.ENTRIES, "big" + fresh),
                )
            ]
            await format_disk(main, store, self.rng, parts)
        disk = await with_parts(main, lambda path: SubDisk(mount, path), renew_cookie)
        if self.starts == 2:
            added = NewPart(Role.ENTRIES, "more", SubDisk(mount, await self._directory("more")))
            await expand_disk(disk, store, self.rng, [added])
            disk = await with_parts(main, lambda path: SubDisk(mount, path), renew_cookie)
        cookie = await identify(disk, store)
        await settle_twin(cookie, store)
        return disk, cookie.bookie, cookie.cluster

    async def _directory(self, name: str) -> str:
        """Let a directory be there for good, as a mount is."""
        if name not in self.disk.directories:
            tree = SimDisk(random.Random(0))
            await tree.mount().make_directory(name)
            tree.directories[""].settle()
            self.disk.directories[name] = tree.directories[name]
            inode = tree.directories[""].names[name]
            for names in (self.disk.directories[""].names, self.disk.directories[""].durable):
                names[name] = inode
        return name
