"""The hand-made answer of a read is one that protobuf understands, and the other way round."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from quire.bookie import BookieAddress
from quire.errors import BookieUnavailableError, NoSuchEntryError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.limits import Reception
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.codec import encode_failure
from quire.wire.reads import METHOD, PART_BYTES_MAX, NoMessageError, decode_part, encode_parts
from quire.wire.transport import ServerContext, add_service, bind, open_server
from quire.wire.varint import read_varint, varint

runs = st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 40_000).map(bytes))


@given(runs)
def test_protobuf_reads_what_was_meant(run: bytes) -> None:
    (message,) = encode_parts(run)
    assert pb.ReadReply.FromString(message) == pb.ReadReply(size=len(run), part=run)
    assert decode_part(message) == (len(run), run)


def test_a_large_run_travels_in_parts() -> None:
    run = bytes(range(256)) * (PART_BYTES_MAX // 100)
    messages = list(encode_parts(run))
    assert [len(message) < PART_BYTES_MAX + 20 for message in messages] == [True] * 3
    parts = [decode_part(message) for message in messages]
    assert [part.size for part in parts] == [len(run)] * 3
    assert b"".join(part.data for part in parts) == run


@given(st.integers(0, 2**32 - 1), runs)
def test_what_protobuf_wrote_is_read(size: int, run: bytes) -> None:
    assert decode_part(pb.ReadReply(size=size, part=run).SerializeToString()) == (size, run)
    turned = pb.ReadReply(part=run), pb.ReadReply(size=size)
    behind = b"".join(each.SerializeToString() for each in turned)
    assert decode_part(behind) == (size, run)


def test_what_the_bookie_raised_is_raised() -> None:
    failure = encode_failure(NoSuchEntryError(3, 4), "b")
    with pytest.raises(NoSuchEntryError, match="entry 4"):
        decode_part(pb.ReadReply(failure=failure).SerializeToString())


@given(runs, st.data())
def test_a_damaged_message_is_a_value_or_an_error(run: bytes, data: st.DataObject) -> None:
    (message,) = encode_parts(run)
    cut = message[: data.draw(st.integers(0, len(message)))]
    at = data.draw(st.integers(0, len(message) - 1))
    flipped = bytearray(message)
    flipped[at] ^= data.draw(st.integers(1, 255))
    for wrong in (cut, bytes(flipped)):
        try:
            expected = pb.ReadReply.FromString(wrong)
        except DecodeError:
            with pytest.raises(NoMessageError, match="ReadReply"):
                decode_part(wrong)
            continue
        if not expected.HasField("failure"):
            assert decode_part(wrong) == (expected.size, expected.part)


class Babbler(rpc.BookieServicer):  # type: ignore[misc]  # generated code has no types
    """Answers a read with whatever it is told to."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers

    async def Read(self, _: object, context: ServerContext) -> None:  # noqa: N802 gRPC's name
        for answer in self.answers:
            await context.write(answer)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((b"\xff\xff",), "is not a message"),
        ((), "ended after 0 of 0 bytes"),
        ((pb.ReadReply(size=9, part=b"run").SerializeToString(),), "ended after 3 of 9 bytes"),
        ((pb.ReadReply(size=2, part=b"run").SerializeToString(),), "3 of 2 bytes"),
        ((pb.ReadReply(size=2**32 - 1, part=b"run").SerializeToString(),), "of 4294967295 bytes"),
        ((b"\x08" + b"\xff" * 400_000,), "is not a message"),
    ],
)
def test_an_answer_that_is_none_is_an_unavailable_bookie(
    answers: tuple[bytes, ...], reason: str
) -> None:
    async def main() -> None:
        server = open_server()
        address = bind(server, "127.0.0.1:0")
        add_service(server, Babbler(*answers), Reception(MemoryBookie("b1"), "b1"))
        await server.start()
        bookie = RemoteBookie(BookieAddress("b1", address), request_timeout=5.0)
        try:
            with pytest.raises(BookieUnavailableError, match=reason):
                await bookie.read(7, 0, 1)
        finally:
            await bookie.close()
            await server.stop(None)

    asyncio.run(main())


@given(st.integers(0, 2**64 - 1))
def test_numbers_come_back(number: int) -> None:
    assert read_varint(b"x" + varint(number), 1) == (number, 1 + len(varint(number)))


def test_a_number_without_end_is_none() -> None:
    """It takes time that grows with the square of its length, in which nothing else runs."""
    assert read_varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    with pytest.raises(IndexError):
        read_varint(b"\xff" * 10 + b"\x01", 0)


def test_the_method_is_the_one_of_the_service() -> None:
    assert METHOD == "/quire.v1.Bookie/Read"
