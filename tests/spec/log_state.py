"""The variables of `spec/Log.tla` in Python, and the edits of its manifest.

Names are those of the module; read the module for what they mean.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Label = tuple[int, int, int]
"""The log, the epoch and the segment number that a ledger was created for."""

Entry = tuple[int, int, int]
"""A record: the log and the epoch of its writer, and its number among the writer's records."""

PART: Final[Label] = (0, 0, 0)
"""The label of a part of a job, which no log has placed."""

OPEN_END: Final = -1


class Ledger(NamedTuple):
    """An abstract ledger, and what its bookies hold."""

    st: str = "NONE"
    sent: tuple[Entry, ...] = ()
    ack: int = 0
    end: int = 0
    bar: bool = False
    lab: Label = PART


class Seg(NamedTuple):
    num: int
    led: int
    ep: int
    end: int


class Man(NamedTuple):
    """The manifest. Log 0: there is none."""

    log: int = 0
    epoch: int = 0
    segs: tuple[Seg, ...] = ()
    next: int = 1
    trim: int = 1
    doomed: frozenset[int] = frozenset()
    ret: bool = False
    did: bool = False
    """The log remembers its job."""


NO_MAN: Final = Man()


class Flight(NamedTuple):
    """A change of the manifest whose outcome is unknown. It may still land."""

    on: bool = False
    base: Man = NO_MAN
    val: Man = NO_MAN


NO_FLIGHT: Final = Flight()


class Leader(NamedTuple):
    ph: str = "idle"
    seen: Man = NO_MAN
    new: int = 0
    log: int = 0
    ep: int = 0
    cur: int = 0
    prev: int = 0
    succ: int = 0
    k: int = 0
    brk: bool = False
    fl: Flight = NO_FLIGHT


class Job(NamedTuple):
    """The ingest of one part, and another process that drops what no log has ingested."""

    ph: str = "idle"
    seen: Man = NO_MAN
    part: int = 0
    fl: Flight = NO_FLIGHT
    drop: str = "idle"


class Eraser(NamedTuple):
    ph: str = "idle"
    seen: Man = NO_MAN


class State(NamedTuple):
    man: Man
    led: tuple[Ledger, ...]
    nid: int
    inc: int
    unk: int
    ldr: tuple[Leader, ...]
    job: Job
    era: tuple[Eraser, ...]
    asks: frozenset[tuple[int, int]]


# -- questions ------------------------------------------------------------------------------------


def opens(man: Man) -> tuple[int, ...]:
    """The ledgers of the open segments, in order."""
    return tuple(each.led for each in man.segs if each.end == OPEN_END)


def lists(man: Man, led: int) -> bool:
    return any(each.led == led for each in man.segs)


def knows(man: Man, led: int) -> bool:
    return led in man.doomed or lists(man, led)


def shape(man: Man) -> tuple[object, ...]:
    """What may not change under a takeover. A trim may come in between."""
    return man.log, man.epoch, man.next, opens(man), man.ret


# -- edits ----------------------------------------------------------------------------------------


def seal(man: Man, led: int, end: int) -> Man:
    """Seal the open segment of a ledger. A segment in which nothing was written leaves."""
    if led not in opens(man):
        return man
    if end == 0:
        kept = tuple(each for each in man.segs if each.led != led)
        return man._replace(segs=kept, doomed=man.doomed | {led})
    segs = tuple(each._replace(end=end) if each.led == led else each for each in man.segs)
    return man._replace(segs=segs)


def append(man: Man, led: int, end: int = OPEN_END) -> Man:
    segment = Seg(man.next, led, man.epoch, end)
    return man._replace(segs=(*man.segs, segment), next=man.next + 1)


def end_of(ledger: Ledger) -> int:
    """Where a ledger ends, as its record says or, without a record of that, as a reader sees."""
    return ledger.end if ledger.st != "OPEN" else ledger.ack


def seal_opens(man: Man, led: tuple[Ledger, ...], epoch: int) -> Man:
    """Begin an epoch: seal what is open."""
    for each in opens(man):
        man = seal(man, each, end_of(led[each - 1]))
    return man._replace(epoch=epoch)


def trim(man: Man, to: int) -> Man:
    """Remove the sealed segments below a number, from the front."""
    kept = man.segs
    while kept and kept[0].num < to and kept[0].end != OPEN_END:
        kept = kept[1:]
    gone = man.segs[: len(man.segs) - len(kept)]
    if not gone:
        return man
    doomed = man.doomed | {each.led for each in gone}
    return man._replace(segs=kept, trim=gone[-1].num + 1, doomed=doomed)


def cut_out(man: Man, number: int) -> Man:
    """Remove a sealed segment from anywhere: what the safeguard TrimsPrefix forbids."""
    gone = [each for each in man.segs if each.num == number]
    kept = tuple(each for each in man.segs if each.num != number)
    return man._replace(segs=kept, doomed=man.doomed | {each.led for each in gone})


def retire(man: Man, led: tuple[Ledger, ...], epoch: int) -> Man:
    """Begin the epoch in which the log has no segments, before it is deleted."""
    sealed = seal_opens(man, led, epoch)
    gone = sealed.doomed | {each.led for each in sealed.segs}
    return sealed._replace(segs=(), doomed=gone, trim=sealed.next, ret=True)


# -- ledgers -------------------------------------------------------------------------------------


def put(s: State, led: int, ledger: Ledger) -> State:
    return s._replace(led=(*s.led[: led - 1], ledger, *s.led[led:]))


def create(s: State, label: Label) -> State:
    """A ledger under the next id. What bookies hold of the id is still there."""
    old = s.led[s.nid - 1]
    made = Ledger("OPEN", old.sent, 0, 0, old.bar, label)
    return put(s, s.nid, made)._replace(nid=s.nid + 1)


def delete(s: State, led: int) -> State:
    """The record of a ledger goes. One that is open ends at what was acknowledged by then."""
    ledger = s.led[led - 1]
    if ledger.st not in ("OPEN", "CLOSED"):
        return s
    return put(s, led, ledger._replace(st="GONE", end=end_of(ledger)))
