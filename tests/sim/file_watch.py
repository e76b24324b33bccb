"""Watching the files of a log's offloaded segments, at every change of its manifest and of them.

C10  a file that a manifest names is there, whole, until it is named no more or the log is being
     deleted, with which it goes; when all is over and swept, no other is there
C11  outside `_attempts/` no file appears that the manifest did not name before: who reads the
     directory as a table has no record twice
C12  a tier that takes no files is not recorded
C13  no file goes that is not, by its path, a file of a log
"""

from __future__ import annotations

from collections.abc import Callable

from quire.log.manifest.cold_files import ATTEMPTS, ColdFile, is_any_logs, segment_of
from quire.metastore.layout import log_path
from tests.sim.history import Violation, require
from tests.sim.page_watch import PageWatch
from tests.sim.tier import NOWHERE, SCHEME, SimTier

RULE = "C10 a log's files are there"
PLACED = "C11 a file is placed after it is named"
PROVEN = "C12 a tier is proven before it is recorded"
FOREIGN = "C13 no foreign file is deleted"


class FileWatch:
    """See the module."""

    def __init__(
        self,
        log: str,
        tier: SimTier,
        report: Callable[[Violation], None],
        pages: PageWatch | None = None,
    ) -> None:
        """`pages` has heard of every page before `changed` hears of the manifest that names it."""
        self._pages = pages or PageWatch(report)
        self._path = log_path(log)
        self._tier = tier
        self._report = report
        self._named: dict[str, ColdFile] = {}
        self._ever_named: set[str] = set()
        self._hot: set[int | None] = set()
        self._tiers: tuple[str, ...] = ()
        self._is_leaving = False
        tier.before_delete = self._check_deletion
        tier.before_placing = self._check_placing

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if path != self._path:
            return
        if not value:
            self._check_gone()
            return
        manifest = self._pages.read(path, value)
        cold = [each.cold for each in manifest.segments if each.cold]
        self._is_leaving = manifest.retired
        self._named = {each.uri.removeprefix(SCHEME): each for each in cold}
        self._ever_named |= set(self._named)
        self._tiers = tuple(each.removeprefix(SCHEME) + "/" for each in manifest.tiers)
        if any(each.startswith(f"{NOWHERE}/") for each in self._tiers):
            self._tell(f"{NOWHERE} takes no files, and is a tier", PROVEN)
        self._hot = {each.number for each in manifest.segments if not each.cold}
        for file, named in self._named.items():
            found = [len(self._tier.files.get(place, b"")) for place in _places(file)]
            if not (self._is_whole(file) or self._is_leaving):
                self._tell(f"{file} is damaged, or has {found} bytes instead of {named.size}")

    def _is_whole(self, file: str, but: str = "") -> bool:
        """Whether a named file is in one of its places, not counting one of them."""
        size, tier = self._named[file].size, self._tier
        places = [each for each in _places(file) if each in tier.files and each != but]
        return any(len(tier.files[each]) == size and each not in tier.damaged for each in places)

    def _tell(self, text: str, rule: str = RULE) -> None:
        self._report(Violation(rule, text))

    def _check_deletion(self, path: str) -> None:
        if not is_any_logs(path):
            self._tell(f"{path} is deleted", FOREIGN)
        file = path.replace(f"/{ATTEMPTS}/", "/")
        if file in self._named and not self._is_leaving and not self._is_whole(file, path):
            self._tell(f"{path} is deleted, and the manifest names it")

    def _check_placing(self, path: str) -> None:
        if f"/{ATTEMPTS}/" not in path and path not in self._ever_named:
            self._tell(f"{path} appears, and no manifest named it", PLACED)

    def _check_gone(self) -> None:
        # An attempt that was under way may still write: what it leaves is not in the table.
        ours = filter(self._may_be_ours, self._tier.files)
        left = [each for each in ours if f"/{ATTEMPTS}/" not in each]
        if left:
            self._tell(f"the log is gone, its files {left} are not")
        self._named = {}

    def _may_be_ours(self, file: str) -> bool:
        return file.startswith(self._tiers) and is_any_logs(file)

    def check_swept(self) -> None:
        """Raise unless what is there of the log is named, or of a segment that may still move."""
        there = {file for file in self._tier.files if self._may_be_ours(file)}
        others = there.difference(self._named)
        left = [file for file in others if segment_of(file.rpartition("/")[2]) not in self._hot]
        require(not left, RULE, f"{left} are left, {list(self._named)} are named")


def _places(file: str) -> tuple[str, str]:
    """Where a file may lie: in its place, or still among the attempts."""
    directory, _, name = file.rpartition("/")
    return file, f"{directory}/{ATTEMPTS}/{name}"
