"""Why a ZooKeeper client cannot connect, in few words."""

from __future__ import annotations

from quire.metastore.zookeeper_client import COMPLAINTS_MAX, Complaints


def test_each_reason_is_named_once_and_the_latest_last() -> None:
    complaints = Complaints()
    for reason in ("refused", "mismatch", "refused"):
        complaints.add(reason)
    assert str(complaints) == "mismatch; refused"


def test_only_the_latest_reasons_are_kept() -> None:
    complaints = Complaints()
    for number in range(COMPLAINTS_MAX + 2):
        complaints.add(f"reason {number}")
    assert str(complaints).split("; ") == [f"reason {n}" for n in range(2, COMPLAINTS_MAX + 2)]


def test_nothing_is_left_of_them_after_a_connection() -> None:
    complaints = Complaints()
    complaints.add("refused")
    complaints.clear()
    assert str(complaints) == ""
