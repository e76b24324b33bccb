"""Each call that exists has a row, and each row is of a call that exists."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from quire.bookkeeper.serving.request import RequestKind
from quire.cli.root import main
from quire.gateway.app import CALLS
from quire.gateway.kafka.messages import VERSIONS
from quire.rights.calls import (
    BOOKKEEPER,
    COMMANDS,
    HTTP,
    KAFKA,
    RPCS,
    RUN,
    STREAM,
    SUBSCRIBE,
    SUBSCRIPTIONS,
    Row,
)
from quire.rights.roles import Action
from quire.storage.serving.read_stream import READ
from quire.wire import bookie_pb2 as pb
from quire.wire.framed import GREETING, HELLO_GREETING
from quire.wire.hello import FEATURES

METHODS = {each.name: each for each in pb.DESCRIPTOR.services_by_name["Bookie"].methods}


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name


def test_every_request_of_bookkeeper_has_a_row() -> None:
    assert set(BOOKKEEPER) == {each.value for each in RequestKind}


def test_every_method_has_a_row() -> None:
    assert {*RPCS, "Add"} == set(METHODS)


@pytest.mark.parametrize("name", RPCS)
def test_every_field_of_a_request_is_judged(name: str) -> None:
    _compare(RPCS[name], set(METHODS[name].input_type.fields_by_name))


def test_every_field_of_a_run_is_judged() -> None:
    _compare(RUN, set(pb.AddRun.DESCRIPTOR.fields_by_name))
    assert METHODS["Add"].input_type.name == "AddRequest"
    assert set(pb.AddRequest.DESCRIPTOR.fields_by_name) == STREAM


def _compare(row: Row, fields: set[str]) -> None:
    assert row.fields == fields
    assert not row.plain & {row.recovers_with, row.recovers_if}


def test_every_field_of_a_subscription_is_judged() -> None:
    _compare(SUBSCRIBE, set(pb.Subscribe.DESCRIPTOR.fields_by_name))
    assert set(pb.NewsRequest.DESCRIPTOR.fields_by_name) == SUBSCRIPTIONS
    assert set(pb.Credit.DESCRIPTOR.fields_by_name) <= SUBSCRIBE.fields


def test_the_frame_port_carries_runs_subscriptions_and_reads_alone() -> None:
    """A new greeting or feature brings new messages: they need rows of their own."""
    assert {GREETING, HELLO_GREETING} == {b"quire/runs/1\n", b"quire/runs/2\n"}
    assert {"subscriptions", "reads"} == FEATURES  # reads have the row of the gRPC method
    assert READ is RPCS["Read"]


def test_every_request_of_kafkas_protocol_has_a_row() -> None:
    assert set(KAFKA) == set(VERSIONS)


def test_every_call_of_a_gateway_has_a_row() -> None:
    assert {(each.method, each.path) for each in CALLS} == set(HTTP)
    for call in CALLS:
        assert call.is_open is (HTTP[call.method, call.path] is None), call.path


def test_every_command_has_a_row() -> None:
    assert set(commands(main)) - set(COMMANDS) == set(), "say in calls.py which rights they need"


def test_every_row_is_of_a_command() -> None:
    assert set(COMMANDS) - set(commands(main)) == set()


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (pb.ReadRequest(), Action.READ),
        (pb.ReadRequest(fence_key=b""), Action.RECOVER),
        (pb.ReadTailRequest(), Action.READ),
        (pb.ReadTailRequest(fence_key=b"k"), Action.RECOVER),
        (pb.WaitTailRequest(), Action.READ),
        (pb.SyncRequest(), Action.APPEND),
        (pb.ListEntriesRequest(), Action.OBSERVE),
        (pb.ListLedgersRequest(), Action.OBSERVE),
        (pb.OutlinesRequest(), Action.OBSERVE),
        (pb.InfoRequest(), Action.OBSERVE),
    ],
)
def test_a_fence_is_a_recovery(message: object, action: Action) -> None:
    name = type(message).__name__.removesuffix("Request")
    assert RPCS[name].action_of(message) is action


@pytest.mark.parametrize(
    ("run", "action"),
    [
        (pb.AddRun(), Action.APPEND),
        (pb.AddRun(deferred=True), Action.APPEND),
        (pb.AddRun(lac_packet=b"x"), Action.APPEND),
        (pb.AddRun(recovery=True), Action.RECOVER),
        (pb.AddRun(recovery=True, lac_packet=b"x"), Action.RECOVER),
    ],
)
def test_an_add_of_a_recovery_is_a_recovery(run: pb.AddRun, action: Action) -> None:
    assert RUN.action_of(run) is action
