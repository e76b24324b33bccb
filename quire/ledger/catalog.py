"""The catalog: creating, opening, deleting and listing ledgers.

The way into the ledger layer. A ledger exists once its record does; bookies learn of it by the
first entry or fence. Opening checks the password against the record before any bookie is asked.
Every change of the store copes with an answer that was lost: the creation carries a token by
which it knows itself again, a deletion is done when the record is gone.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from quire.aio.later import Later
from quire.checked import check_flag, check_password_type, given_or_default
from quire.entry import DigestKind, LedgerId, Sealer, is_checked, is_of_guarded_reads, key_check
from quire.errors import (
    ConfigurationError,
    ConflictError,
    CorruptRecordError,
    InvalidRequestError,
    LevelNeededError,
    NodeExistsError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    UnauthorizedError,
    UnsupportedError,
)
from quire.ledger.domains import Candidate, Placement
from quire.ledger.following import SharedTails
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata, problem_of_custom
from quire.ledger.options import LedgerOptions
from quire.ledger.placement import choose_ensemble
from quire.ledger.quorum import Replication
from quire.ledger.read_keys import ReadKeys
from quire.ledger.reader import LedgerReader
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.ledger.recovery import LedgerRecovery
from quire.ledger.resting import RestingLedger
from quire.ledger.roster import BookieRoster
from quire.ledger.stretch import KeyStretch
from quire.ledger.stretching import Stretcher, Stretching
from quire.ledger.writer import LedgerWriter
from quire.metastore.changes import Change
from quire.metastore.levels import READ_PASSWORD_LEVEL, STRETCH_LEVEL
from quire.metrics.meter import SILENT_METER, ClientMeter
from quire.observer import SILENT, Observer
from quire.tracing.spans import LEDGER, OPEN_LEDGER

ATTEMPTS_MAX: Final = 16
"""Attempts at one change of the store while its outcome stays unknown."""

TOKEN_BITS: Final = 128
TOKEN_SPARE_BITS: Final = 65
"""Bits of a token that are drawn and not used: records of Apache BookKeeper have space for 63,
which are enough to tell the creators of one id apart."""

_log = logging.getLogger(__name__)


class LedgerCatalog:
    """The ledgers of one cluster. Holds no resources but the tails that its readers follow.

    `clock` gives seconds since 1970 and is used for creation times only.
    """

    def __init__(
        self,
        records: LedgerRecords,
        roster: BookieRoster,
        *,
        rng: random.Random,
        clock: Callable[[], float],
        options: LedgerOptions | None = None,
        observer: Observer = SILENT,
        meter: ClientMeter = SILENT_METER,
        keys: ReadKeys | None = None,
        stretching: Stretching | None = None,
    ) -> None:
        """The links of the roster add `keys` to reads. `stretching` is a `Stretcher` by default."""
        self._stretching: Stretching = stretching or Stretcher()
        self._keys = keys or ReadKeys()
        self._records = records
        self._meter = meter
        self._observer = observer
        self._roster = roster
        self._rng = rng
        self._clock = clock
        self._options = given_or_default(options, LedgerOptions)
        self._tails = SharedTails()
        self._later = Later(self._options.lac_idle)

    @property
    def records(self) -> LedgerRecords:
        """The records of the ledgers."""
        return self._records

    async def create(
        self,
        replication: Replication | None = None,
        *,
        password: bytes = b"",
        digest: DigestKind = DigestKind.CRC32C,
        custom_metadata: Mapping[str, str] | None = None,
        deferred_sync: bool = False,
        full_quorum: bool = False,
        placement: Placement | None = None,
        read_needs_password: bool = False,
        salt: bytes = b"",
        along: Callable[[LedgerId], Sequence[Change]] | None = None,
    ) -> LedgerWriter:
        """Create a ledger and return its only writer.

        `replication` is 3/3/2 when None. With `deferred_sync` appends are answered before they are
        durable, and `LedgerWriter.force` confirms them. With `full_quorum` the ledger is closed
        only when every entry is on all bookies of its write set; otherwise on an ack quorum. Copies
        are placed by `placement`, by the options when None. With `read_needs_password` bookies ask
        for the password's key before each read. A password is stretched with `salt`, by default the
        ledger's own: ledgers with one salt share the work. The changes that `along` gives for the
        ledger's id are made with its record or not at all.

        Raises `NotEnoughBookiesError` when too few bookies are up and writable, among them
        `NotEnoughDomainsError` when these are in too few domains for the placement,
        `ConfigurationError` when the placement needs more copies than there are,
        `InvalidRequestError` for more than half a megabyte of `custom` and for a flag that is not
        True or False, and the store's errors; a creation that fails or is cancelled may leave an
        empty ledger.
        """
        check_flag(deferred_sync, "deferred_sync")
        check_flag(full_quorum, "full_quorum")
        check_flag(read_needs_password, "read_needs_password")
        try:
            digest = DigestKind(digest)
        except ValueError:
            known = ", ".join(sorted(each.value for each in DigestKind))
            raise InvalidRequestError(f"digest {digest!r} is not known: take {known}") from None
        custom = {} if custom_metadata is None else custom_metadata
        problem = problem_of_custom(custom)
        if problem:
            raise InvalidRequestError(problem)
        if read_needs_password:
            if not password:
                raise ConfigurationError("reads that need a password need one: give password=…")
            await self.check_read_password()
        policy = self.placement(placement)
        wanted, ensemble = await self._choose(given_or_default(replication, Replication), policy)
        created_ms = int(self._clock() * 1000)
        token = f"{self._rng.getrandbits(TOKEN_BITS) >> TOKEN_SPARE_BITS:032x}"
        stretch = await self._new_stretch(password, salt or token.encode())
        secret = await self._secret(password, stretch)
        for _ in range(ATTEMPTS_MAX):
            new = await self._records.next_id()
            sealer = Sealer(new.ledger, digest, secret, guards_reads=read_needs_password)
            metadata = LedgerMetadata(
                ledger=sealer.ledger,
                replication=wanted,
                digest=digest,
                key_check=key_check(sealer.access_key),
                fragments=(Fragment.placed(0, ensemble, policy),),
                custom_metadata=dict(custom),
                created_ms=created_ms,
                token=token,
                full_quorum=full_quorum,
                incarnation=new.incarnation,
                placement=policy,
                stretch=stretch,
            )
            changes = along(sealer.ledger) if along else ()
            created = await self._create(metadata, changes, password)
            if created is not None:
                self._keys.learn(sealer.ledger, sealer.access_key)
                record = LedgerRecord(self._records, created.metadata, created.version)
                return self._writer(record, sealer, deferred_sync=deferred_sync)
        raise StoreUnavailableError(self._records.uri, "every ledger id drawn was taken")

    def wake(self, place: RestingLedger) -> LedgerWriter:
        """Return the next writer of a ledger at rest. Call it once for each rest."""
        return self._writer(place.record, place.sealer, at=place)

    def _writer(
        self,
        record: LedgerRecord,
        sealer: Sealer,
        *,
        deferred_sync: bool = False,
        at: RestingLedger | None = None,
    ) -> LedgerWriter:
        writer = LedgerWriter(
            *(record, self._roster, sealer, self._options, self._rng),
            deferred_sync=deferred_sync,
            observer=self._observer,
            meter=self._meter,
            later=self._later,
            at=at,
        )
        self._meter.watch(writer)
        return writer

    async def open(self, ledger: LedgerId, *, password: bytes = b"") -> LedgerReader:
        """Open a ledger with a decided end: if it is open, fence its writer and recover it first.

        Every entry that was ever confirmed can be read. Raises `NoSuchLedgerError`,
        `UnauthorizedError` for a wrong password, the errors of `LedgerRecovery.run`, and the
        store's errors. Cancelling may leave the ledger in recovery; open it again.
        """
        with self._meter.spans.begin(OPEN_LEDGER, {LEDGER: ledger}):
            sealer, found = await self._find(ledger, password)
            if not found.metadata.is_closed:
                recovery = LedgerRecovery(
                    *(self._records, self._roster, sealer, self._options, self._rng),
                    observer=self._observer,
                    meter=self._meter,
                )
                found = await recovery.run()
            return self._reader(sealer, found)

    async def open_without_recovery(
        self, ledger: LedgerId, *, password: bytes = b""
    ) -> LedgerReader:
        """Open a ledger as it is, without disturbing its writer: to follow it, or to look.

        Raises `NoSuchLedgerError`, `UnauthorizedError`, and the store's errors.
        """
        with self._meter.spans.begin(OPEN_LEDGER, {LEDGER: ledger}):
            return self._reader(*await self._find(ledger, password))

    def is_whole(self, metadata: LedgerMetadata) -> bool:
        """Whether every bookie of a ledger's last ensemble is up and writable, as far as known."""
        return set(metadata.last_fragment.bookies) <= set(self._roster.writable())

    async def close_and_delete(self, ledger: LedgerId, *, password: bytes = b"") -> None:
        """Delete a ledger after its end was decided: an open one is fenced and closed first.

        So a writer that still holds it has nothing acknowledged once this returns (section 3 of the
        protocol).

        Args:
            ledger: the ledger.
            password: its password, needed to close it.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            UnauthorizedError: it is open, and the password is wrong.
            UnreadableError: it is open, and too few bookies answer to decide its end.
            NotEnoughBookiesError: it is open, and too few bookies take its last entries.
        """
        if not (await self.metadata(ledger)).is_closed:
            reader = await self.open(ledger, password=password)
            await reader.close()
        await self.delete(ledger)

    async def delete(self, ledger: LedgerId, along: Sequence[Change] = ()) -> None:
        """Delete a ledger; bookies drop its entries in their own time. Changes `along` are made
        with that or not at all.

        For ledgers that are closed, or that have no writer: see `close_and_delete`. A writer that
        still writes it fails when it next needs metadata. Raises `NoSuchLedgerError`
        if the ledger does not exist, errors of the changes, and the store's errors.
        """
        may_be_done = False
        for _ in range(ATTEMPTS_MAX):
            try:
                await self._records.delete(ledger, along=along)
            except StoreOutcomeUnknownError:
                may_be_done = True
                continue
            except NoSuchLedgerError:
                if not may_be_done:
                    raise
            return
        raise StoreOutcomeUnknownError(
            self._records.name(ledger), f"{ATTEMPTS_MAX} deletions were not answered"
        )

    async def list(self) -> list[LedgerId]:
        """Return all ledger ids, ascending. A ledger that is created meanwhile may be missing."""
        ledgers: list[LedgerId] = []
        async for page in self._records.list():
            ledgers.extend(page)
        return ledgers

    async def each(self) -> AsyncIterator[LedgerMetadata]:
        """Yield the metadata of all ledgers by id, except ledgers that are deleted meanwhile. A
        record that cannot be believed is logged and left out. Raises the store's errors.
        """
        for ledger in await self.list():
            try:
                yield await self.metadata(ledger)
            except NoSuchLedgerError:
                continue
            except CorruptRecordError as error:
                _log.warning("ledger %d is passed over: %s", ledger, error)

    async def metadata(self, ledger: LedgerId) -> LedgerMetadata:
        """Return a ledger's metadata. Raises `NoSuchLedgerError` and the store's errors."""
        return (await self._records.read(ledger)).metadata

    async def skip_id(self) -> LedgerId:
        """Take an id that no ledger gets: it is above every id given out before. Raises as
        `create` does for the store.
        """
        return await self._records.skip_id()

    async def check_read_password(self) -> None:
        """Raise where reads of a new ledger cannot need its password.

        Raises `ConfigurationError` for a client without TLS, `LevelNeededError` while the
        cluster's feature level is too low, `UnsupportedError` for records of another system, and
        the store's errors.
        """
        if not self._keys.has_tls:
            raise ConfigurationError(
                "a password for reads needs TLS, since bookies prove by "
                "certificates that they may copy its entries: give connect(tls=…), or --tls-cert, "
                "--tls-key and --tls-ca"
            )
        found = await self._records.feature_level()
        if not found:
            raise UnsupportedError(self._records.uri, "a password for reads")
        if found < READ_PASSWORD_LEVEL:
            raise LevelNeededError("a password for reads", READ_PASSWORD_LEVEL, found)

    def placement(self, given: Placement | None) -> Placement:
        """Return the policy of a new ledger: as given, else as the options say."""
        return self._options.placement if given is None else given_or_default(given, Placement)

    async def check_bookies(self, wanted: Replication, placement: Placement | None = None) -> None:
        """Raise `NotEnoughBookiesError` when no ledger could be created now; a moment later one
        may, or not. Raises the store's errors.
        """
        await self._choose(wanted, self.placement(placement))

    async def _choose(
        self, wanted: Replication, placement: Placement
    ) -> tuple[Replication, tuple[Candidate, ...]]:
        """Draw an ensemble; if that is impossible, read the registrations again."""
        placement.check(wanted)
        try:
            return self._draw(wanted, placement)
        except NotEnoughBookiesError:
            await self._roster.refresh()
        return self._draw(wanted, placement)

    def _draw(
        self, wanted: Replication, placement: Placement
    ) -> tuple[Replication, tuple[Candidate, ...]]:
        """Draw an ensemble from the writable bookies.

        With opportunistic striping it may be smaller than wanted: all bookies, at least Qw.
        """
        candidates, found = self._roster.candidates(), wanted
        if self._options.opportunistic_striping:
            usable = sum(placement.admits(each.labels) for each in candidates)
            size = max(min(usable, wanted.ensemble), wanted.write_quorum)
            found = replace(wanted, ensemble=size)
        known = self._roster.places()
        return found, choose_ensemble(self._rng, candidates, found, placement, known)

    async def _create(
        self, metadata: LedgerMetadata, along: Sequence[Change], password: bytes
    ) -> VersionedMetadata | None:
        """Create a record; None when another client has its id."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return await self._records.create(metadata, along, password=password)
            except StoreOutcomeUnknownError:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
            except NodeExistsError:
                return await self._own(metadata)
            except ConflictError:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _own(self, metadata: LedgerMetadata) -> VersionedMetadata | None:
        """Return the record that has our id if an earlier attempt of ours made it."""
        with suppress(NoSuchLedgerError):
            found = await self._records.read(metadata.ledger)
            if found.metadata.token == metadata.token:
                return found
        return None

    async def _new_stretch(self, password: bytes, salt: bytes) -> KeyStretch | None:
        """Return how the password of a new ledger is stretched, None where it must not be: there is
        none, or programs will read the ledger that compute its keys without.
        """
        if not password or await self._records.feature_level() < STRETCH_LEVEL:
            return None
        return KeyStretch(salt)

    async def _secret(self, password: bytes, stretch: KeyStretch | None) -> bytes:
        """Return the secret of the keys. An empty password needs no stretching.

        Raises `InvalidRequestError` for a password that is not bytes.
        """
        check_password_type(password)
        if stretch is None or not password:
            return password
        return await self._stretching(password, stretch)

    async def _find(self, ledger: LedgerId, password: bytes) -> tuple[Sealer, VersionedMetadata]:
        found = await self._records.read(ledger)
        expected = found.metadata.key_check
        has_guard = is_of_guarded_reads(expected)
        secret = await self._secret(password, found.metadata.stretch)
        sealer = Sealer(ledger, found.metadata.digest, secret, guards_reads=has_guard)
        if expected and not is_checked(sealer.access_key, expected):
            raise UnauthorizedError(ledger)
        self._keys.learn(ledger, sealer.access_key)
        return sealer, found

    def _reader(self, sealer: Sealer, found: VersionedMetadata) -> LedgerReader:
        return LedgerReader(
            *(self._records, self._roster, sealer, found, self._options),
            meter=self._meter,
            tails=self._tails,
        )
