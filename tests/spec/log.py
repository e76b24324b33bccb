"""`spec/Log.tla` in Python, action by action: leaders. What happens beside them: log_beside.py.

The names of actions, variables and safeguards are those of the module; read the module for what
they mean. Both give the same numbers of states at the same bounds (`test_modules.py`,
`make tlc`): a change of one without the other changes a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.spec import log_beside
from tests.spec.log_promises import broken
from tests.spec.log_state import (
    NO_FLIGHT,
    NO_MAN,
    Eraser,
    Flight,
    Job,
    Leader,
    Ledger,
    Man,
    State,
    append,
    create,
    delete,
    end_of,
    lists,
    opens,
    put,
    seal,
    seal_opens,
    shape,
)

SAFEGUARDS: Final = (
    "TakeOverIsCas",
    "EpochGrows",
    "RecoversAll",
    "UnknownIsRead",
    "CreatesOnce",
    "ReadSettles",
    "LeadsOwn",
    "RollIsMine",
    "SpareKept",
    "PrevSealedFirst",
    "Drains",
    "SealsClosed",
    "ResendsMissing",
    "TrimsFirst",
    "TrimsPrefix",
    "TrimsOwn",
    "SparesEpoch",
    "RetiresIds",
    "IdsOnce",
    "ErasesFenced",
    "LedgersFirst",
    "ErasesOwn",
    "IngestIsCas",
    "IngestsOnce",
    "DropIsCas",
)

PROMISES: Final = ("C1", "C3", "C4", "EP", "H8", "KEPT", "L4", "C6", "D2", "TR")


@dataclass(frozen=True)
class LogBounds:
    """How much of everything there is."""

    leaders: int = 2
    ids: int = 3
    records: int = 1
    """Records that each leader sends."""
    unknown: int = 0
    """Changes of the manifest whose outcome stays unknown."""
    rolls: bool = False
    breaks: bool = False
    leaves: bool = False
    trims: bool = False
    sweeps: bool = False
    collects: bool = False
    erasers: int = 0
    ingests: bool = False
    forgets: bool = False


class LogModel:
    """The specification at some bounds, with some safeguards removed."""

    def __init__(self, bounds: LogBounds, removed: Iterable[str] = ()) -> None:
        unknown = set(removed) - set(SAFEGUARDS)
        if unknown:
            raise ValueError(f"no such safeguard: {', '.join(sorted(unknown))}")
        self.bounds = bounds
        self.has = {name: name not in set(removed) for name in SAFEGUARDS}
        self.first = State(
            *(NO_MAN, (Ledger(),) * bounds.ids, 1, 1, 0),
            ldr=(Leader(),) * bounds.leaders,
            job=Job(),
            era=(Eraser(),) * bounds.erasers,
            asks=frozenset(),
        )

    def canonical(self, state: State) -> State:
        """Leaders and erasers begin in the order of their numbers: nothing is interchangeable."""
        return state

    def broken(self, state: State) -> str | None:
        return broken(state)

    def following(self, s: State) -> Iterator[State]:
        yield from self._recoveries(s)
        for x, c in enumerate(s.ldr):
            if c.ph == "lead":
                yield from self._leads(s, x)
            elif c.ph == "idle":
                if not s.man.ret and all(each.ph != "idle" for each in s.ldr[:x]):
                    yield to(s, x, c._replace(ph="read", seen=s.man))
            elif c.ph != "over":
                yield from self._takes_over(s, x)
            if c.fl.on and c.fl.base == s.man:
                yield to(s, x, c._replace(fl=NO_FLIGHT))._replace(man=c.fl.val)
        yield from log_beside.following(self, s)

    # -- takeover --------------------------------------------------------------------------------

    def is_recovered(self, s: State, seen: Man) -> bool:
        """Whether every ledger that was open when the manifest was read is closed by now."""
        wanted = opens(seen) if self.has["RecoversAll"] else opens(seen)[-1:]
        return all(s.led[each - 1].st == "CLOSED" for each in wanted)

    def _recoveries(self, s: State) -> Iterator[State]:
        """Recover: a reader of the manifest closes what it found open, the oldest first."""
        readers: list[Leader | Job | Eraser] = [*s.ldr, s.job, *s.era]
        wanted = set()
        for each in readers:
            if each.ph == "read":
                left = [led for led in opens(each.seen) if s.led[led - 1].st == "OPEN"]
                wanted |= set(left[:1] if self.has["RecoversAll"] else opens(each.seen)[-1:])
        for led in wanted:
            ledger = s.led[led - 1]
            if ledger.st == "OPEN":
                for end in range(ledger.ack, len(ledger.sent) + 1):
                    yield put(s, led, ledger._replace(st="CLOSED", end=end, bar=True))

    def epoch_after(self, epoch: int) -> int:
        return epoch + 1 if self.has["EpochGrows"] else max(1, epoch)

    def _takes_over(self, s: State, x: int) -> Iterator[State]:
        c = s.ldr[x]
        is_same = shape(s.man) == shape(c.seen)
        is_ready = c.ph == "read" and is_same and self.is_recovered(s, c.seen)
        if is_ready and s.nid <= self.bounds.ids:
            log = c.seen.log or s.nid + 10 * (s.inc - 1)
            label = (log, self.epoch_after(c.seen.epoch), c.seen.next)
            yield create(to(s, x, c._replace(ph="made", new=s.nid)), label)
        may_retry = c.ph == "unsure" and not (c.seen == NO_MAN and self.has["CreatesOnce"])
        if (c.ph == "made" or may_retry) and (is_same or not self.has["TakeOverIsCas"]):
            base = s.man if self.has["TakeOverIsCas"] else c.seen
            yield from self._installs(s, x, base)
        if c.ph in ("read", "made") and not is_same:
            lost = to(s, x, Leader(fl=c.fl))
            yield delete(lost, c.new) if c.new else lost
        if c.ph == "unsure":
            yield from self._settles(s, x)

    def _installs(self, s: State, x: int, base: Man) -> Iterator[State]:
        c = s.ldr[x]
        log, ep, _ = s.led[c.new - 1].lab
        sealed = seal_opens(base, s.led, self.epoch_after(base.epoch))
        val = append(sealed._replace(log=log), c.new)
        leads = Leader("lead", log=log, ep=ep, cur=c.new)
        yield to(s, x, leads)._replace(man=val)
        if s.unk < self.bounds.unknown:
            unsure = c._replace(ph="unsure", fl=Flight(True, s.man, val))
            yield to(s, x, unsure)._replace(unk=s.unk + 1)

    def _settles(self, s: State, x: int) -> Iterator[State]:
        """Settle: the manifest is read again after an unknown outcome."""
        c = s.ldr[x]
        log, ep, _ = s.led[c.new - 1].lab
        is_settled = c.seen == NO_MAN and self.has["ReadSettles"]
        over = to(s, x, Leader("over", fl=NO_FLIGHT if is_settled else c.fl))
        if not self.has["UnknownIsRead"]:
            yield delete(to(s, x, Leader("over", fl=c.fl)), c.new)
        elif lists(s.man, c.new):
            is_tail = s.man.segs[-1].led == c.new
            yield to(s, x, Leader("lead" if is_tail else "over", log=log, ep=ep, cur=c.new))
        elif shape(s.man) != shape(c.seen):
            yield delete(over, c.new)
        elif s.man == NO_MAN:
            yield over  # whether the creation landed and was deleted cannot be told

    # -- a leader --------------------------------------------------------------------------------

    def is_mine(self, s: State, c: Leader) -> bool:
        is_own = s.man.log == c.log or not self.has["LeadsOwn"]
        is_present = s.man.epoch == c.ep or not self.has["RollIsMine"]
        return s.man != NO_MAN and is_own and is_present

    def _leads(self, s: State, x: int) -> Iterator[State]:
        c = s.ldr[x]
        for led in {c.cur, c.prev} - {0}:
            ledger = s.led[led - 1]
            if ledger.ack < len(ledger.sent) and not (ledger.bar and ledger.ack >= ledger.end):
                yield put(s, led, ledger._replace(ack=ledger.ack + 1))
        if c.cur:
            yield from self._writes(s, x)
            if self.bounds.rolls and c.succ == 0:
                yield from self._rolls(s, x)
        if c.prev:
            yield from self._seals(s, x)

    def _writes(self, s: State, x: int) -> Iterator[State]:
        c, ledger = s.ldr[x], s.led[s.ldr[x].cur - 1]
        if c.succ == 0 and not c.brk and c.k < self.bounds.records:
            sent = (*ledger.sent, (c.log, c.ep, c.k + 1))
            yield put(to(s, x, c._replace(k=c.k + 1)), c.cur, ledger._replace(sent=sent))
        is_decided = ledger.ack == len(ledger.sent) or c.brk
        if c.succ and c.prev == 0 and (is_decided or not self.has["Drains"]):
            yield to(s, x, c._replace(prev=c.cur, cur=c.succ, succ=0, brk=False))
        is_idle = not (c.succ or c.prev or c.new or c.brk)
        if self.bounds.leaves and is_idle and is_decided:
            yield to(s, x, c._replace(prev=c.cur, cur=0))
        if self.bounds.breaks and not c.brk and ledger.st == "OPEN" and self.is_mine(s, c):
            yield from self._mends(s, x)

    def _mends(self, s: State, x: int) -> Iterator[State]:
        """Mend: the handle of the current ledger failed; its leader closes it by recovery."""
        c, ledger = s.ldr[x], s.led[s.ldr[x].cur - 1]
        for end in range(ledger.ack, len(ledger.sent) + 1):
            found = end if self.has["ResendsMissing"] else ledger.ack
            left = c._replace(k=c.k - (len(ledger.sent) - found), brk=True)
            closed = ledger._replace(st="CLOSED", end=end, bar=True, ack=found)
            yield put(to(s, x, left), c.cur, closed)

    def _rolls(self, s: State, x: int) -> Iterator[State]:
        c = s.ldr[x]
        if c.new == 0:
            if s.nid <= self.bounds.ids:
                label = (c.log, c.ep, s.led[c.cur - 1].lab[2] + 1)
                yield create(to(s, x, c._replace(new=s.nid)), label)
            return
        is_mine, is_listed = self.is_mine(s, c), lists(s.man, c.new)
        if is_mine and (c.prev == 0 or not self.has["PrevSealedFirst"]):
            after = s.man if is_listed else append(s.man, c.new)
            yield to(s, x, c._replace(succ=c.new, new=0, fl=NO_FLIGHT))._replace(man=after)
            if s.unk < self.bounds.unknown and not is_listed and not c.fl.on:
                offered = c._replace(fl=Flight(True, s.man, after))
                yield to(s, x, offered)._replace(unk=s.unk + 1)
        if not is_mine:
            over = to(s, x, c._replace(ph="over", new=0))
            yield over if is_listed else delete(over, c.new)
        elif c.fl.on and not is_listed and not self.has["SpareKept"]:
            yield delete(to(s, x, c._replace(new=0)), c.new)

    def _seals(self, s: State, x: int) -> Iterator[State]:
        c, ledger = s.ldr[x], s.led[s.ldr[x].prev - 1]
        if ledger.st == "OPEN":
            closed = ledger._replace(st="CLOSED", end=ledger.ack, bar=True)
            yield put(s, c.prev, closed)
        if self.is_mine(s, c) and (ledger.st != "OPEN" or not self.has["SealsClosed"]):
            after = seal(s.man, c.prev, end_of(ledger))
            yield to(s, x, c._replace(prev=0))._replace(man=after)


def to(s: State, x: int, c: Leader) -> State:
    return s._replace(ldr=(*s.ldr[:x], c, *s.ldr[x + 1 :]))
