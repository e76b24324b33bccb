"""What auditors may ask for, held against the tree of the metadata store.

An auditor cannot know what changed after it looked. So only what has been true since before the
round of its last look began counts.

  H4  an auditor asks for nothing while a pause holds or several bookies are missing without an
      operator's go; and for a place only of a bookie that is drained, or has been missing, as far
      as a whole look of the auditor could see, and the auditor at work for the whole delay, and
      that is not away; of a bookie that is there and stays only when the fragment's measure rises
      by it, and when the auditor has seen the bookies unchanged for the whole delay
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.healing.audit import Audit
from quire.healing.switch import Switch
from quire.healing.verdict import MISSING_SHARE_MAX
from quire.labels import Labels
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.spreading import measure
from quire.metastore.layout import (
    BOOKIES,
    HEALING_SWITCH,
    LEDGERS,
    STANDINGS,
    bookie_path,
    standing_path,
)
from quire.metastore.registration import decode_registration
from quire.metastore.standing import SERVING, Standing, Wish
from quire.repair.assignments import Assignment
from quire.repair.plan import Plan
from tests.sim.history import Violation, require
from tests.sim.world import SimWorld


class AuditWatch:
    """See the module. Knows since when each bookie is as it is."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._left: dict[BookieId, list[float]] = {}
        """When a bookie left, each time. All are missing from the beginning until they come."""
        self._registered: dict[BookieId, list[tuple[float, bool]]] = {}
        """Each registration of a bookie, and each end of one, with its time."""
        self._changed_at: dict[BookieId, float] = {}
        self._drained: set[BookieId] = set()
        self._records: dict[LedgerId, float] = {}
        """When each ledger's record changed last."""
        self._switched_at = 0.0
        world.tree.listeners.append(self._changed)

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        now, (root, _, name) = self._world.loop.time(), path.rpartition("/")
        if path == HEALING_SWITCH:
            self._switched_at = now
        if value and path.startswith(LEDGERS + "/") and path.count("/") >= 4:
            self._records[LedgerMetadata.decode(path, value).ledger] = now
        if root in {BOOKIES, STANDINGS}:
            self._changed_at[name] = now
        if root == BOOKIES:
            self._registered.setdefault(name, []).append((now, value is not None))
            left = self._left.setdefault(name, [0.0])
            if value is None:
                left.append(now)
        if root == STANDINGS and value and Standing.decode(name, value).wish is Wish.DRAIN:
            self._drained.add(name)

    def there_since(self, before: float) -> set[BookieId]:
        """Return the bookies that are registered, and have been since before a time."""
        tree = self._world.tree
        known = {each.name for each in self._world.bookies}
        return {
            each
            for each in known
            if tree.version(bookie_path(each)) is not None and self._changed_at[each] < before
        }

    def _was_there(self, bookie: BookieId, at: float) -> bool:
        """Whether a bookie was registered at a time."""
        before = [state for since, state in self._registered.get(bookie, ()) if since < at]
        return bool(before) and before[-1]

    def states(self, began: float) -> dict[BookieId, Labels | None]:
        """Return where each bookie is that has not changed since a time; None: not registered."""
        found: dict[BookieId, Labels | None] = {}
        for each in (*self._world.bookies, *self._world.retired):
            if self._changed_at.get(each.name, 0.0) < began:
                found[each.name] = self.labels(each.name)
        return found

    def labels(self, bookie: BookieId) -> Labels | None:
        """Return the labels of a bookie that is registered."""
        path, tree = bookie_path(bookie), self._world.tree
        if tree.version(path) is None:
            return None
        return decode_registration(bookie, tree.get(path).value).labels

    def set_switch(self, switch: Switch) -> None:
        """Change the switch, as an operator's command does."""
        tree, version = self._world.tree, self._world.tree.version(HEALING_SWITCH)
        if version is None:
            tree.create(HEALING_SWITCH, switch.encode())
        else:
            tree.put(HEALING_SWITCH, switch.encode(), version)

    def missing(self) -> set[BookieId]:
        """Return the bookies that are not registered."""
        tree = self._world.tree
        known = {each.name for each in (*self._world.bookies, *self._world.retired)}
        return {each for each in known if tree.version(bookie_path(each)) is None}

    def switch(self) -> Switch:
        """Return the switch as the tree has it."""
        if self._world.tree.version(HEALING_SWITCH) is None:
            return Switch()
        return Switch.decode(HEALING_SWITCH, self._world.tree.get(HEALING_SWITCH).value)

    def _is_away(self, bookie: BookieId, at: float) -> bool:
        path, standing = standing_path(bookie), SERVING
        if self._world.tree.version(path) is not None:
            standing = Standing.decode(bookie, self._world.tree.get(path).value)
        until = standing.until_ms if standing.wish is Wish.AWAY else None
        passed = self._world.loop.time() - at
        return until is not None and (self._world.clock() - passed) * 1000 < until

    def _check(self, auditor: WatchedAuditor, wanted: Iterable[Assignment]) -> None:
        """An auditor asks for copies."""
        looked, now = auditor.looked, self._world.loop.time()
        text = f"{auditor.name}, which looked at {looked}, asks at {now} for {wanted}"
        pause = self.switch().pause
        require(
            pause is None
            or self._switched_at >= auditor.began
            or self._world.clock() * 1000 >= pause.until_ms,
            "H4 a pause starts no move",
            text,
        )
        missing = {each for each in self.missing() if self._changed_at.get(each, 0.0) < looked}
        away = {each for each in self.missing() if self._is_away(each, now)}
        was_away = {each for each in self.missing() if self._is_away(each, looked)}
        holds = auditor.audit.survey.index.names_closed
        accidents = missing - was_away
        counted = {each for each in accidents if holds(each) and each in auditor.held}
        everyone = len(self._world.bookies) + len(self._world.retired)
        require(
            len(counted) <= max(1, MISSING_SHARE_MAX * everyone)
            or self._switched_at >= auditor.began
            or self.switch().allows(counted),
            "H4 mass loss starts no move",
            f"{text}; {sorted(counted)} are missing",
        )
        # The auditor may have asked for spread: of a bookie that left after the look, or that is
        # lost but for its registration.
        bookies = {each.name for each in (*self._world.bookies, *self._world.retired)}
        there = {
            each for each in bookies if self._was_there(each, looked) or self._was_there(each, now)
        } - self._drained
        # One that left or came back while the auditor looked may have been missing in its eyes.
        changed = {each for each in there if self._changed_at.get(each, 0.0) >= looked}
        there -= {each for each in changed if self._may_be_lost(auditor, each)}
        places = [(each.ledger, place) for each in wanted for place in each.replicas]
        for ledger, place in places:
            if place.old in there:
                self._check_spread(auditor, ledger, place, text)
        for old in {place.old for _, place in places} - self._drained - there:
            since = self._missing_since(auditor, old)
            require(
                since + auditor.delay <= now,
                "H4 a bookie is lost after the delay",
                f"{text}; {old} is missing, or the auditor at work, since {since}",
            )
            require(
                old not in away & missing or self.missing() != away,
                "H4 a bookie that is away loses no place",
                text,
            )

    def _missing_since(self, auditor: WatchedAuditor, bookie: BookieId) -> float:
        """When a bookie first left after an auditor had surely seen it."""
        seen, now = auditor.seen.get(bookie, -1.0), self._world.loop.time()
        left = min((each for each in self._left.get(bookie, [0.0]) if each > seen), default=now)
        return max(left, auditor.started)

    def _may_be_lost(self, auditor: WatchedAuditor, bookie: BookieId) -> bool:
        now = self._world.loop.time()
        return self._missing_since(auditor, bookie) + auditor.delay <= now

    def _check_spread(
        self, auditor: WatchedAuditor, ledger: LedgerId, place: Replica, text: str
    ) -> None:
        """An auditor asks for a place of a bookie that is there, and stays."""
        self._world.note_fault("asked for spread")
        require(
            auditor.unsettled_at + auditor.delay <= auditor.looked,
            "H4 a move for spread waits for bookies to settle",
            f"{text}; it saw a change at {auditor.unsettled_at}",
        )
        metadata = self._world.metadata_watch.current.get(ledger)
        if metadata is None or self._records.get(ledger, 0.0) >= auditor.began:
            return  # it was read before it changed
        members = next(x.bookies for x in metadata.fragments if x.first == place.first)
        names = {*members, place.new}
        if any(self._changed_at.get(each, 0.0) >= auditor.looked for each in sorted(names)):
            return
        where = [self.labels(each) for each in members]
        there = [each for each in where if each is not None]
        require(len(there) == len(where), "H4 a move for spread raises the measure", text)
        after, new = list(there), self.labels(place.new)
        assert new is not None
        after[place.position] = new
        values = [
            measure(metadata.replication, metadata.placement, each) for each in (there, after)
        ]
        require(
            values[0] < values[1],
            "H4 a move for spread raises the measure",
            f"{text}; ledger {ledger} had {values[0]}, would have {values[1]}",
        )

    def check(self, auditor: WatchedAuditor, plan: Plan) -> None:
        """Fail the run if an auditor may not ask for a plan."""
        wanted = [each for some in plan.wanted.values() for each in some]
        if not wanted:
            return
        self._world.note_fault("auditor asks")
        try:
            self._check(auditor, wanted)
        except Violation as violation:
            self._world.loop.fail(violation)


class WatchedAuditor:
    """One auditor, from before its first round."""

    def __init__(self, watch: AuditWatch, audit: Audit, name: str, delay: float) -> None:
        self._watch = watch
        self.audit: Final = audit
        self.name = name
        self.delay = delay
        self.started = self.began = self._now()
        """When its first round began, and its last one."""
        self.looked = 0.0
        """When the round began that looked last."""
        self.held: set[BookieId] = set()
        """The bookies that the index named when that round began."""
        self._held_now: set[BookieId] = set()
        self.seen: dict[BookieId, float] = {}
        """When each bookie was last there for the whole of a whole look."""
        self.unsettled_at = self.started
        """When it saw at the latest that a bookie had changed: not before then, for certain."""
        self._states: dict[BookieId, tuple[Labels | None, int]] = {}
        """The last state of each bookie that it saw for certain, and the number of that look."""
        self._looks: list[float] = []
        self._add = audit.requests.add
        audit.requests.add = self._ask  # type: ignore[method-assign]

    def _now(self) -> float:
        return self._watch._world.loop.time()

    async def round(self) -> float:
        """Do one round; see `Audit.round`."""
        self.began, index = self._now(), self.audit.survey.index
        self._held_now = {each for each in index.bookies() if index.names_closed(each)}
        seconds = await self.audit.round()
        view = self.audit._view
        if view is not None and view.at >= self.began:
            self.seen |= dict.fromkeys(self._watch.there_since(self.began), self.began)
            self._note_states()
        return seconds

    def _note_states(self) -> None:
        """A whole look is over."""
        self._looks.append(self.began)
        for bookie, state in sorted(self._watch.states(self.began).items()):
            before, look = self._states.get(bookie, (state, 0))
            if before != state:
                self.unsettled_at = max(self.unsettled_at, self._looks[look + 1])
            self._states[bookie] = state, len(self._looks) - 1

    async def _ask(self, plan: Plan) -> None:
        view = self.audit._view
        if view is not None and view.at >= self.began:
            self.looked, self.held = self.began, self._held_now
        self._watch.check(self, plan)
        await self._add(plan)
