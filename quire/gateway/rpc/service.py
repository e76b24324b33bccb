"""The calls of logs.proto: each as its kin over HTTP (app.py), with messages instead of JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from quire.errors import InvalidRequestError, NoSuchCursorError
from quire.gateway.elections import check_log
from quire.gateway.quotas import Direction
from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc.caller import Caller
from quire.gateway.rpc.records import replies_of
from quire.inspect import LogInfo
from quire.log.records.position import LATEST, Position
from quire.places import Place, parse_place
from quire.rights.roles import Action

Handler: TypeAlias = Callable[[Caller, Any], Awaitable[Any]]
"""Answers a call. It returns the one message of the answer; None: it sent its own."""


async def read(caller: Caller, request: pb.ReadRequest) -> None:
    """Send the records from a place on."""
    if request.limit < 0:
        raise InvalidRequestError(f"limit {request.limit} is below 0: 0 stands for no limit")
    caller.check_quota(Direction.READ)
    client, name = caller.gateway.client, request.log
    start: Place = parse_place(request.start or "beginning")
    if start == LATEST:
        start = (await client.log_end(name)).position
    check = caller.rechecking(Action.READ, name)
    left = request.limit or None
    with caller.gateway.consumers.stream("grpc", caller.client, name) as stream:
        async with (
            client.read_log(name, start, follow=request.follow) as reader,
            aclosing(reader.read_batches()) as batches,
        ):
            async for batch in batches:
                check()
                for reply in replies_of(batch.records()[:left]):
                    with stream.handing():
                        await caller.write(reply)
                    await caller.pace(Direction.READ, reply.ByteSize(), len(reply.records))
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return


async def list_logs(caller: Caller, request: pb.ListLogsRequest) -> pb.ListLogsReply:
    """List the logs that the caller may observe."""
    names = await caller.gateway.client.list_logs()
    return pb.ListLogsReply(logs=[each for each in names if caller.may(Action.OBSERVE, each)])


async def describe_log(caller: Caller, request: pb.DescribeLogRequest) -> pb.LogDescription:
    """Describe a log."""
    return _description(await caller.gateway.client.log_info(request.log))


async def create_log(caller: Caller, request: pb.CreateLogRequest) -> pb.LogDescription:
    """Create a log."""
    check_log(request.log)
    options = dict(request.options)
    return _description(await caller.gateway.client.create_log(request.log, options))


async def delete_log(caller: Caller, request: pb.DeleteLogRequest) -> pb.DeleteLogReply:
    """Delete a log with all its records."""
    await caller.gateway.client.delete_log(request.log)
    return pb.DeleteLogReply()


async def trim_log(caller: Caller, request: pb.TrimLogRequest) -> pb.TrimLogReply:
    """Delete the records before a place."""
    await caller.gateway.client.trim_log(request.log, _exact(request.before))
    return pb.TrimLogReply()


async def find_end(caller: Caller, request: pb.FindEndRequest) -> pb.End:
    """Return the earliest place of the next record."""
    client = caller.gateway.client
    found = await client.log_end(request.log, linearizable=request.linearizable)
    return pb.End(offset=found.offset, position=str(found.position))


async def last_sequence(caller: Caller, request: pb.LastSequenceRequest) -> pb.LastSequenceReply:
    """Return the last sequence of a producer, once all before it is certain."""
    async with caller.gateway.owners.writer(request.log) as log:
        found = log.last_sequence(request.producer)
        await log.drain()
    return pb.LastSequenceReply(sequence=found)


async def list_cursors(caller: Caller, request: pb.ListCursorsRequest) -> pb.ListCursorsReply:
    """List the cursors of a log."""
    found = await caller.gateway.client.log_cursors(request.log).list()
    return pb.ListCursorsReply(
        cursors=[pb.Cursor(name=each.name, position=str(each.position)) for each in found]
    )


async def find_cursor(caller: Caller, request: pb.FindCursorRequest) -> pb.Cursor:
    """Return where a cursor is."""
    cursor = await caller.gateway.client.log_cursors(request.log).find(request.cursor)
    return pb.Cursor(name=cursor.name, position=str(cursor.position))


async def move_cursor(caller: Caller, request: pb.MoveCursorRequest) -> pb.Cursor:
    """Move a cursor forward; create it there if it does not exist."""
    place = _exact(request.position)
    cursors = caller.gateway.client.log_cursors(request.log)
    try:
        cursor = await cursors.find(request.cursor)
    except NoSuchCursorError:
        cursor = await cursors.open(request.cursor, place)
    return pb.Cursor(name=cursor.name, position=str(await cursor.advance(place)))


async def delete_cursor(caller: Caller, request: pb.DeleteCursorRequest) -> pb.DeleteCursorReply:
    """Delete a cursor."""
    await caller.gateway.client.log_cursors(request.log).delete(request.cursor)
    return pb.DeleteCursorReply()


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "Read": read,
        "ListLogs": list_logs,
        "DescribeLog": describe_log,
        "CreateLog": create_log,
        "DeleteLog": delete_log,
        "TrimLog": trim_log,
        "FindEnd": find_end,
        "LastSequence": last_sequence,
        "ListCursors": list_cursors,
        "FindCursor": find_cursor,
        "MoveCursor": move_cursor,
        "DeleteCursor": delete_cursor,
    }
)
"""By method. `Append` has messages of its own (appending.py)."""


def _exact(text: str) -> int | Position:
    place = parse_place(text)
    if not isinstance(place, int | Position):
        raise InvalidRequestError(f"{text!r} is neither an offset nor a position")
    return place


def _description(info: LogInfo) -> pb.LogDescription:
    return pb.LogDescription(
        log=info.name,
        log_id=info.log_id,
        epoch=info.epoch,
        sealed=info.is_sealed,
        first_position=str(info.first_position),
        first_offset=info.first_offset,
        end_offset=info.end_offset,
        segments=len(info.segments),
        options=dict(info.options),
    )
