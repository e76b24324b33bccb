"""What a bookie's process says about itself: the step it is at, and why it is not ready.

Alive and ready are different questions. A process is alive while its loop answers; restarting it
helps if not. It is ready while it does its work: serves, is registered, is not being drained.
Both are about this process only: a cluster that is short of copies has health of its own
(`quire cluster health`), and restarting a bookie for it would make it worse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from quire.aio.timing import time_limit
from quire.bookie import Bookie
from quire.errors import QuireError

HealingFigures = Mapping[str, Mapping[tuple[str, ...], float]]
"""By the name of a metric: its values by labels."""


class Stage(StrEnum):
    """The steps of a bookie's process, in their order."""

    OPENING = "opens its directory"
    WAITING = "waits for the metadata store"
    RECOVERING = "reads its journal"
    SERVING = "serves"
    ENDING = "ends"


class Vitals:
    """The state of one bookie's process. Its parts write it, doors and managers read it."""

    def __init__(self, on_change: Callable[[Stage, str], None] | None = None) -> None:
        """`on_change` is told each stage, with a remark or an empty text."""
        self._on_change = on_change
        self.stage = Stage.OPENING
        self.remark = ""
        self.bookie: Bookie | None = None
        self.is_registered: Callable[[], bool] = lambda: False
        self.look_at_places: Callable[[], Awaitable[Sequence[tuple[str, str, int, int]]]] | None
        self.look_at_places = None
        self.look_at_healing: Callable[[], Awaitable[HealingFigures]] | None = None
        self.certificate_end: Callable[[], float] | None = None
        """When the certificate ends, in seconds since 1970; None without TLS."""

    def reach(self, stage: Stage, remark: str = "") -> None:
        """Note the step that the process is at."""
        self.stage, self.remark = stage, remark
        if self._on_change is not None:
            self._on_change(stage, remark)

    async def places(self) -> Sequence[tuple[str, str, int, int]]:
        """Return each directory, its purposes, and the free and total bytes of its disk."""
        return () if self.look_at_places is None else await self.look_at_places()

    async def healing(self, timeout: float) -> HealingFigures:
        """Return the figures of the cluster's healing; none if the metadata store does not give
        them in some seconds.
        """
        if self.look_at_healing is None:
            return {}
        try:
            async with time_limit(timeout):
                return await self.look_at_healing()
        except (QuireError, TimeoutError):
            return {}

    async def reasons(self, timeout: float) -> list[str]:
        """Return why the process is not ready: nothing if it is.

        Args:
            timeout: seconds that the storage may take to answer.
        """
        if self.stage is not Stage.SERVING or self.bookie is None:
            return [f"the bookie {self.stage}" + (f": {self.remark}" if self.remark else "")]
        try:
            async with time_limit(timeout):
                info = await self.bookie.info()
        except TimeoutError:
            return [f"the storage does not answer within {timeout:g} s"]
        except QuireError as error:
            return [f"the storage does not answer: {error}"]
        found = []
        if not self.is_registered():
            found.append("the bookie is not registered with the metadata store")
        if info.counters.get("standing_draining"):
            found.append("the bookie is being drained")
        return found
