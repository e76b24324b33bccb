"""`quire election`: watch an election, or stand in it."""

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


@click.group(short_help="Watch and take part in leader elections.")
def election() -> None:
    """Watch and take part in leader elections."""


@election.command(short_help="Print the leader, now and at every change.")
@click.argument("name")
@click.option("--once", is_flag=True, help="Print the leader and exit.")
@with_settings
def watch(settings: Settings, name: str, once: bool) -> None:
    """Print the leader of an election, now and at every change, until Ctrl-C.

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
        click.echo(f"{cell(name)}: no leader")
    else:
        click.echo(f"{cell(name)}: {cell(leader.candidate)} leads, epoch {leader.epoch}")


@election.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Run a command while this process leads.",
)
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
    """Wait for the leadership, then run a command while it lasts.

    Exits with the command's exit code, or 128 + N if signal N ended the command. The command finds
    its epoch in QUIRE_EPOCH. When the leadership is lost the command gets SIGTERM, and SIGKILL ten
    seconds later. It may overlap with the next leader's command for that long: pass the epoch to
    the systems it changes, and let them refuse older epochs.

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
            # Not by the loop: uvloop's children take back every signal that `nohup` made us ignore.
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
    """Ask a command to end, then kill it after a while; at once when this is cancelled."""
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
