"""What a service manager is told, by a socket as systemd gives one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.cli.supervisor import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        yield receiver


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(manager.getsockname()), **more}


def test_the_state_is_sent_in_lines(manager: socket.socket) -> None:
    ServiceManager(environment(manager)).tell(READY="1", STATUS="serves\nat x")
    assert manager.recv(4096) == b"READY=1\nSTATUS=serves at x"


def test_without_a_manager_nothing_is_sent() -> None:
    ServiceManager({}).tell(READY="1")


def test_a_manager_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell(READY="1")
    ServiceManager({"NOTIFY_SOCKET": "@quire-abstract-and-gone"}).tell(READY="1")


@pytest.mark.real_time
async def test_the_pulse_is_felt_while_the_loop_turns(manager: socket.socket) -> None:
    told = environment(manager, WATCHDOG_USEC="20000", WATCHDOG_PID=str(os.getpid()))
    async with ServiceManager(told).pulse():
        for _ in range(3):
            assert await asyncio.to_thread(manager.recv, 4096) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_a_pulse_is_wanted_from_this_process_only(
    given: dict[str, str], seconds: float | None
) -> None:
    assert ServiceManager(given).pulse_seconds == seconds
