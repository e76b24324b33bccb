"""Every error quire raises, arranged by the caller's reaction.

    QuireError
    ├── RetryError                 nothing happened; the same call may succeed later
    │   ├── BookieUnavailableError     a bookie did not answer, or not in time
    │   │   └── UntrustedBookieError       its address does not prove to be the bookie's
    │   ├── ReadOnlyBookieError        a bookie takes no new entries (disk full)
    │   ├── NotEnoughBookiesError      too few bookies to form or mend an ensemble
    │   │   └── NotEnoughDomainsError      writable bookies are in too few domains of the placement
    │   ├── UnreadableError            too many copies are out of reach to decide
    │   │   └── EntryLostError             all copies were asked for, and none is sound
    │   ├── BookieBusyError            a bookie's queue is full
    │   ├── StoreUnavailableError      the metadata store cannot be reached; nothing was changed
    │   ├── LogFullError               a log's manifest takes no more segments: trim the log
    │   ├── LogBeingDeletedError       a deletion has begun; the log takes no writes for now
    │   ├── ColdTierError              the file system of cold segments does not answer
    │   ├── TableError                 the catalog or files of an Iceberg table do not answer
    │   ├── BehindError                the bookies that answer know less of a log than others did
    │   └── GatewayUnavailableError    no gateway took a request in time
    ├── OutcomeUnknownError        it may or may not have happened; re-read before doing it again
    │   ├── AppendOutcomeUnknownError  an append failed after it was sent
    │   ├── LedgerFencedError          another client took the ledger over: step down
    │   ├── DeposedError               another leader took the log over: step down
    │   ├── StoreOutcomeUnknownError   the connection was lost during a metadata change
    │   ├── LeavingTimeoutError        leaving `connect` took too long; writers were abandoned
    │   └── GatewayOutcomeUnknownError no gateway gave a certain answer in time
    ├── LeadershipLostError        the election ended this leadership: step down
    ├── SessionExpiredError        the metadata store dropped our session: every lease is gone
    ├── ConflictError              the record changed since it was read: read it again
    │   ├── VersionConflictError       compare-and-set met another version
    │   ├── NodeExistsError            create met an existing record
    │   ├── TailConflictError          a conditional append met another tail; nothing was written
    │   ├── SequenceConflictError      a producer's number is neither new nor remembered
    │   │   └── ForgottenProducerError     the log has forgotten the producer's numbers
    │   ├── LogExistsError             a log of that name exists; nothing was created
    │   ├── ManifestExistsError        only a lost manifest is rebuilt, and this one exists
    │   ├── OvertakenError             another attempt of the job was quicker; nothing was written
    │   ├── ForgottenJobError          the log has forgotten the job; nothing was written
    │   ├── TooManyJobsError           the log cannot remember another job yet
    │   ├── TxidOrderError             the txid is below the log's last; nothing was written
    │   ├── TooManyProducersError      the log cannot remember another producer yet
    │   ├── WishRefusedError           a bookie cannot be spared as things are
    │   ├── RightsRefusedError         a change of rights would leave no administrator
    │   ├── UpgradeRefusedError        a registered program does not speak the new formats
    │   └── PositionMovedError         another process moved a place in a SQL database
    ├── NotFoundError              the thing named does not exist
    │   ├── NoSuchNodeError            no such metadata record
    │   ├── NoSuchLedgerError          no such ledger
    │   │   ├── LedgerRetiredError         a bookie dropped the ledger because it was deleted
    │   │   └── ColdFileMissingError       a file that holds a segment is missing
    │   ├── NoSuchEntryError           provably no such entry
    │   ├── NoSuchLogError             no such log
    │   ├── NoSuchCursorError          no such cursor in the log
    │   ├── LogReplacedError           the log was deleted and recreated
    │   ├── PositionTrimmedError       the position was trimmed; `first` is the first one left
    │   ├── NoSuchBookieError          the cluster has no record of the bookie
    │   ├── NoSuchTopicError           the store has no record of a topic of Pulsar
    │   ├── NoSuchDlogError            the store has no record of a log of DistributedLog
    │   └── RecordsMissingError        a consumer's next records have left the log
    ├── ClosedError                the handle, ledger or log takes no more appends
    │   ├── LedgerClosedError          the ledger was closed
    │   ├── LogSealedError             the log was sealed permanently
    │   ├── HandleClosedError          this object was closed by its owner
    │   └── ForkedError                quire.sync was in use when this process was forked
    ├── InvalidRequestError        the call itself is wrong: change it
    │   ├── InvalidReplicationError    not E ≥ Qw ≥ Qa ≥ 1
    │   ├── DuplicateEntryError        an entry id was given before
    │   ├── EntryTooLargeError         a payload exceeds the limit
    │   ├── UnauthorizedError          wrong password for the ledger
    │   ├── WrongLoopError             the handle belongs to another event loop
    │   ├── ConfigurationError         an option, address or file that cannot work
    │   │   ├── MissingExtraError          a package of an extra is not installed
    │   │   ├── CertificateError           a certificate or key cannot be used as it is
    │   │   ├── FormatLevelError           this program does not speak the level of the cluster
    │   │   └── LevelNeededError           the level of the cluster does not allow the format yet
    │   ├── JobReusedError             another stream writes under the name of a job
    │   │   └── RowsChangedError           a repeated task of Spark has other rows than before
    │   ├── DecryptionError            an encrypted batch does not open with the given keys
    │   │   └── MissingKeyError            its key is not among the given keys
    │   ├── UnsupportedError           the system cannot do it
    │   │   ├── OpenedReadOnlyError        it was opened to be read only
    │   │   └── UnreadableContentError     data of another system that quire cannot read
    │   ├── RefusedError               a bookie refuses this program as it is
    │   │   ├── TlsMismatchError           one side wants TLS, and the other has none
    │   │   ├── ClientRefusedError         a bookie does not serve this client, and says why
    │   │   ├── NotPermittedError          the table of rights denies it to this identity
    │   │   └── GatewayRefusedError        a gateway refuses a request for good
    │   ├── TransactionEndedError      a function ended the transaction that it works in
    │   ├── OutboxRowError             a row of an outbox cannot be a record
    │   └── OutboxSkippedError         a row of an outbox would never be sent
    ├── IntegrityError             tell a human: data or identity is wrong
    │   ├── CorruptEntryError          a frame fails its digest or names another entry
    │   ├── CorruptRecordError         a metadata record cannot be believed
    │   │   ├── MissingPageError           a page of a log's manifest is not there
    │   │   └── MissingRightsError         the table of rights is gone
    │   ├── CorruptStorageError        a file of a bookie is damaged
    │   ├── EntryUnknownError          a bookie cannot say whether it ever had the entry
    │   │   └── LedgerDisownedError        it gave the ledger to another bookie
    │   ├── WrongBookieError           the server or directory belongs to another bookie or cluster
    │   ├── StoreWentBackError         the metadata store is an old copy of itself
    │   ├── DirectoryInUseError        another process works on the directory
    │   └── SharedFilesError           another directory has the same files by hard links
    └── SparkFailedError           Spark itself failed: its master, Java or an expression

Every error carries its subject as attributes and builds its own sentence, which names the value
and, where there is one, the remedy. Read `base.py` (the kinds of reaction), then `logs.py`.

May import: nothing of quire.
"""

from quire.errors.base import (
    AppendOutcomeUnknownError,
    BookieBusyError,
    BookieUnavailableError,
    ClosedError,
    ConfigurationError,
    ConflictError,
    CorruptEntryError,
    CorruptRecordError,
    CorruptStorageError,
    DeposedError,
    DuplicateEntryError,
    EntryLostError,
    EntryTooLargeError,
    EntryUnknownError,
    ForkedError,
    HandleClosedError,
    IntegrityError,
    InvalidReplicationError,
    InvalidRequestError,
    LeadershipLostError,
    LeavingTimeoutError,
    LedgerClosedError,
    LedgerDisownedError,
    LedgerFencedError,
    LedgerRetiredError,
    LogReplacedError,
    LogSealedError,
    MissingExtraError,
    MissingPageError,
    NodeExistsError,
    NoSuchCursorError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NoSuchLogError,
    NoSuchNodeError,
    NotEnoughBookiesError,
    NotFoundError,
    OutcomeUnknownError,
    PositionTrimmedError,
    QuireError,
    ReadOnlyBookieError,
    RetryError,
    SequenceConflictError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    StoreWentBackError,
    TailConflictError,
    UnauthorizedError,
    UnreadableError,
    VersionConflictError,
    WrongBookieError,
    WrongLoopError,
)
from quire.errors.certificates import CertificateError, UntrustedBookieError
from quire.errors.directories import DirectoryInUseError, SharedFilesError
from quire.errors.gateways import (
    GatewayOutcomeUnknownError,
    GatewayRefusedError,
    GatewayUnavailableError,
    RowsChangedError,
)
from quire.errors.logs import (
    BehindError,
    ColdFileMissingError,
    ColdTierError,
    DecryptionError,
    ForgottenJobError,
    ForgottenProducerError,
    JobReusedError,
    LogBeingDeletedError,
    LogExistsError,
    LogFullError,
    ManifestExistsError,
    MissingKeyError,
    OvertakenError,
    SparkFailedError,
    TableError,
    TooManyJobsError,
    TooManyProducersError,
    TxidOrderError,
)
from quire.errors.peers import (
    ClientRefusedError,
    FormatLevelError,
    LevelNeededError,
    MissingRightsError,
    NoSuchBookieError,
    NoSuchDlogError,
    NoSuchTopicError,
    NotPermittedError,
    OpenedReadOnlyError,
    RefusedError,
    RightsRefusedError,
    TlsMismatchError,
    UnreadableContentError,
    UnsupportedError,
    UpgradeRefusedError,
    WishRefusedError,
)
from quire.errors.placement import NotEnoughDomainsError
from quire.errors.sql import (
    OutboxRowError,
    OutboxSkippedError,
    PositionMovedError,
    RecordsMissingError,
    TransactionEndedError,
)

__all__ = [
    "AppendOutcomeUnknownError",
    "BehindError",
    "BookieBusyError",
    "BookieUnavailableError",
    "CertificateError",
    "ClientRefusedError",
    "ClosedError",
    "ColdFileMissingError",
    "ColdTierError",
    "ConfigurationError",
    "ConflictError",
    "CorruptEntryError",
    "CorruptRecordError",
    "CorruptStorageError",
    "DecryptionError",
    "DeposedError",
    "DirectoryInUseError",
    "DuplicateEntryError",
    "EntryLostError",
    "EntryTooLargeError",
    "EntryUnknownError",
    "ForgottenJobError",
    "ForgottenProducerError",
    "ForkedError",
    "FormatLevelError",
    "GatewayOutcomeUnknownError",
    "GatewayRefusedError",
    "GatewayUnavailableError",
    "HandleClosedError",
    "IntegrityError",
    "InvalidReplicationError",
    "InvalidRequestError",
    "JobReusedError",
    "LeadershipLostError",
    "LeavingTimeoutError",
    "LedgerClosedError",
    "LedgerDisownedError",
    "LedgerFencedError",
    "LedgerRetiredError",
    "LevelNeededError",
    "LogBeingDeletedError",
    "LogExistsError",
    "LogFullError",
    "LogReplacedError",
    "LogSealedError",
    "ManifestExistsError",
    "MissingExtraError",
    "MissingKeyError",
    "MissingPageError",
    "MissingRightsError",
    "NoSuchBookieError",
    "NoSuchCursorError",
    "NoSuchDlogError",
    "NoSuchEntryError",
    "NoSuchLedgerError",
    "NoSuchLogError",
    "NoSuchNodeError",
    "NoSuchTopicError",
    "NodeExistsError",
    "NotEnoughBookiesError",
    "NotEnoughDomainsError",
    "NotFoundError",
    "NotPermittedError",
    "OpenedReadOnlyError",
    "OutboxRowError",
    "OutboxSkippedError",
    "OutcomeUnknownError",
    "OvertakenError",
    "PositionMovedError",
    "PositionTrimmedError",
    "QuireError",
    "ReadOnlyBookieError",
    "RecordsMissingError",
    "RefusedError",
    "RetryError",
    "RightsRefusedError",
    "RowsChangedError",
    "SequenceConflictError",
    "SessionExpiredError",
    "SharedFilesError",
    "SparkFailedError",
    "StoreOutcomeUnknownError",
    "StoreUnavailableError",
    "StoreWentBackError",
    "TableError",
    "TailConflictError",
    "TlsMismatchError",
    "TooManyJobsError",
    "TooManyProducersError",
    "TransactionEndedError",
    "TxidOrderError",
    "UnauthorizedError",
    "UnreadableContentError",
    "UnreadableError",
    "UnsupportedError",
    "UntrustedBookieError",
    "UpgradeRefusedError",
    "VersionConflictError",
    "WishRefusedError",
    "WrongBookieError",
    "WrongLoopError",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # the one module that programs and tracebacks name
del _name
