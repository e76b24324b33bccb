"""What every command shares: where the store is, how to print, and the loop to run on."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import click

from quire.aio.loops import loop_factory
from quire.bookie import BookieAddress
from quire.cli.chosen import ContextOption
from quire.cli.ending import handling
from quire.cli.payloads import stdin_chunks
from quire.client import Client
from quire.connection import connect, open_contexts
from quire.errors import ConfigurationError
from quire.ledger.links import link_bookie
from quire.ledger.roster import LinkedBookie
from quire.metastore import create_store
from quire.metastore.place import resolve_store
from quire.wire.certificates import TlsOptions, local_tls
from quire.wire.tls import Contexts

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_DATA: Final = "quire-data"
"""The cluster directory that commands look for when no store is named."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    store: str | None = None
    json: bool = False
    tls: TlsOptions | None = None

    def store_uri(self) -> str:
        """Return the store to use. Raises `ConfigurationError` when none can be found."""
        if self.store is not None:
            return self.store
        if Path(DEFAULT_DATA).is_dir():
            return DEFAULT_DATA
        raise ConfigurationError(
            f"no metadata store: name one with --store or QUIRE_STORE, or start a local cluster "
            f"with `quire cluster up --data {DEFAULT_DATA}`"
        )

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """Connect to a cluster. Raises `ConfigurationError` for a store that does not exist."""
        return connect(self.store_uri(), tls=self.tls)

    def certificates(self) -> Contexts | None:
        """Return the certificates of this program; None if it has none. Raises
        `CertificateError`.
        """
        return open_contexts(self.tls or local_tls(self.store_uri()))

    def link(self) -> Callable[[BookieAddress], LinkedBookie]:
        """Return what makes a link to a bookie, for commands without a client."""
        return partial(link_bookie, tls=self.certificates())

    async def create_store(self) -> None:
        """Create a SQLite file that does not exist yet: a candidate needs no cluster."""
        store = await create_store(resolve_store(self.store_uri()))
        await store.close()


def store_option(*, envvar: str | None = None) -> Callable[[Any], Any]:
    """Return the `--store` option. Only the outermost one reads `envvar`, so that it loses."""
    return click.option(
        "--store",
        "--cluster",
        "store",
        cls=ContextOption,
        metavar="URI",
        envvar=envvar,
        help="Metadata store, or the directory of a local cluster. "
        f"[env: QUIRE_STORE; default: ./{DEFAULT_DATA}]",
    )


exit_with_parent_option = click.option(
    "--exit-with-parent",
    is_flag=True,
    help="Exit when standard input is closed, as it is when the parent process dies.",
)


def json_option(*, envvar: str | None = None) -> Callable[[Any], Any]:
    """Return the `--json` option. Only the outermost one reads `envvar`."""
    return click.option(
        *("--json", "as_json"),
        cls=ContextOption,
        is_flag=True,
        envvar=envvar,
        help="Print JSON, for programs.",
    )


def with_settings(
    command: Callable[Concatenate[Settings, P], None],
) -> Callable[..., None]:
    """Give a command its own `--store` and `--json`; they override options before the command."""

    @store_option()
    @json_option()
    @click.pass_obj
    @functools.wraps(command)
    def wrapped(outer: Settings, /, *args: P.args, **kwargs: P.kwargs) -> None:
        store = kwargs.pop("store", None)
        as_json = kwargs.pop("as_json", False)
        merged = replace(
            outer,
            store=store if isinstance(store, str) else outer.store,
            json=bool(as_json) or outer.json,
        )
        command(merged, *args, **kwargs)

    return cast("Callable[..., None]", wrapped)


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's work on a fresh event loop, uvloop's when it is installed.

    Ctrl-C, SIGTERM and the loss of the terminal cancel the work, which then cleans up; all end in
    KeyboardInterrupt.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        ending = _Ending(runner.get_loop())
        try:
            with handling(ending.come):
                return runner.run(ending.watch(work()))
        except asyncio.CancelledError:
            if ending.has_come:
                raise KeyboardInterrupt from None
            raise


class _Ending:
    """Cancels a command's work at the first signal; later signals do not cut its cleanup."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._working: asyncio.Task[Any] | None = None
        self.has_come = False

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        self._working = asyncio.current_task()
        if self.has_come and self._working is not None:
            self._working.cancel()
        return await work

    def come(self, number: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self.has_come:
            self.has_come = True
            if self._working is not None:  # else the work has not begun: `watch` ends it
                self._working.cancel()


async def until_orphaned(work: Coroutine[Any, Any, None]) -> None:
    """Work until it ends or standard input is closed, as it is when the parent process dies."""
    working = asyncio.ensure_future(work)

    async def listen() -> None:
        with suppress(OSError):  # it was closed before we began
            async for _ in stdin_chunks():
                pass
        working.cancel()

    listening = asyncio.create_task(listen())
    try:
        await working
    except asyncio.CancelledError:
        if not listening.done():
            raise
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
