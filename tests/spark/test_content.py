"""The digest of a batch: equal for equal records in any order and any tasks, else another one."""

from __future__ import annotations

import pytest

from quire.spark.content import Content

RECORDS = [b"a", b"b", b"b", b""]


def test_order_and_tasks_do_not_matter() -> None:
    whole = Content().with_records(RECORDS)
    pieces = Content().with_records(RECORDS[2:]).joined(Content().with_records(RECORDS[1::-1]))
    assert whole == pieces
    assert whole.digest == pieces.digest
    assert len(whole.digest) == 16


@pytest.mark.parametrize(
    "others", [[], RECORDS[:-1], RECORDS[:-2], [*RECORDS, b""], [b"ab", b"b", b"", b""]]
)
def test_other_records_have_another_digest(others: list[bytes]) -> None:
    assert Content().with_records(others).digest != Content().with_records(RECORDS).digest


def test_with_a_key_the_digest_tells_nothing_without_it() -> None:
    plain, sealed = (Content().with_records(RECORDS, key).digest for key in (b"", bytes(32)))
    assert plain != sealed
