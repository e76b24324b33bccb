"""TLS to Apache's bookies, by START_TLS: their certificates name hosts, as on the web.

quire's own bookies have another scheme (quire/wire/tls.py): their certificates name ids, and both
sides show one.

Certificates are renewed while a process runs: each connection looks at the files, and a file that
cannot be used changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from quire.bookkeeper.uri import BookieTls
from quire.errors import ConfigurationError
from quire.tls_files import RenewedFiles, refuse_password

_log: Final = logging.getLogger(__name__)


class ClientTls:
    """The certificates of this process, and those that it trusts. Reads files.

    Args:
        options: the files.
        clock: seconds, as of the event loop.

    Raises:
        ConfigurationError: the files cannot be used.
    """

    def __init__(self, options: BookieTls, *, clock: Callable[[], float]) -> None:
        make = partial(_context, options)
        self._context = RenewedFiles(_files(options), make, _log, clock=clock)

    async def over(
        self, plain: asyncio.Transport, protocol: asyncio.Protocol, host: str
    ) -> asyncio.Transport:
        """Return the transport of a protocol with TLS over a plain one. Raises `OSError` when the
        bookie's certificate is not accepted, or its TLS fails.
        """
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(plain, protocol, self._context.newest(), server_hostname=host)
        return cast("asyncio.Transport", made)


def _files(options: BookieTls) -> list[str]:
    return [each for each in (options.ca, options.certificate, options.key) if each is not None]


def _context(options: BookieTls) -> ssl.SSLContext:
    """Raises `ConfigurationError` for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=options.ca)
        context.check_hostname = options.names
        if options.certificate is not None and options.key is not None:
            refuse = partial(refuse_password, options.key)
            context.load_cert_chain(options.certificate, options.key, refuse)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = f"the certificates in {', '.join(_files(options))} cannot be used: {error}"
        raise ConfigurationError(reason) from error
    return context
