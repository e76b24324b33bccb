"""Logs over gRPC: a client with generated code, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc import StatusCode

from quire.errors import ConfigurationError, LogExistsError
from quire.gateway.limits import GatewayLimits
from quire.gateway.metered import AnsweredCall
from quire.gateway.rpc import appending, caller, port, status_pb2
from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc.logs_pb2_grpc import LogsStub
from quire.gateway.rpc.port import RpcPort
from quire.gateway.tokens import Token
from quire.rights.calls import LOGS
from quire.rights.roles import Role
from quire.rights.scopes import Reach
from quire.rights.table import AccessRule
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import client_identity
from quire.wire.issuing import DAY
from tests.gateway.rpc.serving import LOG, Served, fact, metadata, numbered, request, serving, until
from tests.rights.scene import scene
from tests.wire.certificates import authority

pytestmark = pytest.mark.real_time


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def refusal(work: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return caught.value


def _any(channel: grpc.aio.Channel) -> Any:
    """A channel for calls in bytes, which its types do not know."""
    return channel


def plain(address: str) -> Any:
    return _any(grpc.aio.insecure_channel(address))


async def test_a_stream_appends_in_order_and_all_that_records_have(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        headers = [pb.Header(name="h"), pb.Header(name="g", value=b"v")]
        full = pb.NewRecord(payload=b"c", key=b"k", event_time_ms=-5, headers=headers)
        answers = await one.append(
            request(b"a", b"b"), pb.AppendRequest(records=[full], txid=7), request(b"d")
        )
        assert [(each.first_offset, each.records) for each in answers] == [(0, 2), (2, 1), (3, 1)]
        assert await one.payloads() == [b"a", b"b", b"c", b"d"]
        (record,) = await one.read(start="2", limit=1)
        assert (record.offset, record.payload, record.key, record.event_time_ms, record.txid) == (
            *(2, b"c", b"k", -5, 7),
        )
        seen = [(each.name, each.HasField("value"), each.value) for each in record.headers]
        assert seen == [("h", False, b""), ("g", True, b"v")]


async def test_a_read_follows_the_log_and_goes_on_at_next(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        numbers = [b"%d" % number for number in range(30_000)]
        await one.append(*(request(*numbers[at : at + 9_000]) for at in range(0, 30_000, 9_000)))
        following = one.logs.Read(pb.ReadRequest(log=LOG, follow=True))
        seen: list[bytes] = []
        while len(seen) < 30_000:
            reply = await following.read()
            assert len(reply.records) <= 10_000
            seen += [each.payload for each in reply.records]
        assert seen == numbers
        await one.append(request(b"late"))
        assert [each.payload for each in (await following.read()).records] == [b"late"]
        following.cancel()
        assert [each.offset for each in await one.read(start=reply.next, limit=2)] == [30_000]
        assert [each.payload for each in await one.read(start="7", limit=2)] == [b"7", b"8"]


async def test_a_repetition_is_written_once(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        first = await one.append(*numbered(1, [b"a", b"b", b"c"]))
        again = await one.append(*numbered(2, [b"b", b"c", b"d"]))
        assert again[:2] == first[1:]
        assert await one.payloads() == [b"a", b"b", b"c", b"d"]
        known = pb.LastSequenceRequest(log=LOG, producer="shop")
        assert (await one.logs.LastSequence(known)).sequence == 4
        other = await one.logs.LastSequence(pb.LastSequenceRequest(log=LOG, producer="new"))
        assert not other.HasField("sequence")
        error = await refusal(one.append(*numbered(0, [b"z"])))
        assert (error.code(), fact(error)) == (StatusCode.FAILED_PRECONDITION, "sequence_conflict")


async def test_the_first_failure_ends_a_stream_and_nothing_after_it_is_written(
    cluster: MemoryCluster,
) -> None:
    async with serving(cluster) as one:
        sent = [request(b"a"), request(b"b", expected_offset=7), request(b"c")]
        call = one.logs.Append(iter(sent))
        assert (await call.read()).first_offset == 0
        error = await refusal(call.read())
        assert (error.code(), fact(error)) == (StatusCode.FAILED_PRECONDITION, "offset_conflict")
        assert await one.payloads() == [b"a"]


@pytest.mark.parametrize(
    ("requests", "code", "says"),
    [
        ([request()], "invalid_request", "no record"),
        ([request(b"a"), request(b"b", log="bills")], "invalid_request", "one log"),
        ([request(b"a", log="")], "invalid_request", "name"),
        ([request(b"a", producer=pb.Producer(id="", sequence=1))], "invalid_request", "producer"),
        ([request(b"a", producer=pb.Producer(id="p", sequence=-1))], "invalid_request", "sequence"),
        ([request(b"a", txid=5), request(b"b", txid=4)], "conflict", "txid"),
        ([request(*[b""] * 10_001)], "invalid_request", "too many"),
    ],
)
async def test_a_wrong_append_is_refused(
    cluster: MemoryCluster, requests: list[pb.AppendRequest], code: str, says: str
) -> None:
    async with serving(cluster) as one:
        error = await refusal(one.append(*requests))
        assert fact(error) == code
        assert says in (error.details() or "")


async def test_the_owner_writes_and_another_gateway_names_it(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append(request(b"a"))
        async with serving(cluster) as two:
            asked = pb.LastSequenceRequest(log=LOG, producer="p")
            for work in (two.append(request(b"b")), two.logs.LastSequence(asked)):
                error = await refusal(work)
                assert (error.code(), fact(error)) == (StatusCode.FAILED_PRECONDITION, "elsewhere")
                assert fact(error, "quire-location") == one.address
            found = two.logs.Read(pb.ReadRequest(log=LOG, follow=True))
            assert [each.payload for each in (await found.read()).records] == [b"a"]
            found.cancel()


async def test_an_ending_gateway_answers_what_is_under_way_and_ends_streams(
    cluster: MemoryCluster,
) -> None:
    # A client whose channel outlasts the gateway: the end of `serving` closes its own channel.
    async with AsyncExitStack() as lasting:
        async with serving(cluster) as one:
            await one.append(request(b"a"))
            logs: Any = LogsStub(await lasting.enter_async_context(plain(one.address)))
            following = logs.Read(pb.ReadRequest(log=LOG, follow=True))
            await following.read()
            stream = logs.Append()
            await stream.write(request(b"b"))
            assert (await stream.read()).first_offset == 1
            assert [each.payload for each in (await following.read()).records] == [b"b"]
            ends = [asyncio.ensure_future(refusal(each.read())) for each in (following, stream)]
        for error in await asyncio.gather(*ends):
            assert (error.code(), fact(error)) == (StatusCode.UNAVAILABLE, "not_ready")


async def test_calls_about_logs_and_cursors(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        logs = one.logs
        options = {"retention_seconds": "60"}
        made = await logs.CreateLog(pb.CreateLogRequest(log=LOG, options=options))
        assert (made.log, dict(made.options)) == (LOG, options)
        await one.append(*(request(b"%d" % number) for number in range(5)))
        assert (await logs.ListLogs(pb.ListLogsRequest())).logs == [LOG]
        described = await logs.DescribeLog(pb.DescribeLogRequest(log=LOG))
        assert (described.log_id, described.epoch) == (made.log_id, 1)
        end = await logs.FindEnd(pb.FindEndRequest(log=LOG, linearizable=True))
        assert end.offset == 5
        place = pb.MoveCursorRequest(log=LOG, cursor="billing", position="2")
        moved = await logs.MoveCursor(place)
        place.position = "4"
        assert (await logs.MoveCursor(place)).position > moved.position
        named = pb.FindCursorRequest(log=LOG, cursor="billing")
        found = await logs.FindCursor(named)
        assert list((await logs.ListCursors(pb.ListCursorsRequest(log=LOG))).cursors) == [found]
        await logs.DeleteCursor(pb.DeleteCursorRequest(log=LOG, cursor="billing"))
        missing = await refusal(logs.FindCursor(named))
        assert (missing.code(), fact(missing)) == (StatusCode.NOT_FOUND, "not_found")
        await logs.TrimLog(pb.TrimLogRequest(log=LOG, before="3"))
        trimmed = await refusal(one.read(start="1"))
        assert (trimmed.code(), fact(trimmed)) == (StatusCode.OUT_OF_RANGE, "trimmed")
        wrong = await refusal(logs.TrimLog(pb.TrimLogRequest(log=LOG, before="2026-01-01")))
        assert "neither an offset nor a position" in (wrong.details() or "")
        await logs.CreateLog(pb.CreateLogRequest(log="bills"))
        await logs.DeleteLog(pb.DeleteLogRequest(log="bills"))
        assert (await logs.ListLogs(pb.ListLogsRequest())).logs == [LOG]


async def test_each_call_needs_a_token_and_the_right_of_its_holder(cluster: MemoryCluster) -> None:
    roles = {"reader": Role.READER, "writer": Role.WRITER, "operator": Role.OPERATOR}
    tokens = tuple(Token(name, client_identity(name)) for name in roles)
    rules = [
        AccessRule(client_identity(name).name, role, Reach(log=LOG)) for name, role in roles.items()
    ]
    async with scene() as rights, serving(cluster, tokens=tokens, guard=rights.guard) as one:
        bearer = {name: (("authorization", f"Bearer {name}"),) for name in (*roles, "nobody")}
        await one.append(request(b"a"), metadata=bearer["writer"])
        await rights.set(*rules)
        for method, action in sorted(LOGS.items()):
            for name in bearer:
                may = name in roles and action in roles[name].actions
                for log in (LOG, "bills"):
                    error = await _try(one, method, log, bearer[name])
                    if name == "nobody":
                        assert error == "unauthorized", method
                    elif method != "ListLogs":
                        is_denied = error == "not_permitted"
                        assert is_denied is not (may and log == LOG), (method, name)
        with suppress(LogExistsError):  # the operator has deleted it
            await one.client.create_log(LOG)
        listed = {}
        for name in roles:
            answer = await one.logs.ListLogs(pb.ListLogsRequest(), metadata=bearer[name])
            listed[name] = list(answer.logs)
        assert listed == {"reader": [LOG], "writer": [], "operator": [LOG]}


async def _try(one: Served, method: str, log: str, bearer: Any) -> str | None:
    call = getattr(one.logs, method)
    try:
        if method == "Append":
            await one.append(request(b"a", log=log), metadata=bearer)
        elif method == "ListLogs":
            await call(pb.ListLogsRequest(), metadata=bearer)
        elif method == "Read":
            _ = [each async for each in call(pb.ReadRequest(log=log), metadata=bearer)]
        else:
            service = pb.DESCRIPTOR.services_by_name["Logs"]
            kind = service.methods_by_name[method].input_type.name
            await call(getattr(pb, kind)(log=log), metadata=bearer)
    except grpc.aio.AioRpcError as error:
        return fact(error)
    return None


async def test_an_open_stream_of_appends_ends_with_its_right(cluster: MemoryCluster) -> None:
    writer = client_identity("writer")
    rule = AccessRule(writer.name, Role.WRITER, Reach(log=LOG))
    async with (
        scene() as rights,
        serving(cluster, tokens=(Token("t", writer),), guard=rights.guard) as one,
    ):
        await rights.set(rule)
        call = one.logs.Append(metadata=(("authorization", "Bearer t"),))
        await call.write(request(b"a"))
        await call.read()
        await rights.set()
        await call.write(request(b"b"))
        assert fact(await refusal(call.read())) == "not_permitted"
        assert await one.payloads() == [b"a"]


async def test_a_call_beyond_a_quota_says_when_to_go_on(cluster: MemoryCluster) -> None:
    limits = GatewayLimits(client_append_records_per_second=0.01)
    async with serving(cluster, limits) as one:
        call = one.logs.Append()
        await call.write(request(b"a"))
        await call.write(request(b"b"))
        await call.read()
        call.cancel()
        error = await refusal(one.append(request(b"c")))
        assert (error.code(), fact(error)) == (StatusCode.RESOURCE_EXHAUSTED, "quota_exceeded")
        details = metadata(error)["grpc-status-details-bin"]
        assert isinstance(details, bytes)
        retry = status_pb2.Status.FromString(details).details[1]
        assert 0 < status_pb2.RetryInfo.FromString(retry.value).retry_delay.seconds <= 100
        assert await one.payloads() == [b"a"], "the stream was slowed"


async def test_a_caller_that_stalls_loses_its_call(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "MESSAGE_SECONDS", 0.05)
    monkeypatch.setattr(appending, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(caller, "ANSWER_SECONDS", 0.2)
    async with serving(cluster) as one:
        error = await refusal(one.logs.Append().read())
        assert (error.code(), fact(error)) == (StatusCode.DEADLINE_EXCEEDED, "stalled")
        async with plain(one.address) as channel:
            silent = channel.stream_unary("/quire.gateway.v1.Logs/ListLogs")()
            assert fact(await refusal(silent)) == "stalled"
        monkeypatch.setattr(appending, "IDLE_SECONDS", 60)
        for _ in range(8):
            await one.append(request(bytes(1_000_000)))
        small = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535))
        slow: Any = grpc.aio.insecure_channel(one.address, options=small)
        asked = pb.ReadRequest(log=LOG, follow=True).SerializeToString()
        reading = slow.unary_stream("/quire.gateway.v1.Logs/Read")(asked)
        await reading.wait_for_connection()
        ended = AnsweredCall("grpc.Read", "DEADLINE_EXCEEDED")
        await until(lambda: ended in one.gateway.meter.requests)
        assert one.gateway.meter.requests[ended].count == 1
        await slow.close()


async def test_garbage_is_refused_and_the_port_goes_on(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one, plain(one.address) as channel:
        for method in ("Append", "Read", "DescribeLog"):
            raw = channel.stream_stream(f"/quire.gateway.v1.Logs/{method}")
            for data in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", bytes(5)):
                error = await refusal(raw(iter([data])).read())
                assert fact(error) == "invalid_request", (method, data)
            too_large = await refusal(raw(iter([bytes(port.MESSAGE_BYTES_MAX + 1)])).read())
            assert too_large.code() is StatusCode.RESOURCE_EXHAUSTED
        unknown = channel.stream_stream("/quire.gateway.v1.Logs/Destroy")
        assert (await refusal(unknown(iter([b""])).read())).code() is StatusCode.UNIMPLEMENTED
        host, number = one.address.split(":")
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(100), preface + b"\xff" * 99):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(data)
            await reader.read()
            writer.close()
        assert len(await one.append(request(b"a"))) == 1


async def test_a_client_that_leaves_harms_no_other_one(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        for _ in range(20):
            call = one.logs.Append(iter([request(b"a"), request(b"b")]))
            await call.wait_for_connection()
            call.cancel()
        assert len(await one.append(request(b"c"))) == 1
        await until(lambda: not one.gateway.admission.requests)
        assert one.gateway.admission.bytes == 0


async def test_a_port_with_tls(cluster: MemoryCluster, tmp_path: Path) -> None:
    issued = authority().issue("gateway", None, ["localhost"], DAY)
    certificate, key = issued.write(tmp_path, "g")
    credentials = grpc.ssl_channel_credentials(authority().pair.certificate)
    name = (("grpc.ssl_target_name_override", "localhost"),)
    async with serving(cluster) as one:
        second = RpcPort(10)
        address = second.bind("127.0.0.1:0", certificate, key)
        async with (
            second.serve(one.gateway),
            _any(grpc.aio.secure_channel(address, credentials, options=name)) as channel,
        ):
            call = channel.unary_unary("/quire.gateway.v1.Logs/ListLogs")
            assert await call(b"") == b""
        with pytest.raises(ConfigurationError, match="cannot be read"):
            RpcPort(10).bind("127.0.0.1:0", tmp_path / "gone", key)
