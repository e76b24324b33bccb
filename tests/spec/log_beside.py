"""`spec/Log.tla` in Python: what happens beside leaders.

Trimming, sweeping and collection; erasers, which delete the log; a job whose part the log ingests;
an operator who puts a copy of the metadata store back that is older than the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.spec.log_state import (
    NO_FLIGHT,
    NO_MAN,
    OPEN_END,
    PART,
    Eraser,
    Flight,
    Job,
    Leader,
    Ledger,
    Man,
    State,
    append,
    cut_out,
    delete,
    knows,
    lists,
    opens,
    put,
    retire,
    seal_opens,
    shape,
    trim,
)

if TYPE_CHECKING:
    from tests.spec.log import LogModel


def following(m: LogModel, s: State) -> Iterator[State]:
    if m.bounds.trims:
        yield from _trims(m, s)
    yield from _deletions(m, s)
    if m.bounds.ingests:
        yield from _ingests(m, s)
        yield from _drops(m, s)
    for x in range(m.bounds.erasers):
        yield from _erases(m, s, x)
    if m.bounds.forgets and s.inc == 1 and s.man != NO_MAN:
        yield _forgotten(m, s)


# -- trimming and deletion of ledgers ------------------------------------------------------------


def _trims(m: LogModel, s: State) -> Iterator[State]:
    man = s.man
    if not s.asks and not man.ret:
        for each in man.segs:
            if each.end != OPEN_END:
                yield s._replace(asks=frozenset({(man.log, each.num + 1)}))
    for log, to in s.asks:
        if man.ret or (m.has["TrimsOwn"] and log != man.log):
            continue
        after = trim(man, to) if m.has["TrimsPrefix"] else cut_out(man, to - 1)
        if after != man:
            yield s._replace(man=after)
        if not m.has["TrimsFirst"]:
            for each in man.segs:
                if each.num < to and each.end != OPEN_END and s.led[each.led - 1].st == "CLOSED":
                    yield delete(s, each.led)


def _deletions(m: LogModel, s: State) -> Iterator[State]:
    man = s.man
    for led in man.doomed:
        yield delete(s._replace(man=man._replace(doomed=man.doomed - {led})), led)
    for led, ledger in enumerate(s.led, start=1):
        is_there = ledger.st in ("OPEN", "CLOSED") and ledger.lab[0] == man.log
        is_unlisted = is_there and man != NO_MAN and not knows(man, led)
        is_past = ledger.lab[1] < man.epoch or not m.has["SparesEpoch"]
        if m.bounds.sweeps and is_unlisted and is_past:
            yield delete(s, led)
        if m.bounds.collects and ledger.st == "GONE":
            yield put(s, led, ledger._replace(st="COLL", bar=m.has["RetiresIds"]))


# -- a job ---------------------------------------------------------------------------------------


def _is_done(man: Man, part: int) -> bool:
    return man.did or knows(man, part)


def _ingests(m: LogModel, s: State) -> Iterator[State]:
    j, man = s.job, s.man
    if j.ph == "idle" and s.nid <= m.bounds.ids:
        old = s.led[s.nid - 1].sent
        part = Ledger("CLOSED", (*old, (0, 0, 1)), 0, len(old) + 1, True, PART)
        made = put(s, s.nid, part)
        yield made._replace(nid=s.nid + 1, job=j._replace(ph="made", part=s.nid))
    if j.ph == "made":
        if man != NO_MAN and not man.ret and not (m.has["IngestsOnce"] and _is_done(man, j.part)):
            yield s._replace(job=j._replace(ph="read", seen=man))
        if m.has["IngestsOnce"] and _is_done(man, j.part):
            yield _ingested(s)
    if j.ph == "read":
        if shape(man) != shape(j.seen):
            yield s._replace(job=j._replace(ph="made", seen=NO_MAN))
        is_ready = m.is_recovered(s, j.seen) and s.led[j.part - 1].st == "CLOSED"
        if is_ready and (shape(man) == shape(j.seen) or not m.has["IngestIsCas"]):
            yield from _installs(m, s)
    if j.ph == "unsure":
        yield s._replace(job=j._replace(ph="made", seen=NO_MAN))
    if j.fl.on and j.fl.base == man:
        yield _placed(s._replace(man=j.fl.val, job=j._replace(fl=NO_FLIGHT)))


def _installs(m: LogModel, s: State) -> Iterator[State]:
    j = s.job
    base = s.man if m.has["IngestIsCas"] else j.seen
    sealed = seal_opens(base, s.led, m.epoch_after(base.epoch))
    after = append(sealed, j.part, 1)._replace(did=True)
    yield _ingested(_placed(s._replace(man=after)))
    if s.unk < m.bounds.unknown:
        unsure = j._replace(ph="unsure", seen=NO_MAN, fl=Flight(True, s.man, after))
        yield s._replace(job=unsure, unk=s.unk + 1)


def _placed(s: State) -> State:
    """The part is a segment of the log now."""
    last = s.man.segs[-1]
    part = s.led[last.led - 1]._replace(lab=(s.man.log, last.ep, last.num))
    return put(s, last.led, part)


def _ingested(s: State) -> State:
    """The job knows that its part was ingested: its records are acknowledged."""
    part = s.led[s.job.part - 1]
    done = s.job._replace(ph="done", seen=NO_MAN)
    return put(s, s.job.part, part._replace(ack=1))._replace(job=done)


def _drops(m: LogModel, s: State) -> Iterator[State]:
    """Another process deletes what no log lists, in one change with the manifest as it was read."""
    j, man = s.job, s.man
    if not j.part or s.led[j.part - 1].st != "CLOSED":
        return
    if j.drop == "idle" and not lists(man, j.part):
        yield s._replace(job=j._replace(drop="saw"))
    if j.drop == "saw" and (not lists(man, j.part) or not m.has["DropIsCas"]):
        dropped = delete(s, j.part)
        if m.has["DropIsCas"]:  # the manifest has another version: what is in flight is lost
            ldr = tuple(each._replace(fl=NO_FLIGHT) for each in s.ldr)
            dropped = dropped._replace(ldr=ldr, job=j._replace(fl=NO_FLIGHT))
        yield dropped._replace(job=dropped.job._replace(drop="done"))


# -- erasers, and an operator ---------------------------------------------------------------------


def _erases(m: LogModel, s: State, x: int) -> Iterator[State]:
    e, man = s.era[x], s.man
    may_begin = all(each.ph != "idle" for each in s.era[:x])
    if e.ph == "idle" and may_begin and man != NO_MAN:
        yield _era(s, x, Eraser("retired" if man.ret else "read", man))
    if e.ph == "read":
        is_fenced = all(s.led[each - 1].st == "CLOSED" for each in opens(e.seen))
        if shape(man) != shape(e.seen):
            yield _era(s, x, Eraser())
        elif is_fenced or not m.has["ErasesFenced"]:
            after = retire(man, s.led, m.epoch_after(man.epoch))
            yield _era(s, x, Eraser("retired", after))._replace(man=after)
    if e.ph == "retired":
        is_own = man.log == e.seen.log or not m.has["ErasesOwn"]
        are_gone = not man.doomed or not m.has["LedgersFirst"]
        if is_own and are_gone and man != NO_MAN:
            yield _era(s, x, Eraser("done"))._replace(man=NO_MAN)


def _era(s: State, x: int, e: Eraser) -> State:
    return s._replace(era=(*s.era[:x], e, *s.era[x + 1 :]))


def _forgotten(m: LogModel, s: State) -> State:
    """The store is of a time before the log. What bookies hold they go on holding."""
    none = tuple(each._replace(st="NONE", ack=0, end=0, lab=PART) for each in s.led)
    return s._replace(
        man=NO_MAN,
        led=none,
        nid=s.nid if m.has["IdsOnce"] else 1,
        inc=2,
        ldr=tuple(Leader("idle" if each.ph == "idle" else "over") for each in s.ldr),
        job=Job(),
        era=tuple(Eraser() for _ in s.era),
        asks=frozenset(),
    )
