"""Watching the files of a log's offloaded segments, at every change of its manifest and of them.

C10  a file that a manifest names is there, whole, until it is named no more or the log is being
     deleted, with which it goes; when all is over and swept, no other is there
"""

from __future__ import annotations

from collections.abc import Callable

from quire.log.cold import ColdFile, segment_of
from quire.log.manifest import LogManifest
from quire.metastore.layout import log_path
from tests.sim.history import Violation, require
from tests.sim.tier import SCHEME, SimTier

RULE = "C10 a log's files are there"


class FileWatch:
    """See the module."""

    def __init__(self, log: str, tier: SimTier, report: Callable[[Violation], None]) -> None:
        self._path = log_path(log)
        self._tier = tier
        self._report = report
        self._named: dict[str, ColdFile] = {}
        self._hot: set[int | None] = set()
        self._tiers: tuple[str, ...] = ()
        self._is_leaving = False
        tier.before_delete = self._check_deletion

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if path != self._path:
            return
        if not value:
            self._check_gone()
            return
        manifest = LogManifest.decode(path, value)
        cold = [each.cold for each in manifest.segments if each.cold]
        self._is_leaving = manifest.retired
        self._named = {each.uri.removeprefix(SCHEME): each for each in cold}
        self._tiers = tuple(each.removeprefix(SCHEME) + "/" for each in manifest.tiers)
        self._hot = {each.number for each in manifest.segments if not each.cold}
        for file, named in self._named.items():
            found = len(self._tier.files.get(file, b""))
            is_whole = found == named.size and file not in self._tier.damaged
            if not (is_whole or self._is_leaving):
                self._tell(f"{file} is damaged, or has {found} bytes instead of {named.size}")

    def _tell(self, text: str) -> None:
        self._report(Violation(RULE, text))

    def _check_deletion(self, file: str) -> None:
        if file in self._named and not self._is_leaving:
            self._tell(f"{file} is deleted, and the manifest names it")

    def _check_gone(self) -> None:
        left = [file for file in self._named if file in self._tier.files]
        if left:
            self._tell(f"the log is gone, its files {left} are not")
        self._named = {}

    def check_swept(self) -> None:
        """Raise unless what is there of the log is named, or of a segment that may still move."""
        there = {file for file in self._tier.files if file.startswith(self._tiers)}
        others = there.difference(self._named)
        left = [file for file in others if segment_of(file.rpartition("/")[2]) not in self._hot]
        require(not left, RULE, f"{left} are left, {list(self._named)} are named")
