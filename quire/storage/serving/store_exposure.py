"""Whether the metadata store undoes the TLS of a bookie.

A client that may change records of the metadata store deletes ledgers without asking a bookie. So a
bookie that takes TLS connections only does not start with a store where every client may, unless
all servers of the store are on this machine, or the operator accepts it. While a cluster moves to
TLS the bookie says it, and starts.
"""

from __future__ import annotations

import logging
from typing import Final

from quire.errors import ConfigurationError
from quire.metastore.protection import Protected, exposed_records
from quire.metastore.store import MetadataStore
from quire.wire.exposure import CONSENT, is_loopback

_log = logging.getLogger(__name__)

REMEDY: Final = "name an identity in the store's URI and run `quire metadata protect`"


async def check_store(store: MetadataStore, *, accepted: bool) -> None:
    """Return if other machines cannot change the records of a store, or that is accepted.

    Raises `ConfigurationError` if they can, and the store's errors.
    """
    if not isinstance(store, Protected) or all(map(is_loopback, store.servers)):
        return
    found = await exposed_records(store)
    if not found:
        return
    what = f"every client that reaches {store.uri} can change {found[0]}"
    what += f" and {len(found) - 1} other records" if len(found) > 1 else ""
    if not accepted:
        raise ConfigurationError(
            f"{what}, and delete ledgers in spite of TLS: {REMEDY}; if you trust all machines of "
            f"the network, pass {CONSENT}"
        )
    _log.warning("%s: %s", what, REMEDY)
