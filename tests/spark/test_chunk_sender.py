"""The chunks of a task: written once, compared when they were there, options understood."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from quire.errors import ConfigurationError, GatewayRefusedError, RowsChangedError
from quire.log.records.attributes import NO_ATTRIBUTES
from quire.spark.asking_gateways import Asking, GatewayAnswer
from quire.spark.chunks import CHUNK_RECORDS, Row
from quire.spark.through_leader import (
    ChunkSender,
    LeaderOptions,
    LeaderStreamWriter,
    SentChunks,
    is_through_leader,
)

BASE = {"mode": "through-leader", "gateway": "http://one", "log": "orders", "job": "load"}
OPTIONS = LeaderOptions.parse(BASE)
WINDOW = 16


class Leader:
    """A log behind a gateway, which remembers the last numbers of each producer as quire does."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.reads = 0
        self.tells = True
        """Whether an answer tells that a chunk is repeated, as since version 0.2."""
        self.breaks_after: int | None = None
        """How many appends are answered."""
        self.now = 0.0
        self._known: dict[str, dict[int, tuple[int, int]]] = {}

    def __call__(self, base: str, method: str, target: str, *rest: Any) -> GatewayAnswer:
        path, _, query = target.partition("?")
        if path.endswith("/end"):
            return self._answer(200, {"offset": len(self.records)})
        if method == "GET":
            self.reads += 1
            terms = dict(each.split("=") for each in query.split("&"))
            first = int(terms["from"])
            return self._answer(200, {"records": self.records[first : first + int(terms["limit"])]})
        return self._append(json.loads(rest[1]))

    def _append(self, asked: dict[str, Any]) -> GatewayAnswer:
        if self.breaks_after is not None:
            self.breaks_after -= 1
            if self.breaks_after < 0:
                return self._answer(413, {"error": "too_large", "message": "this attempt ends"})
        given, number = asked["records"], asked["producer"]["sequence"]
        known = self._known.setdefault(asked["producer"]["id"], {})
        is_repeated = number in known
        if not is_repeated:
            if known and number < max(known):
                return self._answer(409, {"error": "sequence_conflict", "last": max(known)})
            known[number] = len(self.records), len(given)
            self.records += given
            for old in sorted(known)[:-WINDOW]:
                del known[old]
        first, count = known[number]
        if count != len(given):
            return self._answer(400, {"error": "invalid_request", "message": "was given to"})
        body: dict[str, Any] = {"records": [{"offset": first + n} for n in range(count)]}
        if self.tells:
            body["repeated"] = is_repeated
        return self._answer(201, body)

    @staticmethod
    def _answer(status: int, body: dict[str, Any]) -> GatewayAnswer:
        return GatewayAnswer(status, {}, json.dumps(body).encode())

    def send(self, rows: Iterable[Row], batch: int = 0, producer: str = "p") -> SentChunks:
        """Run an attempt of a task."""
        asking = Asking(OPTIONS.gateways, self, lambda: self.now, self._sleep)
        return ChunkSender(asking, OPTIONS, producer, batch).send(rows)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def values(self) -> list[str]:
        return [record["value"] for record in self.records]


def rows(count: int, name: str = "row") -> list[Row]:
    return [(f"{name}-{n}".encode(), NO_ATTRIBUTES) for n in range(count)]


def values(*given: list[Row]) -> list[str]:
    return [payload.decode() for each in given for payload, _ in each]


def test_a_task_writes_its_rows_in_order() -> None:
    leader, given = Leader(), rows(2 * CHUNK_RECORDS + 5)
    assert leader.send(given) == SentChunks(0, len(given), 3, 0)
    assert leader.values == values(given)
    assert leader.reads == 0, "chunks of its own are not read back"


def test_a_task_without_rows_asks_nothing() -> None:
    leader = Leader()
    assert leader.send([]) == SentChunks(0)
    assert leader.records == []


@pytest.mark.parametrize("chunks", [1, 2, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_a_task_that_died_is_repeated_and_writes_the_rest(chunks: int) -> None:
    leader, given = Leader(), rows(chunks * CHUNK_RECORDS + 5)
    leader.breaks_after = chunks
    with pytest.raises(GatewayRefusedError, match="this attempt ends"):
        leader.send(given)
    leader.breaks_after = None
    leader.send(rows(3, "other"), producer="q")
    assert leader.send(given) == SentChunks(0, len(given), chunks + 1, chunks)
    assert sorted(leader.values) == sorted(values(given, rows(3, "other")))
    assert leader.reads == min(chunks, WINDOW), "what the log remembers is compared"


@pytest.mark.parametrize("chunks", [1, WINDOW, 2 * WINDOW])
def test_other_rows_of_the_same_number_are_found(chunks: int) -> None:
    leader, given = Leader(), rows(chunks * CHUNK_RECORDS)
    leader.send(given)
    last = len(given) - 1
    changed = [*given[:last], (b"changed", NO_ATTRIBUTES)]
    with pytest.raises(RowsChangedError, match=f"row 999 of chunk {chunks - 1} ") as caught:
        leader.send(changed)
    assert (caught.value.log, caught.value.job) == ("orders", "load")
    assert leader.values == values(given)


def test_chunks_are_compared_where_the_gateway_does_not_tell_of_repetitions() -> None:
    leader, given = Leader(), rows(2 * CHUNK_RECORDS)
    leader.tells = False
    leader.send(given)
    leader.send(given)
    assert leader.values == values(given)
    assert leader.reads == 4
    with pytest.raises(RowsChangedError, match="row 0 of chunk 0 "):
        leader.send(rows(2 * CHUNK_RECORDS, "other"))


def interrupted(given: list[Row], events: dict[int, Callable[[], object]]) -> Iterator[Row]:
    """The rows of an attempt; something happens before some of its chunks are full."""
    for number, row in enumerate(given):
        if number in events:
            events[number]()
        yield row


ATTEMPTS = pytest.mark.parametrize(
    "ahead", [(0, 9), (0, 40), (1, 60), (17, 60)], ids=lambda each: "-".join(map(str, each))
)
"""How many chunks the other attempt has written when this one begins, and soon after."""


def race(leader: Leader, mine: list[Row], theirs: list[Row], ahead: tuple[int, int]) -> SentChunks:
    """Run an attempt that another one outruns, after its fourth chunk and once more."""
    first, then = (CHUNK_RECORDS * each for each in ahead)
    if first:
        leader.send(theirs[:first])

    def write(count: int) -> Callable[[], object]:
        def act() -> None:
            leader.send(rows(7, "a service"), producer=f"service {count}")
            leader.send(theirs[:count])

        return act

    events = {4 * CHUNK_RECORDS: write(then), 30 * CHUNK_RECORDS: write(len(theirs))}
    return leader.send(interrupted(mine, events))


@ATTEMPTS
def test_two_attempts_at_the_same_time_write_once(ahead: tuple[int, int]) -> None:
    leader, given = Leader(), rows(70 * CHUNK_RECORDS)
    sent = race(leader, given, given, ahead)
    assert sent.chunks == 70
    assert [each for each in leader.values if each.startswith("row-")] == values(given)


@ATTEMPTS
@pytest.mark.parametrize("at", [18, 33, 45, 69])
def test_other_rows_of_an_attempt_at_the_same_time_are_found(
    ahead: tuple[int, int], at: int
) -> None:
    """Also far before the chunks of which the log knows the places."""
    leader, given = Leader(), rows(70 * CHUNK_RECORDS)
    changed = list(given)
    changed[at * CHUNK_RECORDS + 3] = (b"changed", NO_ATTRIBUTES)
    with pytest.raises(RowsChangedError, match=f"chunk {at} ") as caught:
        race(leader, changed, given, ahead)
    assert (caught.value.log, caught.value.job) == ("orders", "load")
    written = [each for each in leader.values if not each.startswith("a service")]
    histories = [values(each)[: len(written)] for each in (given, changed)]
    assert written in histories, "the attempt that came first wrote the chunk"


def test_another_number_of_rows_is_refused() -> None:
    leader = Leader()
    leader.send(rows(10))
    with pytest.raises(GatewayRefusedError, match="was given to"):
        leader.send(rows(11))


def test_the_next_batch_is_new_and_an_older_one_is_an_error() -> None:
    leader = Leader()
    for batch in (0, 1, 5):
        assert leader.send(rows(2), batch) == SentChunks(batch, 2, 1, 0)
    assert leader.send(rows(2), 5).repeated == 1
    with pytest.raises(RowsChangedError, match="has come to number 5, and this is number 3"):
        leader.send(rows(2), 3)
    assert leader.values == values(*[rows(2)] * 3)


def test_options_are_understood() -> None:
    more = {"gateway": "http://a:1,http://b:2", "timeoutseconds": "5m", "sequence": "7"}
    options = LeaderOptions.parse(BASE | more | {"token": "3f1c"})
    assert options.gateways.urls == ("http://a:1", "http://b:2")
    assert (options.gateways.seconds, options.sequence, options.job) == (300.0, 7, "load")
    assert options.gateways.token == "3f1c"
    assert "3f1c" not in repr(options)
    assert OPTIONS.gateways.seconds == 120.0


@pytest.mark.parametrize("name", ["gateway", "log", "job"])
def test_what_is_needed_is_named(name: str) -> None:
    left = {key: value for key, value in BASE.items() if key != name}
    with pytest.raises(ConfigurationError, match=name):
        LeaderOptions.parse(left)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "through-gateway"),
        ("gateway", "host:8180"),
        ("log", "orders-*"),
        ("sequence", "-1"),
        ("sequence", str(2**39)),
        ("timeoutSeconds", "0"),
        ("timeoutSeconds", "2h"),
        ("timeoutSeconds", "nan"),
        ("cluster", "zk://a:2181/quire"),
        ("ackQuorum", "2"),
    ],
)
def test_a_wrong_option_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        LeaderOptions.parse(BASE | {name: value})


def test_no_error_shows_a_token() -> None:
    with pytest.raises(ConfigurationError, match="token") as caught:
        LeaderOptions.parse(BASE | {"token": "3f1c\n"})
    assert "3f1c" not in str(caught.value)


def test_no_error_shows_a_password_in_a_url() -> None:
    with pytest.raises(ConfigurationError, match="option gateway has a name or password") as caught:
        LeaderOptions.parse(BASE | {"gateway": "http://a:8180,http://alice:hush@b:8180"})
    assert "hush" not in str(caught.value)


def test_rows_of_many_logs_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="column log"):
        LeaderOptions.parse(BASE, routed=True)


def test_each_option_mode_chooses_this_way() -> None:
    assert is_through_leader({"Mode": "through-leader"})
    assert is_through_leader({"mode": "other"}), "so that the error names it"
    assert not is_through_leader({"job": "mode"})


def test_a_stream_numbers_its_batches_itself() -> None:
    with pytest.raises(ConfigurationError, match="sequence"):
        LeaderStreamWriter(LeaderOptions.parse(BASE | {"sequence": "3"}))


def test_a_batch_under_another_number_is_an_error() -> None:
    writer = LeaderStreamWriter(OPTIONS)
    writer.commit([SentChunks(4, 1, 1), None], 4)
    with pytest.raises(ValueError, match=r"batch 5 wrote under the numbers \[4\]"):
        writer.commit([SentChunks(4, 1, 1)], 5)
