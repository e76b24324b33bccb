"""`quire autorecovery`, and the options of a bookie's own auditor."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from typing import Any

import click

from quire.bookie import BookieAddress
from quire.cli.durations import Duration
from quire.cli.logs import LogOutput, logging_options
from quire.cli.metadata import opened
from quire.cli.output import print_json
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.errors import ConfigurationError
from quire.healing.state import LOST_SECONDS
from quire.ledger.links import link_bookie
from quire.ledger.roster import LinkedBookie
from quire.metastore.store import MetadataStore

OpenAuditor = Callable[..., AbstractAsyncContextManager[object]]
"""Takes the metadata store, a bookie's id, and `connect`, which makes links to bookies."""


def healing_delay_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--healing-delay`, in seconds."""
    return click.option(
        "--healing-delay",
        type=Duration(),
        default=f"{LOST_SECONDS / 60:.0f}m",
        show_default=True,
        envvar="QUIRE_HEALING_DELAY",
        metavar="DURATION",
        help="How long a bookie is missing until others take its places.",
    )(command)


def auditor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of an auditor; it takes them as `auditor`, None for none."""

    @click.option(
        "--auditor/--no-auditor",
        default=True,
        show_default=True,
        envvar="QUIRE_AUDITOR",
        help="Offer an auditor, which heals the cluster while it is elected.",
    )
    @healing_delay_option
    @wraps(command)
    def wrapped(*args: Any, auditor: bool, healing_delay: float, **kwargs: Any) -> Any:
        offered = _open_auditor(healing_delay) if auditor else None
        return command(*args, auditor=offered, **kwargs)

    return wrapped


def _open_auditor(delay: float) -> OpenAuditor:
    """Return what offers an auditor in the name of a bookie."""

    def opening(
        store: MetadataStore,
        name: str,
        connect: Callable[[BookieAddress], LinkedBookie] = link_bookie,
    ) -> AbstractAsyncContextManager[object]:
        from quire.healing.auditor import auditing

        rng = random.SystemRandom()
        return auditing(store, name, delay=delay, clock=time.time, rng=rng, connect=connect)

    return opening


@click.command(short_help="Run an auditor, which heals the cluster.")
@healing_delay_option
@logging_options
@exit_with_parent_option
@with_settings
def autorecovery(
    settings: Settings, healing_delay: float, logging: LogOutput, exit_with_parent: bool
) -> None:
    """Run an auditor until Ctrl-C. While it is elected it finds lost bookies and missing copies,
    and asks other bookies for copies.

    Bookies do this by themselves, unless they serve with --no-auditor. Any number of auditors may
    run: one is elected, and the others wait for its end.

    \b
    Example:
      quire autorecovery --store zk://zoo:2181/quire
    """
    logging.begin()
    work = partial(_audit, settings, healing_delay)
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


async def _audit(settings: Settings, delay: float) -> None:
    from quire.healing.auditor import Auditor

    name = f"{socket.gethostname()}, process {os.getpid()}"
    async with opened(settings) as store:
        rng = random.SystemRandom()
        connect = settings.link()
        auditor = Auditor(store, name, delay=delay, clock=time.time, rng=rng, connect=connect)
        if settings.json:
            print_json({"auditor": name, "pid": os.getpid()})
        else:
            click.echo(f"auditor {name} stands for election")
        sys.stdout.flush()
        await auditor.run()
    raise ConfigurationError(
        f"the metadata store {settings.store_uri()} cannot elect an auditor: it has no sessions"
    )
