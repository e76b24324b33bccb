"""Signals that end a command, whenever they come."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import click
import pytest

from quire.cli import ending, settings
from quire.cli.election import _end
from quire.cli.ending import JavaWork
from quire.cli.output import confirm
from quire.cli.settings import run
from tests.support.command import quire_from_the_start


def test_a_signal_that_comes_before_the_work_has_begun_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Early(settings._Ending):
        async def watch(self, work: Any) -> Any:
            self.come(signal.SIGTERM, None)  # as if it had come before the task's first step
            await asyncio.sleep(0)
            return await super().watch(work)

    async def work() -> str:
        await asyncio.sleep(0.2)
        return "it went on"

    monkeypatch.setattr(settings, "_Ending", Early)
    with pytest.raises(KeyboardInterrupt):
        run(work)


def test_a_second_ctrl_c_leaves_no_command_behind_that_thinks_it_leads() -> None:
    stubborn = "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done"

    async def main() -> None:
        ending = asyncio.create_task(_end(command))
        assert await asyncio.to_thread(output.readline) == b"told\n"
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # as the second Ctrl-C does
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert command.returncode == -signal.SIGKILL

    with subprocess.Popen(["sh", "-c", stubborn], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        output = command.stdout
        assert output.readline() == b"ready\n"
        asyncio.run(main())


def test_what_nohup_has_us_ignore_is_ignored_by_the_command_that_leads() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what is ignored is inherited
    try:
        script = "kill -HUP $$; echo survived"
        command = ("election", "lead", "x", "--store", "memory:", "--", "sh", "-c", script)
        done = quire_from_the_start(*command)
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert (done.code, done.out) == (0, "survived\n")


@pytest.mark.parametrize("number", ending.ENDING)
def test_a_signal_at_a_question_is_no_answer(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    monkeypatch.setattr(click, "confirm", asked)
    with pytest.raises(KeyboardInterrupt):
        confirm("Really?")
    assert signal.getsignal(number) is before


@pytest.fixture
def logging_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def java(script: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(["sh", "-c", f"{script}; cat"], stdin=-1, stdout=-1)
    assert started.stdout is not None
    assert started.stdout.readline() == b"up\n"
    return started


@pytest.mark.parametrize(
    ("script", "code"),
    [("echo up", -signal.SIGTERM), ("trap '' TERM; echo up", -signal.SIGKILL)],
)
def test_java_has_ended_before_we_do_though_it_ignores_us(
    script: str, code: int, logging_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == -signal.SIGKILL:
        monkeypatch.setattr(ending, "JAVA_SECONDS_MAX", 0.01)
    told: list[str] = []
    with (
        java(script) as process,
        pytest.raises(KeyboardInterrupt),
        JavaWork(lambda: process, lambda: told.append("silenced")).handling() as work,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (process.returncode, told, work.has_come) == (code, ["silenced"], True)


def test_java_that_comes_up_when_a_signal_comes_ends_as_soon_as_it_is_known(
    logging_again: None,
) -> None:
    known: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        known.append(java("echo up"))

    with (
        pytest.raises(KeyboardInterrupt),
        JavaWork(lambda: known[0], lambda: None).handling() as work,
        work.starting(),
    ):
        start()
    with known[0]:
        assert known[0].returncode == -signal.SIGTERM


def test_what_fails_as_java_is_gone_is_not_told(logging_again: None) -> None:
    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            raise ConnectionRefusedError("nobody is there")

    with pytest.raises(KeyboardInterrupt), JavaWork(lambda: None, lambda: None).handling():
        work()


def test_what_fails_without_a_signal_is_told() -> None:
    with pytest.raises(ConnectionRefusedError), JavaWork(lambda: None, lambda: None).handling():
        raise ConnectionRefusedError("nobody is there")
