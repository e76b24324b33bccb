"""Safeguards of a metadata store that was put back from a backup, or lost its counter."""

from __future__ import annotations

from typing import Any

from quire.ledger import ids, recovery, recovery_plan, stored_records
from quire.ledger.ids import LedgerIds
from quire.metadata import adopt
from quire.metastore import versions
from quire.storage.maintenance import deletions
from tests.sim.ablations.patch import Patch
from tests.sim.faults import FaultMix, Theme


def churn(mix: FaultMix) -> None:
    """Bookies that go away all the time: ensembles change between the backup and the disaster."""
    mix.theme = Theme.RACE
    mix.rates = {"crash": 4.0, "break streams": 3.0, "swizzle": 2.0}
    mix.weather.watch_late = 0.8
    mix.mending = 0.05


def ask_the_recorded_ensemble() -> list[Patch]:
    def is_older(metadata: Any, incarnation: int) -> bool:
        return False

    return [(stored_records, "is_older", is_older)]


def count_denials_of_one_ensemble() -> list[Patch]:
    """All bookies are asked, and as many denials end the ledger as of a write set."""
    whole = recovery_plan.every_bookie

    def every_bookie(metadata: Any, cluster: Any) -> Any:
        return _Few(*whole(metadata, cluster), metadata.replication.coverage)

    return [(recovery, "every_bookie", every_bookie)]


class _Few:
    """A panel that a few denials satisfy."""

    def __init__(self, replication: Any, bookies: Any, coverage: int) -> None:
        self.replication = _FewDenials(replication, coverage)
        self.bookies = bookies


class _FewDenials:
    def __init__(self, replication: Any, coverage: int) -> None:
        self._replication = replication
        self.coverage = coverage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replication, name)


def adopt_without_lifting_the_counter() -> list[Patch]:
    """All of the adoption, but the counter gives out what it would have given out without it."""

    async def highest(store: Any) -> int:
        return -1

    return [(adopt, "MARGIN", 0), (adopt, "_highest", highest)]


def give_ids_out_before_the_adoption() -> list[Patch]:
    whole = ids.decode_counter

    def decode(data: bytes) -> Any:
        return whole(data)._replace(is_withheld=False)

    async def incarnation(store: Any) -> int:
        return 0

    return [(ids, "decode_counter", decode), (ids, "adopted_incarnation", incarnation)]


def collect_before_the_adoption() -> list[Patch]:
    async def check(self: Any) -> int:
        return 0

    return [(deletions.SameStore, "check", check)]


def begin_a_new_counter() -> list[Patch]:
    async def nothing(self: Any) -> list[Any]:
        return []

    return [(LedgerIds, "_marking", nothing), (LedgerIds, "_check_no_ledgers", nothing)]


def take_versions_of_before_for_versions_of_now() -> list[Patch]:
    """A record's version counts its changes and no more."""
    whole = versions.join_version

    def join(created: int, edits: int, changed_ms: int) -> int:
        return whole(created, edits, 0)

    return [(versions, "join_version", join)]
