"""Watching an election: its queue, its epoch record, and what its leaders believe.

E1  epochs go up by one, and an epoch begins when the place of the leader before is gone
E2  the successor that was named follows as long as it stands, and else the first of the queue
E3  an epoch has one leader
E4  a log that its leader has closed needs no recovery
E5  a candidate takes office while its session lasts, as far as it knows
"""

from __future__ import annotations

from collections.abc import Callable

from quire.election.ballot import Term, decode_term
from quire.election.election import Leader
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.log.maintenance.orphans import Labels
from quire.log.manifest.manifest import LogManifest
from quire.metastore.layout import LEDGERS, election_candidates_path, election_epoch_path
from tests.sim.history import Violation, require


class ElectionWatch:
    """See the module."""

    def __init__(self, election: str, report: Callable[[Violation], None]) -> None:
        self._report = report
        self._epoch_path = election_epoch_path(election)
        self._queue_path = election_candidates_path(election)
        self.places: set[str] = set()
        """Who stands. Only ever sorted or asked for membership."""
        self.term: Term | None = None
        self.terms: dict[int, str] = {}
        """The candidates that were elected, by epoch."""
        self._leaders: dict[int, str] = {}
        self._closed: set[int] = set()
        self.successions = 0
        """Successors that were named and followed."""

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        try:
            if path.startswith(self._queue_path + "/"):
                (self.places.discard if value is None else self.places.add)(path.rpartition("/")[2])
            elif path == self._epoch_path and value:
                self._check(decode_term(path, value))
            elif value and path.startswith(LEDGERS + "/") and path.count("/") >= 4:
                self._check_ledger(LedgerMetadata.decode(path, value))
        except Violation as violation:
            self._report(violation)

    def _check(self, after: Term) -> None:
        name = "E1 epochs follow each other"
        before, self.term = self.term, after
        if before is not None and before.token == after.token:
            same = (before.epoch, before.place) == (after.epoch, after.place)
            require(same, name, f"{before} became {after}")
            return
        self.terms[after.epoch] = after.candidate
        last = before.epoch if before is not None else 0
        require(after.epoch == last + 1, name, f"{before} became {after}")
        if before is None:
            return
        require(before.place not in self.places, name, f"{before} still stands, now {after}")
        if after.place not in self.places:  # it lost its place while it took office
            return
        named = before.successor if before.successor in self.places else None
        self.successions += named is not None
        require(
            after.place == (named or min(self.places)),
            "E2 the successor follows, or the first",
            f"{after} follows {before} while {sorted(self.places)} stand",
        )

    def _check_ledger(self, metadata: LedgerMetadata) -> None:
        labels = Labels.of(metadata.custom_metadata)
        require(
            metadata.state is not LedgerState.IN_RECOVERY
            or labels is None
            or labels.epoch not in self._closed,
            "E4 a log that was closed needs no recovery",
            f"ledger {metadata.ledger} of {labels} is recovered",
        )

    def entered(self, epoch: int, who: str, *, is_lost: bool = False) -> None:
        """A candidate's turn has come. `is_lost` is what it says itself of its leadership."""
        text = f"{who} takes office at {epoch}, and knows that its session is over"
        require(not is_lost, "E5 a candidate takes office while its session lasts", text)
        other = self._leaders.get(epoch)
        require(other is None, "E3 an epoch has one leader", f"{who} and {other} lead at {epoch}")
        self._leaders[epoch] = who

    def observed(self, leader: Leader, known: int) -> None:
        """An observer that knew of epoch `known` saw a leader."""
        name = "E1 epochs follow each other"
        text = f"after epoch {known} an observer saw {leader}; elected were {self.terms}"
        right = self.terms.get(leader.epoch) == leader.candidate
        require(right and leader.epoch >= known, name, text)

    def closed(self, epoch: int, manifest: LogManifest) -> None:
        """The log's leader of an epoch has closed it and was told that all went well."""
        self._closed.add(epoch)
        require(
            manifest.epoch > epoch or not manifest.open_segments,
            "E4 a log that was closed needs no recovery",
            f"epoch {epoch} has closed the log, which has {manifest.open_segments} open",
        )
