"""`quire election`: see who leads, or lead."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence

import click

from quire.cli.output import cell, flush, note, print_json
from quire.cli.settings import Settings, run, with_settings
from quire.client import SESSION_SECONDS, Client
from quire.election.election import Leader
from quire.errors import ConfigurationError, LeadershipLostError

KILL_SECONDS = 10.0
"""A command that does not end when leadership is lost is killed after this time."""


@click.group()
def election() -> None:
    """Watch and take part in leader elections."""


@election.command()
@click.argument("name")
@click.option("--once", is_flag=True, help="Print the leader and end.")
@with_settings
def watch(settings: Settings, name: str, once: bool) -> None:
    """Print who leads, now and at every change, until Ctrl-C.

    \b
    Example:
      quire election watch dice
    """
    run(lambda: _watch(settings, name, once))


async def _watch(settings: Settings, name: str, once: bool) -> None:
    async with settings.connect() as client:
        seen = client.election(name)
        if once:
            _print_leader(settings, name, await seen.leader())
            return
        async for leader in seen.watch():
            _print_leader(settings, name, leader)
            flush()


def _print_leader(settings: Settings, name: str, leader: Leader | None) -> None:
    if settings.json:
        candidate = leader.candidate if leader else None
        print_json(
            {"election": name, "leader": candidate, "epoch": leader.epoch if leader else None}
        )
    elif leader is None:
        click.echo(f"{cell(name)}: nobody leads")
    else:
        click.echo(f"{cell(name)}: {cell(leader.candidate)} leads, epoch {leader.epoch}")


@election.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--candidate", help="Name others see. [default: host and process]")
@click.option(
    "--session-timeout",
    default=SESSION_SECONDS,
    show_default=True,
    help="Seconds of silence after which leadership is lost.",
)
@with_settings
def lead(
    settings: Settings,
    name: str,
    command: tuple[str, ...],
    candidate: str | None,
    session_timeout: float,
) -> None:
    """Wait for the leadership, run a command while it lasts, and end with its exit code; 128 + N
    when signal N ended it.

    The command finds the epoch in QUIRE_EPOCH. When the leadership is lost it gets SIGTERM, and
    SIGKILL ten seconds later. It may overlap with the next leader's for a moment: hand the epoch on
    to whatever it changes, and let that refuse older epochs.

    \b
    Example:
      quire election lead reports -- python make_reports.py
    """
    code = run(lambda: _lead(settings, name, command, candidate, session_timeout))
    click.get_current_context().exit(code if code >= 0 else 128 - code)  # -N: ended by signal N


async def _lead(
    settings: Settings,
    name: str,
    command: Sequence[str],
    candidate: str | None,
    session_timeout: float,
) -> int:
    await settings.create_store()
    async with settings.connect() as client:
        return await _lead_once(client, name, command, candidate, session_timeout)


async def _lead_once(
    client: Client,
    name: str,
    command: Sequence[str],
    candidate: str | None,
    session_timeout: float,
) -> int:
    stood = client.election(name, candidate, session_timeout=session_timeout)
    async with stood.lead() as leadership:
        note(f"Leading {name}, epoch {leadership.epoch}.")
        environment = {**os.environ, "QUIRE_EPOCH": str(leadership.epoch)}
        try:
            # Not by the loop: uvloop's children get back every signal that `nohup` has us ignore.
            process = subprocess.Popen(command, env=environment)  # noqa: ASYNC220 - takes no time
        except OSError as error:
            raise ConfigurationError(f"cannot run {command[0]!r}: {error.strerror}") from error
        lost = asyncio.create_task(leadership.wait_lost())
        ended = asyncio.create_task(asyncio.to_thread(process.wait))
        try:
            await asyncio.wait((ended, lost), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            raise LeadershipLostError(name, "the command was stopped")
        finally:
            lost.cancel()
            await _end(process)
            await asyncio.gather(ended, lost, return_exceptions=True)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a command to end, and see to it that it does; at once when this is cancelled."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        ended = asyncio.create_task(asyncio.to_thread(process.wait))
        await asyncio.wait((ended,), timeout=KILL_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.to_thread(process.wait)
