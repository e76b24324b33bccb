"""A bookie's answers, as messages and back; pure.

An error of a bookie is an answer like any other. `RULES` is the one table between errors and
statuses, read in both directions: an error travels with the attributes named there and is raised
again on the other side as the same class with the same attributes. An error without a rule is a
defect of the bookie: the client learns only that an error occurred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quire.bookie import BookieInfo, LedgerTail, LedgerUse, LedgerUses, UseKind
from quire.entry import BookieId, EntryId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    CorruptEntryError,
    CorruptStorageError,
    EntryUnknownError,
    InvalidRequestError,
    LedgerDisownedError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotPermittedError,
    QuireError,
    ReadOnlyBookieError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.outline import Outline
from quire.wire import bookie_pb2 as pb

REASON_CHARACTERS_MAX: Final = 1000
"""Longer texts of an error are cut: a reply must not grow with what went wrong."""


_USE_KINDS: Final = frozenset(UseKind)


@dataclass(frozen=True, slots=True)
class Rule:
    """How one class of error travels: its attributes in constructor order, each with its field.

    `mark` is the constant `subject` that tells it from an older error of the same status. A client
    that does not know the mark raises the older error.
    """

    error: type[QuireError]
    status: pb.Status
    fields: tuple[tuple[str, str], ...]
    mark: str = ""


_LEDGER: Final = (("ledger", "ledger"),)
_ENTRY: Final = (*_LEDGER, ("entry", "entry"))
_ENTRY_REASON: Final = (*_ENTRY, ("reason", "reason"))
_BOOKIE_REASON: Final = (("bookie", "subject"), ("reason", "reason"))

RULES: Final = (
    Rule(BookieUnavailableError, pb.UNAVAILABLE, _BOOKIE_REASON),
    Rule(BookieBusyError, pb.BUSY, _BOOKIE_REASON),
    Rule(ReadOnlyBookieError, pb.READ_ONLY, _BOOKIE_REASON),
    Rule(LedgerFencedError, pb.FENCED, _LEDGER),
    Rule(NoSuchLedgerError, pb.NO_SUCH_LEDGER, _LEDGER),
    Rule(LedgerRetiredError, pb.NO_SUCH_LEDGER, _LEDGER, mark="retired"),
    Rule(NoSuchEntryError, pb.NO_SUCH_ENTRY, (*_ENTRY, ("through", "through"))),
    Rule(EntryUnknownError, pb.ENTRY_UNKNOWN, _ENTRY_REASON),
    Rule(LedgerDisownedError, pb.ENTRY_UNKNOWN, _ENTRY_REASON, mark="disowned"),
    Rule(CorruptEntryError, pb.CORRUPT_ENTRY, _ENTRY_REASON),
    Rule(CorruptStorageError, pb.CORRUPT_STORAGE, (("path", "subject"), ("reason", "reason"))),
    Rule(UnauthorizedError, pb.UNAUTHORIZED, _LEDGER),
    Rule(
        WrongBookieError,
        pb.WRONG_BOOKIE,
        (("what", "subject"), ("expected", "expected"), ("found", "found")),
    ),
    Rule(InvalidRequestError, pb.INVALID_REQUEST, (("args", "reason"),)),
    Rule(
        NotPermittedError,
        pb.INVALID_REQUEST,
        (("identity", "found"), ("action", "expected"), ("scope", "reason")),
        mark="not-permitted",
    ),
)
"""A class that is not here travels as its nearest ancestor that is."""

_BY_ERROR: Final = {rule.error: rule for rule in RULES}
_BY_STATUS: Final = {(rule.status, rule.mark): rule for rule in RULES}


def encode_failure(error: BaseException, bookie: BookieId) -> pb.Failure:
    """Return the answer that stands for an error raised by `bookie`; INTERNAL for one without a
    rule."""
    for ancestor in type(error).__mro__:
        rule = _BY_ERROR.get(ancestor)
        if rule is not None:
            failure = pb.Failure(status=rule.status, subject=rule.mark)
            for attribute, field in rule.fields:
                setattr(failure, field, _value(error, attribute))
            return failure
    return pb.Failure(status=pb.INTERNAL, subject=bookie)


def _value(error: BaseException, attribute: str) -> int | str:
    value = str(error) if attribute == "args" else getattr(error, attribute)
    if isinstance(value, int):
        return value
    # The name of a file may have bytes that are not UTF-8, and an error about it must travel too.
    text = str(value).encode(errors="backslashreplace").decode()
    return text[:REASON_CHARACTERS_MAX]


def decode_failure(failure: pb.Failure) -> QuireError:
    """Return the error to raise for an answer; unknown statuses are an unavailable bookie."""
    marked = _BY_STATUS.get((failure.status, failure.subject))
    rule = marked or _BY_STATUS.get((failure.status, ""))
    if rule is not None:
        return rule.error(*(_field(failure, field) for _, field in rule.fields))
    if failure.status == pb.INTERNAL:
        return BookieUnavailableError(failure.subject, "it met an internal error: see its log")
    return BookieUnavailableError(failure.subject, f"it answered unknown status {failure.status}")


def _field(failure: pb.Failure, field: str) -> int | str | None:
    """Return a field; None where an older program leaves `through` out."""
    if field == "through" and not failure.HasField("through"):
        return None
    found: int | str = getattr(failure, field)
    return found


def is_internal(failure: pb.Failure) -> bool:
    """True when the error had no rule, so that only the bookie's own log names it."""
    return failure.status == pb.INTERNAL


def encode_tail(tail: LedgerTail) -> pb.TailReply:
    """The wire is quire's: a fence that a bookie does not name travels as none."""
    return pb.TailReply(
        frame=tail.frame, lac_packet=tail.lac_packet, hint=tail.hint, fenced=bool(tail.fenced)
    )


def decode_tail(reply: pb.TailReply) -> LedgerTail:
    """Return the tail, or raise the bookie's error."""
    if reply.HasField("failure"):
        raise decode_failure(reply.failure)
    return LedgerTail(
        frame=reply.frame if reply.HasField("frame") else None,
        lac_packet=reply.lac_packet if reply.HasField("lac_packet") else None,
        hint=reply.hint,
        fenced=reply.fenced,
    )


UNTOLD: Final = Outline(0, -1, -1)
"""Of a ledger with an outline that a bookie cannot tell."""

RANGES_MAX: Final = 262_144
"""Ranges in one piece of a list: at ten bytes for an id at most, 5 of the 8 MiB of a message."""


def encode_ranges(ranges: list[tuple[EntryId, EntryId]]) -> pb.ListEntriesReply:
    return pb.ListEntriesReply(bounds=[bound for pair in ranges for bound in pair])


def decode_ranges(reply: pb.ListEntriesReply) -> list[tuple[EntryId, EntryId]]:
    """Return the (first, last) ranges, or raise the bookie's error."""
    if reply.HasField("failure"):
        raise decode_failure(reply.failure)
    return list(zip(reply.bounds[::2], reply.bounds[1::2], strict=True))


def encode_outlines(outlines: Sequence[Outline | None]) -> pb.OutlinesReply:
    told = [each or UNTOLD for each in outlines]
    return pb.OutlinesReply(
        firsts=[each.first for each in told],
        lasts=[each.last for each in told],
        counts=[each.entries for each in told],
    )


def decode_outlines(reply: pb.OutlinesReply) -> list[Outline | None]:
    """Return as many outlines as the reply has whole, or raise the bookie's error."""
    if reply.HasField("failure"):
        raise decode_failure(reply.failure)
    told = map(Outline, reply.firsts, reply.lasts, reply.counts)
    return [each if each.entries >= 0 else None for each in told]


def encode_info(info: BookieInfo) -> pb.InfoReply:
    """The wire is quire's, and its bookies tell all facts: an unknown fact travels as 0."""
    return pb.InfoReply(
        bookie=info.bookie,
        writable=info.writable,
        disk_free_bytes=info.disk_free_bytes,
        disk_total_bytes=info.disk_total_bytes,
        ledgers=info.ledgers or 0,
        in_limbo=info.in_limbo or 0,
        counters=info.counters,
        highest=info.highest,
        uses=[
            pb.LedgerUse(
                ledger=each.ledger,
                kind=each.kind,
                peer=each.peer,
                idle_ms=round(each.idle_seconds * 1000),
            )
            for each in info.in_use.uses
        ],
        uses_left_out=info.in_use.left_out,
    )


def decode_info(reply: pb.InfoReply) -> BookieInfo:
    """Return the bookie's description of itself, or raise its error."""
    if reply.HasField("failure"):
        raise decode_failure(reply.failure)
    return BookieInfo(
        bookie=reply.bookie,
        writable=reply.writable,
        disk_free_bytes=reply.disk_free_bytes,
        disk_total_bytes=reply.disk_total_bytes,
        ledgers=reply.ledgers,
        in_limbo=reply.in_limbo,
        counters=dict(sorted(reply.counters.items())),
        highest=reply.highest if reply.HasField("highest") else None,
        in_use=LedgerUses(tuple(_uses(reply)), reply.uses_left_out),
    )


def _uses(reply: pb.InfoReply) -> Iterator[LedgerUse]:
    """Yield the uses whose kinds this program knows."""
    for each in reply.uses:
        if each.kind in _USE_KINDS:
            kind, idle = UseKind(each.kind), each.idle_ms / 1000
            yield LedgerUse(each.ledger, kind, each.peer, idle)
