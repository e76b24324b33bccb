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
from functools import partial
from typing import Final, cast

from quire.bookkeeper.uri import BookieTls
from quire.errors import ConfigurationError
from quire.tls_files import refuse_password, stamp_of

_log: Final = logging.getLogger(__name__)


class ClientTls:
    """The certificates of this process, and those that it trusts. Reads files.

    Raises `ConfigurationError` for files that cannot be used.
    """

    def __init__(self, options: BookieTls) -> None:
        self._options = options
        self._seen = stamp_of(_files(options))
        self._context = _context(options)

    async def over(
        self, plain: asyncio.Transport, protocol: asyncio.Protocol, host: str
    ) -> asyncio.Transport:
        """Return the transport of a protocol with TLS over a plain one. Raises `OSError` when the
        bookie's certificate is not accepted, or its TLS fails.
        """
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(plain, protocol, self._newest(), server_hostname=host)
        return cast("asyncio.Transport", made)

    def _newest(self) -> ssl.SSLContext:
        """Return the context with the files of now; the one before if they cannot be used."""
        seen = stamp_of(_files(self._options))
        if seen != self._seen:
            try:
                self._context = _context(self._options)
            except ConfigurationError as error:
                _log.warning("certificates are not read again: %s", error)
            else:
                self._seen = seen
        return self._context


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
