"""A bookie as a process: where directory, metadata store and network are put together.

Nothing is served before the directory's identity was compared with the metadata store, and
clients find the bookie only once it answers. At the end it is the other way round: the
registration goes first, then what is under way is finished, then the journal.

A bookie whose disk fails must not go on, not even for the sake of a tidy end: whatever it said then
could be wrong (docs/protocol.md, "Bookie"). `on_fatal` therefore ends the process on the spot.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NoReturn

from quire.bookie import BookieAddress
from quire.metastore import open_store
from quire.storage.deletions import MetadataDeletions
from quire.storage.identity import identify
from quire.storage.local_disk import LocalDisk
from quire.storage.node import BookieNode
from quire.storage.options import StorageOptions
from quire.storage.registration import SESSION_SECONDS, Registration
from quire.storage.service import ServiceLimits, serve_bookie

_log = logging.getLogger(__name__)

EXIT_FATAL: Final = 74
"""Exit code of a bookie whose storage failed (EX_IOERR). Starting it again is safe."""


def end_process(error: BaseException) -> NoReturn:
    """End this process at once, without finishing anything."""
    _log.critical("storage failed, the bookie ends: %s", error, exc_info=error)
    os._exit(EXIT_FATAL)


async def serve(
    directory: Path,
    store_uri: str,
    listen: str = "127.0.0.1:0",
    *,
    on_ready: Callable[[BookieAddress], None] | None = None,
    on_fatal: Callable[[BaseException], None] = end_process,
    options: StorageOptions | None = None,
    limits: ServiceLimits | None = None,
    session_timeout: float = SESSION_SECONDS,
    rng: random.Random | None = None,
) -> None:
    """Serve a formatted directory on host:port until cancelled, then end in good order.

    `on_ready` is called once, when clients can find the bookie; `session_timeout` is how many
    seconds a dead bookie stays registered; `on_fatal` is called when the storage has failed and
    the process must end.

    Raises `ConfigurationError` when directory, store or address cannot be used, `WrongBookieError`
    when the directory belongs to another cluster or another process serves under its identity,
    `CorruptStorageError` when damage was found, and the metadata store's errors.
    """
    rng = rng or random.SystemRandom()
    async with AsyncExitStack() as stack:
        store = await open_store(store_uri)
        stack.push_async_callback(store.close)
        disk = LocalDisk(directory)
        stack.push_async_callback(disk.close)
        cookie = await identify(disk, store)
        node = await BookieNode.open(
            disk, cookie.bookie, cookie.cluster, rng=rng, on_fatal=on_fatal, options=options
        )
        stack.push_async_callback(node.close)
        collector = node.collector(MetadataDeletions(store, cookie.cluster))
        scrubber = node.scrubber()
        for task in (collector, scrubber):
            stack.push_async_callback(task.close)
            task.start()
        address = await stack.enter_async_context(
            serve_bookie(node, cookie.bookie, listen, limits=limits)
        )
        registration = Registration(
            *(store, node, cookie.bookie, address, rng, session_timeout),
            # The store may have been replaced by another cluster's while the bookie served.
            check_identity=lambda: identify(disk, store),
        )
        await registration.keep(on_ready)
