"""Every simulated run of a log is held against the specification of the log.

The steps are gathered where they take effect: manifests where the tree of the metadata store
changes; entries and LAC where production tells its observer (conformance.py hands them on); answers
where a workload has them. They are judged as they come (tests/spec/log_trace.py). A refusal is a
violation although nothing was lost yet.
"""

from __future__ import annotations

from collections.abc import Callable

from quire.entry import LedgerId
from quire.ledger.metadata import LedgerMetadata
from quire.log.maintenance.orphans import Labels
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from tests.sim.history import Violation
from tests.spec.events import Event
from tests.spec.log_trace import Label, LogJudge


class LogConformance:
    """See the module. `find` returns the record of a ledger, None of one that is not there."""

    def __init__(self, find: Callable[[LedgerId], LedgerMetadata | None]) -> None:
        self._find = find
        self._judge = LogJudge()

    def told(self, ledger: LedgerId, event: Event) -> None:
        """Something happened to a ledger."""
        if not self._judge.knows(ledger):
            metadata = self._find(ledger)
            if metadata is None or "log" not in metadata.custom_metadata:
                return
            labels = Labels.of(metadata.custom_metadata)
            label = Label(labels.log_id, labels.epoch, labels.segment) if labels else None
            self._judge.created(ledger, label)
        self._judge.told(ledger, event)

    def came(self, ledger: LedgerId) -> None:
        """An add of a ledger's writer has come to a bookie."""
        self._judge.came(ledger)

    def changed(self, path: str, after: LogManifest | None) -> None:
        """The manifest of a log is another one, or gone."""
        self._judge.changed(path, after)

    def answered(self, log_id: str, position: Position) -> None:
        """A workload has an answer: the log has a record at a position."""
        self._judge.answered(log_id, position)

    def put_back(self) -> None:
        """The store is an older copy of itself. The specification has this step (`Forget`) only for
        a copy from before the log, so nothing is judged from here on.
        """
        self._judge.end()

    def refusal(self) -> Violation | None:
        """Return the first step that the specification refused, as the violation of a run."""
        text = self._judge.refusal
        if text is None:
            return None
        return Violation("what happens to a log is a behaviour of the specification", text)
