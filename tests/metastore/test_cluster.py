"""The cluster's record: incarnations, old records, fields of newer programs."""

from __future__ import annotations

import pytest

from quire.errors import CorruptRecordError, StoreWentBackError
from quire.metastore.cluster import Cluster
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record


def test_a_record_of_before_incarnations_is_of_the_first() -> None:
    old = encode_record("cluster", 1, {"cluster": "c"})
    assert Cluster.decode(old) == Cluster("c")
    assert Cluster("c").encode() == old, "and older programs read what is written"


def test_unknown_fields_are_kept() -> None:
    newer = encode_record("cluster", 1, {"cluster": "c", "level": 3})
    assert Cluster.decode(newer).encode() == newer


def test_an_incarnation_comes_back() -> None:
    cluster = Cluster("c", 2, False, '{"later":3}', counted=True, ruled=True)
    assert Cluster.decode(cluster.encode()) == cluster


def test_only_an_adopted_incarnation_counts() -> None:
    store = MemoryStore()
    Cluster("c", 2, True).check_adopted(store)
    with pytest.raises(StoreWentBackError, match=r"incarnation 2.*quire metadata adopt"):
        Cluster("c", 2, False).check_adopted(store)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cluster": ""},
        {"cluster": "c", "counted": 1},
        {"cluster": "c", "ruled": "yes"},
        {"cluster": "c", "incarnation": -1},
        {"cluster": "c", "incarnation": True},
        {"cluster": "c", "incarnation": 1, "adopted": 1},
    ],
)
def test_a_senseless_record_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(CorruptRecordError, match="/quire/cluster"):
        Cluster.decode(encode_record("cluster", 1, body))
