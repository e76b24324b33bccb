"""Clients of both kinds as the writer and the taker of a round.

A round is judged by entries alone. An error that says only that bookies or ZooKeeper did not answer
in time is therefore no verdict: a writer ends with it as with a fence, and a reading or recovery is
repeated. Any other error fails the round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from quire.client import Client
from quire.entry import DigestKind, LedgerId
from quire.errors import LedgerClosedError, OutcomeUnknownError, QuireError, RetryError
from quire.ledger.writer import LedgerWriter
from tests.interop.runs import JAVA_NAMES, digest_of
from tests.interop.servers import JavaClient, JavaError

PASSWORD: Final = "pw"
BURST: Final = 16
"""Appends that are under way together."""

AGAIN_SECONDS: Final = 0.2
UNANSWERED: Final = frozenset(
    {
        "BKAddEntryQuorumTimeoutException",
        "BKBookieException",
        "BKBookieHandleNotAvailableException",
        "BKLedgerRecoveryException",
        "BKMetadataVersionException",
        "BKNotEnoughBookiesException",
        "BKReadException",
        "BKTimeoutException",
        "BKWriteException",
        "ZKException",
    }
)
"""Java's errors that say no more than that bookies or ZooKeeper did not answer, or that another
client was quicker to change the ledger's record."""

FENCED: Final = frozenset({"BKLedgerFencedException", "BKLedgerClosedException"})

Answer = TypeVar("Answer")


class UnansweredError(Exception):
    """Bookies or ZooKeeper did not answer, and nothing was decided. Says which error it was."""


class WriterEndedError(Exception):
    """A writer has ended. Says by which error."""


class Writing(Protocol):
    """One ledger that is being written."""

    @property
    def ledger(self) -> LedgerId: ...

    @property
    def acknowledged(self) -> int: ...

    async def burst(self) -> None:
        """Append some entries at once, and return when they are answered. Raises
        `WriterEndedError`.
        """
        ...

    async def leave(self) -> None:
        """Begin a burst, and leave the ledger without closing it, as a crash would."""
        ...


class Party(Protocol):
    """A client of one kind."""

    name: str

    async def create(self, digest: DigestKind) -> Writing:
        """Create a ledger. Raises `UnansweredError`."""
        ...

    async def recover(self, ledger: LedgerId, digest: DigestKind, *, patiently: bool) -> int:
        """Open a ledger with recovery; return its last entry. Raises `UnansweredError`."""
        ...

    async def read(self, ledger: LedgerId, digest: DigestKind) -> str:
        """Return the number of a closed ledger's entries, and their SHA-256. Raises
        `UnansweredError`.
        """
        ...


async def insist(call: Callable[[], Awaitable[Answer]]) -> tuple[Answer, list[str]]:
    """Repeat a call while bookies do not answer; return its answer, and the errors before."""
    errors: list[str] = []
    while True:
        try:
            return await call(), errors
        except UnansweredError as error:
            errors.append(str(error))
            await asyncio.sleep(AGAIN_SECONDS)


class JavaParty:
    """Apache's client. Implements `Party`."""

    def __init__(self, java: JavaClient) -> None:
        self.java = java
        self.name = "java"

    async def ask(self, *words: object) -> str:
        try:
            return await asyncio.to_thread(self.java.ask, *words)
        except JavaError as error:
            if str(error) in UNANSWERED:
                raise UnansweredError(str(error)) from error
            raise

    async def create(self, digest: DigestKind) -> Writing:
        return _JavaWriting(self, int(await self.ask("create", JAVA_NAMES[digest], PASSWORD)))

    async def recover(self, ledger: LedgerId, digest: DigestKind, *, patiently: bool) -> int:
        word = "rescue" if patiently else "recover"
        return int(await self.ask(word, ledger, JAVA_NAMES[digest], PASSWORD))

    async def read(self, ledger: LedgerId, digest: DigestKind) -> str:
        return await self.ask("read", ledger, JAVA_NAMES[digest], PASSWORD)


class _JavaWriting:
    """Implements `Writing`."""

    def __init__(self, party: JavaParty, ledger: LedgerId) -> None:
        self._party = party
        self.ledger = ledger
        self.acknowledged = 0

    async def burst(self) -> None:
        try:
            self.acknowledged = int(await self._party.ask("burst", BURST))
        except (JavaError, UnansweredError) as error:
            self.acknowledged = int(await self._party.ask("added"))
            if str(error) not in UNANSWERED | FENCED:
                raise
            raise WriterEndedError(str(error)) from error

    async def leave(self) -> None:
        await self._party.ask("leave", BURST)


class QuireParty:
    """quire's client. Implements `Party`."""

    def __init__(self, client: Client, patient: Client) -> None:
        self._client = client
        self._patient = patient
        self.name = "quire"

    async def create(self, digest: DigestKind) -> Writing:
        with _unanswered():
            made = self._client.create_ledger(password=PASSWORD.encode(), digest=digest)
            return _QuireWriting(await made)

    async def recover(self, ledger: LedgerId, digest: DigestKind, *, patiently: bool) -> int:
        by = self._patient if patiently else self._client
        with _unanswered():
            async with await by.open_ledger(ledger, password=PASSWORD.encode()) as reader:
                return await reader.last_confirmed()

    async def read(self, ledger: LedgerId, digest: DigestKind) -> str:
        with _unanswered():
            opening = self._patient.open_ledger(ledger, password=PASSWORD.encode())
            async with await opening as reader:
                found = [entry.payload async for entry in reader.read(0, None)]
        return f"{len(found)} {digest_of(found)}"


class _QuireWriting:
    """Implements `Writing`."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self._sent = 0
        self.ledger = writer.ledger
        self.acknowledged = 0

    async def _submit(self) -> list[asyncio.Future[int]]:
        first, self._sent = self._sent, self._sent + BURST
        names = (b"quire-%d" % number for number in range(first, first + BURST))
        return [await self._writer.submit(each) for each in names]

    async def burst(self) -> None:
        try:
            for each in await self._submit():
                await each
                self.acknowledged += 1
        except (RetryError, OutcomeUnknownError, LedgerClosedError) as error:
            self._writer.abandon()
            raise WriterEndedError(_said(error)) from error

    async def leave(self) -> None:
        try:
            futures = await self._submit()
        except (RetryError, OutcomeUnknownError, LedgerClosedError):
            futures = []
        self._writer.abandon()
        await asyncio.gather(*futures, return_exceptions=True)


@contextmanager
def _unanswered() -> Iterator[None]:
    """Raise `UnansweredError` for the errors of quire that it stands for."""
    try:
        yield
    except (RetryError, OutcomeUnknownError) as error:
        raise UnansweredError(_said(error)) from error


def _said(error: QuireError) -> str:
    return f"{type(error).__name__}: {error}"
