"""Names of topics and ids of messages, in Pulsar's own forms. Pure.

persistent://tenant/namespace/topic      a topic; without a scheme it is persistent
tenant/namespace/topic                   the same
topic                                    persistent://public/default/topic
4711:3:-1                                a message: ledger, entry, partition (-1: none)
4711:3:-1:7                              message 7 of a batch
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from quire.checked import is_utf8
from quire.errors import ConfigurationError, InvalidRequestError

SINGLE: Final = -1
"""The index of a message that is in no batch, and the partition of a topic without partitions."""

_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]{0,8})\Z")
"""The end of a partition's name. With a zero before the number Pulsar has another topic."""
_ID: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,19})(?::(-1|[0-9]{1,9})(?::(-1|[0-9]{1,9}))?)?")


def _encoded(topic: str) -> str:
    """Return a topic's name as Java's `URLEncoder` writes it."""
    return quote_plus(topic, safe="*").replace("~", "%7E")


@dataclass(frozen=True, slots=True)
class TopicName:
    """A persistent topic, or one partition of it."""

    tenant: str
    namespace: str
    topic: str

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Return the topic that a name means. Raises `ConfigurationError`."""
        scheme, colon, rest = text.partition("://")
        if not colon:
            scheme, rest = "persistent", text
            if "/" not in text:
                rest = f"public/default/{text}"
        parts = rest.split("/")
        if scheme != "persistent" or len(parts) != 3 or not all(parts):
            raise ConfigurationError(
                f"topic {text!r} is not in the form persistent://tenant/namespace/topic; topics "
                "that are not persistent leave nothing to read"
            )
        if not is_utf8(text):
            raise ConfigurationError(
                f"topic {text!r} is not UTF-8, as the names of Pulsar's topics are: check the "
                "encoding of the terminal or the script"
            )
        return cls(*parts)

    def __str__(self) -> str:
        return f"persistent://{self.tenant}/{self.namespace}/{self.topic}"

    @property
    def path(self) -> str:
        """The path of the record that lists the topic's ledgers."""
        return f"/managed-ledgers/{self._tail}"

    @property
    def partitions_path(self) -> str:
        """The path of the record that counts the topic's partitions, if it has any."""
        return f"/admin/partitioned-topics/{self._tail}"

    @property
    def _tail(self) -> str:
        return f"{self.tenant}/{self.namespace}/persistent/{_encoded(self.topic)}"

    @property
    def number(self) -> int:
        """The number of the partition that the name means, -1 for a whole topic."""
        found = _PARTITION.search(self.topic)
        return SINGLE if found is None else int(found[1])

    @property
    def whole(self) -> TopicName:
        """The topic whose partition the name means; the topic itself for a whole one."""
        return TopicName(self.tenant, self.namespace, _PARTITION.sub("", self.topic))

    def partition(self, number: int) -> TopicName:
        """Return the name of a partition."""
        return TopicName(self.tenant, self.namespace, f"{self.topic}-partition-{number}")

    def part(self, number: int) -> TopicName:
        """Return the name under which the ledgers of a partition are listed, −1 for no partition.

        The name may be that of the partition already.
        """
        return self if number in (SINGLE, self.number) else self.partition(number)


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Where a message is. Ids of one topic have the order in which it is read.

    A message of several chunks has the id of its last one.
    """

    partition: int
    ledger: int
    entry: int
    batch_index: int = SINGLE

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Return the id that a text means. Raises `InvalidRequestError`."""
        found = _ID.fullmatch(text)
        if found is None:
            raise InvalidRequestError(
                f"message id {text!r} is not in the form LEDGER:ENTRY[:PARTITION[:INDEX]], as "
                "4711:3:-1 or 4711:3:-1:7"
            )
        ledger, entry, partition, index = found.groups()
        return cls(int(partition or SINGLE), int(ledger), int(entry), int(index or SINGLE))

    def __str__(self) -> str:
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        return text if self.batch_index == SINGLE else f"{text}:{self.batch_index}"

    @property
    def next(self) -> MessageId:
        """The lowest id above this one: where a reader goes on after this message."""
        return MessageId(self.partition, self.ledger, self.entry, self.batch_index + 1)
