"""TLS to Apache's bookies, by START_TLS: their certificates name hosts, as on the web.

quire's own bookies have another scheme (quire/wire/tls.py): their certificates name ids, and both
sides show one.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from quire.bookkeeper.uri import BookieTls
from quire.errors import ConfigurationError


class ClientTls:
    """The certificates of this process, and those that it trusts. Reads files.

    Raises `ConfigurationError` for files that cannot be used.
    """

    def __init__(self, options: BookieTls) -> None:
        try:
            self._context = ssl.create_default_context(cafile=options.ca)
            self._context.check_hostname = options.names
            if options.certificate is not None:
                self._context.load_cert_chain(options.certificate, options.key)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            files = ", ".join(filter(None, (options.ca, options.certificate, options.key)))
            reason = f"the certificates in {files} cannot be used: {error}"
            raise ConfigurationError(reason) from error

    async def over(
        self, plain: asyncio.Transport, protocol: asyncio.Protocol, host: str
    ) -> asyncio.Transport:
        """Return the transport of a protocol with TLS over a plain one. Raises `OSError` when the
        bookie's certificate is not accepted, or its TLS fails.
        """
        loop = asyncio.get_running_loop()
        made = await loop.start_tls(plain, protocol, self._context, server_hostname=host)
        return cast("asyncio.Transport", made)
