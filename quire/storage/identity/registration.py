"""How a bookie is found: its ephemeral record in the metadata store, kept up for as long as it
serves.

The record lives under a session. When the session is lost the bookie goes on serving clients that
know its address, and registers again as soon as the store lets it; when the bookie becomes
read-only, or writable again, the record says so a little later.

A record left by an earlier process of the same bookie is replaced at once: the lock on the
directory proves that process dead. A record that *another* process puts in the place of ours
means that two directories have one identity (one was copied), and this bookie must stop before it
answers for data it does not have.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from quire.aio.backoff import Backoff
from quire.aio.timing import time_limit
from quire.bookie import Bookie, BookieAddress, BookieInfo
from quire.entry import BookieId
from quire.errors import (
    ConflictError,
    NodeExistsError,
    NoSuchNodeError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
    SessionExpiredError,
    WrongBookieError,
)
from quire.fields import NOTHING
from quire.labels import Labels
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import bookie_path
from quire.metastore.registration import (
    decode_registration,
    encode_registration,
    unknown_of,
)
from quire.metastore.store import MetadataStore, Session

_log = logging.getLogger(__name__)

SESSION_SECONDS: Final = 6.0
"""How long a dead bookie stays registered."""

CHECK_SECONDS: Final = 2.0
"""How often the record is compared with the bookie, besides whenever the record changes."""

ROOM_SECONDS: Final = 60.0
"""How often the room in the record may change: each change wakes every client."""

BACKOFF: Final = Backoff(first=0.1, last=5.0)
"""The pauses before it registers again."""

_PASSING: Final = (
    RetryError,
    OutcomeUnknownError,
    SessionExpiredError,
    ConflictError,
    NoSuchNodeError,
)
"""After these the registration is tried again; anything else ends the bookie."""


class RegistrationForm(Protocol):
    """Port: where a bookie's record is, and its bytes."""

    def path(self, address: BookieAddress) -> str:
        """Return the path of the record of a bookie."""
        ...

    def others(self, address: BookieAddress) -> Sequence[str]:
        """Return the paths that the record of this bookie has in another state of the bookie."""
        ...

    def encode(self, address: BookieAddress, found: bytes | None = None) -> bytes:
        """Return the record; it keeps unknown fields of the record that was found."""
        ...

    def address_in(self, bookie: BookieId, found: bytes) -> str:
        """Return the address in a record. Raises `CorruptRecordError`."""
        ...


class OwnForm:
    """The form of quire's own records. Implements `RegistrationForm`."""

    def path(self, address: BookieAddress) -> str:
        """See `RegistrationForm.path`."""
        return bookie_path(address.bookie)

    def others(self, address: BookieAddress) -> Sequence[str]:
        """See `RegistrationForm.others`: the record has one path."""
        return ()

    def encode(self, address: BookieAddress, found: bytes | None = None) -> bytes:
        """See `RegistrationForm.encode`."""
        unknown = NOTHING if found is None else unknown_of(address.bookie, found)
        return encode_registration(address, unknown)

    def address_in(self, bookie: BookieId, found: bytes) -> str:
        """See `RegistrationForm.address_in`."""
        return decode_registration(bookie, found).address


OWN_FORM: Final = OwnForm()


def _as_started(labels: Labels) -> Labels:
    return labels


class Registration:
    """The record of one serving bookie."""

    def __init__(
        self,
        store: MetadataStore,
        bookie: Bookie,
        address: BookieAddress,
        rng: random.Random,
        session_timeout: float = SESSION_SECONDS,
        check_identity: Callable[[], Awaitable[object]] | None = None,
        place: Callable[[Labels], Labels] = _as_started,
        form: RegistrationForm = OWN_FORM,
    ) -> None:
        """`check_identity` is called before each registration: its errors end the bookie. `place`
        maps the labels of `address` to where the bookie is now; `form` is the form of the record.
        """
        self._form = form
        self._store = store
        self._check_identity = check_identity
        self._place = place
        self._bookie = bookie
        self._bookie_id = address.bookie
        self._address = address
        self._path = form.path(address)
        self._left: str | None = None
        """The path that the record has moved from, until the old record is gone for certain."""
        self._rng = rng
        self._session_timeout = session_timeout
        self._pauses = BACKOFF.pauses(rng)
        self._was_registered = False
        self.is_registered = False
        """Whether the record is there, as far as this process knows."""
        self._was_writable = True
        self._room = 0
        self._room_since = -ROOM_SECONDS

    async def keep(self, on_ready: Callable[[BookieAddress], None] | None = None) -> None:
        """Keep the bookie registered until cancelled; then the record is withdrawn.

        `on_ready` is called once, when clients can find the bookie for the first time. Raises
        `WrongBookieError` when another process registers under this bookie's id.
        """
        while True:
            try:
                session = await self._store.open_session(self._session_timeout)
                try:
                    if self._check_identity is not None:
                        await self._check_identity()
                    address, version = await self._claim(session)
                    self._pauses.reset()
                    if not self._was_registered:
                        _log.info("bookie %s serves at %s", self._bookie_id, address.address)
                    self._was_registered = self.is_registered = True
                    if on_ready is not None:
                        on_ready(address)
                        on_ready = None
                    await self._hold(session, version)
                finally:
                    self.is_registered = False
                    await _close(session)
            except _PASSING as error:
                _log.warning("bookie %s is not registered: %s", self._bookie_id, error)
            await asyncio.sleep(self._pauses.next())

    async def _claim(self, session: Session) -> tuple[BookieAddress, int]:
        """Create the record, replacing the record of a dead process of this bookie."""
        address = await self._current()
        value, self._path, self._left = self._form.encode(address), self._form.path(address), None
        for other in self._form.others(address):
            await self._clear(other)
        try:
            version = await session.create(self._path, value)
        except NodeExistsError:
            found = await self._store.get(self._path)
            if self._was_registered:
                self._check_owner(found.value)
            await self._store.delete(self._path, found.version)
            version = await session.create(self._path, value)
        # After the record is there: an upgrade that is finished now has seen it, or is seen here.
        with contextlib.suppress(NoSuchNodeError):
            await read_cluster(self._store)
        return address, version

    async def _hold(self, session: Session, version: int) -> None:
        """Keep the record true; returns when its session is over.

        An outage of the store that the session survives changes nothing.
        """
        while not session.expired:
            try:
                with contextlib.suppress(TimeoutError):
                    async with time_limit(CHECK_SECONDS):
                        await self._store.wait(self._path, version)
                found = await self._store.get(self._path)
                self._check_owner(found.value)
                version = found.version
                if self._left is not None:
                    await self._withdraw(self._left)
                address = await self._current()
                value = self._form.encode(address, found.value)
                if self._form.path(address) != self._path:
                    version = await self._move(session, self._form.path(address), value)
                elif value != found.value:  # compared with the record: a put may have been lost
                    version = await self._store.put(self._path, value, version)
            except (RetryError, OutcomeUnknownError) as error:
                _log.warning("registration of bookie %s is unsure: %s", self._bookie_id, error)
                await asyncio.sleep(CHECK_SECONDS)

    async def _move(self, session: Session, path: str, value: bytes) -> int:
        """Have the record at another path. It is at both for a moment, and longer when the store
        does not answer: then each look at the record deletes the old one again.
        """
        version = await session.create(path, value)
        left, self._path = self._path, path
        self._left = left
        await self._withdraw(left)
        return version

    async def _withdraw(self, left: str) -> None:
        with contextlib.suppress(NoSuchNodeError):  # an earlier deletion was not answered
            await self._store.delete(left)
        self._left = None

    async def _clear(self, path: str) -> None:
        """Delete the record of a dead process of this bookie; a live one is another's."""
        with contextlib.suppress(NoSuchNodeError):
            found = await self._store.get(path)
            if self._was_registered:
                self._check_owner(found.value)
            await self._store.delete(path, found.version)

    def _check_owner(self, value: bytes) -> None:
        found = self._form.address_in(self._bookie_id, value)
        if found != self._address.address:
            raise WrongBookieError(
                f"registration of bookie {self._bookie_id}",
                f"this process at {self._address.address}",
                f"a process at {found} that serves a copy of the directory",
            )

    def _tell(self, info: BookieInfo) -> None:
        """Have the operator know: the record shows it to clients only."""
        if info.writable:
            _log.warning("bookie %s takes new entries again", self._bookie_id)
        else:
            _log.warning(
                "bookie %s takes no new entries: its disk is nearly full or does not answer, or an "
                "operator set it away or drains it (%.3g of %.3g GB free)",
                self._bookie_id,
                info.disk_free_bytes / 1e9,
                info.disk_total_bytes / 1e9,
            )

    async def _current(self) -> BookieAddress:
        info = await self._bookie.info()
        if info.writable != self._was_writable:
            self._was_writable = info.writable
            self._tell(info)
        room, now = coarse(info.disk_free_bytes), asyncio.get_running_loop().time()
        if room != self._room and now - self._room_since >= ROOM_SECONDS:
            self._room, self._room_since = room, now
        labels = self._place(self._address.labels)
        return replace(self._address, writable=info.writable, room=self._room, labels=labels)


def coarse(free: int) -> int:
    """Return the largest power of two at or below a number of bytes, 0 for none: exact enough to
    weigh bookies, and seldom another one.
    """
    return 1 << free.bit_length() - 1 if free > 0 else 0


async def _close(session: Session) -> None:
    """End a session; an unreachable session ends when its time is up. Its error is dropped, because
    it would take the place of a cancellation, also if the store is damaged.
    """
    with contextlib.suppress(QuireError):
        await session.close()
