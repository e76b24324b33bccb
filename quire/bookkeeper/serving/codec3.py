"""The third protocol of Apache's bookies, at the bookie's end: requests read, answers written.

quire/bookkeeper/wire3.py has the messages, and the client's end. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quire.bookkeeper.protobuf import Field, MalformedError, Message, encode
from quire.bookkeeper.serving.request import AUTH_DISABLED, THIRD, ClientRequest, Reply, RequestKind
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import (
    AVAILABILITY_HEADER,
    PART,
    RECOVERY,
    VERSION,
    AddFlag,
    Operation,
    ReadFlag,
)
from quire.entry import EntryId

KINDS: Final[Mapping[Operation, RequestKind]] = {
    Operation.READ: RequestKind.READ,
    Operation.ADD: RequestKind.ADD,
    Operation.AUTH: RequestKind.AUTH,
    Operation.WRITE_LAC: RequestKind.WRITE_LAC,
    Operation.READ_LAC: RequestKind.READ_LAC,
    Operation.INFO: RequestKind.INFO,
    Operation.START_TLS: RequestKind.START_TLS,
    Operation.FORCE: RequestKind.FORCE,
    Operation.LIST_ENTRIES: RequestKind.LIST_ENTRIES,
}

TOTAL: Final = 1
FREE: Final = 2
"""Facts that a request for information asks for, in bits."""

VALUES_MAX: Final = 1000
"""Values of a request, and of each part of it: a dozen of them have a meaning. A stranger could
have millions of them read in one step, which keeps all other clients waiting.
"""

_GROUPS: Final = struct.Struct(">ii")
_GROUP: Final = struct.Struct(">qqii")
_SIZE_MAX: Final = 2**31 - 1


def read_request(data: bytes) -> ClientRequest:
    """Return a client's message without its size.

    An operation that is not known, or lacks its part, is a request of kind UNKNOWN: its client
    hears of it by the transaction. Raises `MalformedError` for bytes without a header.
    """
    whole = Message(data, VALUES_MAX)
    header = Message(whole.data(1), VALUES_MAX)
    number, transaction = header.number(2), header.number(3)
    unknown = ClientRequest(THIRD, number, transaction, RequestKind.UNKNOWN)
    if header.number(1) != VERSION or number not in PART.keys() & KINDS.keys():
        return unknown
    operation = Operation(number)
    if not whole.has(PART[operation]):
        return unknown
    try:
        part = Message(whole.data(PART[operation]), VALUES_MAX)
        return _of_part(operation, transaction, part)
    except MalformedError:
        return unknown


def _of_part(operation: Operation, transaction: int, part: Message) -> ClientRequest:
    request = ClientRequest(THIRD, operation, transaction, KINDS[operation])
    if operation in (Operation.AUTH, Operation.START_TLS):
        return request
    if operation is Operation.INFO:
        return request._replace(entries=part.number(1, 0))
    request = request._replace(ledger=part.number(1))
    match operation:
        case Operation.ADD:
            return request._replace(
                entry=part.number(2),
                key=part.data(3),
                body=part.data(4),
                recovery=part.number(100, 0) == RECOVERY,
                deferred=bool(part.number(5, 0) & AddFlag.DEFERRED),
            )
        case Operation.WRITE_LAC:
            return request._replace(entry=part.number(2), key=part.data(3), body=part.data(4))
        case Operation.READ:
            return _of_read(request, part)
    return request


def _of_read(request: ClientRequest, part: Message) -> ClientRequest:
    flag = part.number(100, 0)
    request = request._replace(
        entry=part.number(2),
        key=part.data(3) if part.has(3) else None,
        fences=flag == ReadFlag.FENCE,
    )
    if flag != ReadFlag.WAIT or not part.has(4):
        return request
    return request._replace(
        kind=RequestKind.WAIT, above=part.number(4), milliseconds=max(0, part.number(5, 0))
    )


def encode_reply(request: ClientRequest, reply: Reply) -> bytes:
    """Return the answer to a request, without its size."""
    header = encode([(1, VERSION), (2, request.operation), (3, request.transaction)])
    fields: list[Field] = [(1, header), (2, reply.status)]
    make = _PARTS.get(request.kind)
    if make is not None and not reply.is_bare:
        part = PART[Operation(request.operation)]
        fields.append((part, encode(make(request, reply))))
    return encode(fields)


def _of_entry(request: ClientRequest, reply: Reply) -> list[Field]:
    entry = request.entry if reply.entry is None else reply.entry
    return [(1, reply.status), (2, request.ledger), (3, entry)]


def _with_body(request: ClientRequest, reply: Reply) -> list[Field]:
    return [*_of_entry(request, reply), (4, reply.body or None), (5, reply.lac)]


def _of_ledger(request: ClientRequest, reply: Reply) -> list[Field]:
    return [(1, reply.status), (2, request.ledger)]


def _of_lac(request: ClientRequest, reply: Reply) -> list[Field]:
    return [*_of_ledger(request, reply), (3, reply.packet or None), (4, reply.body or None)]


def _of_list(request: ClientRequest, reply: Reply) -> list[Field]:
    return [*_of_ledger(request, reply), (3, reply.body or None)]


def _of_info(request: ClientRequest, reply: Reply) -> list[Field]:
    total = reply.total if request.entries & TOTAL and reply.status == Status.OK else None
    free = reply.free if request.entries & FREE and reply.status == Status.OK else None
    return [(1, reply.status), (2, total), (3, free)]


def _of_auth(request: ClientRequest, reply: Reply) -> list[Field]:
    return [(1, AUTH_DISABLED), (2, b"")]


def _of_tls(request: ClientRequest, reply: Reply) -> list[Field]:
    return []


_PARTS: Final[Mapping[RequestKind, Callable[[ClientRequest, Reply], list[Field]]]] = {
    RequestKind.ADD: _of_entry,
    RequestKind.READ: _with_body,
    RequestKind.WAIT: _with_body,
    RequestKind.WRITE_LAC: _of_ledger,
    RequestKind.READ_LAC: _of_lac,
    RequestKind.FORCE: _of_ledger,
    RequestKind.LIST_ENTRIES: _of_list,
    RequestKind.INFO: _of_info,
    RequestKind.AUTH: _of_auth,
    RequestKind.START_TLS: _of_tls,
}


def encode_availability(ranges: Iterable[tuple[EntryId, EntryId]]) -> bytes:
    """Return ascending, disjoint ranges of ids as the list in an answer to LIST_ENTRIES.

    Ranges of one size at one distance are one group, as the entries of a striped ledger are.
    """
    groups: list[tuple[EntryId, EntryId, int, int]] = []
    for first, size in _pieces(ranges):
        if groups and groups[-1][2] == size:
            start, last, _, period = groups[-1]
            if first - last <= _SIZE_MAX and period in (0, first - last):
                groups[-1] = (start, first, size, first - last)
                continue
        groups.append((first, first, size, 0))
    head = _GROUPS.pack(0, len(groups)).ljust(AVAILABILITY_HEADER, b"\0")
    return head + b"".join(_GROUP.pack(*each) for each in groups)


def _pieces(ranges: Iterable[tuple[EntryId, EntryId]]) -> Iterable[tuple[EntryId, int]]:
    for first, last in ranges:
        while first <= last:
            size = min(last - first + 1, _SIZE_MAX)
            yield first, size
            first += size
