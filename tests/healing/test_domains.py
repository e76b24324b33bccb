"""Ledgers in fewer domains than their placement requires: beside counting, and in an audit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from quire.healing.domains import DomainWatch
from quire.healing.index import Index
from quire.healing.summary import Count
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Placement, least_spread
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.layout import bookie_path
from quire.metastore.registration import decode_registration, encode_registration
from tests.healing.auditing import DELAY, Scene
from tests.healing.test_index import drawn
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually

PLACEMENTS = ("", "require=rack:2", "require=zone:2,require=rack:2", "prefer=rack:3")
TWO_RACKS = Placement.parse("require=rack:2")


def is_short(metadata: LedgerMetadata, places: Mapping[str, Labels]) -> bool:
    """What the watch is to find, from the whole record."""
    if not metadata.is_closed or metadata.last_entry == -1:
        return False
    for level, least in metadata.placement.needs().items():
        for fragment in metadata.fragments:
            # Each copy that does not count is no domain: alone somewhere, and taken off.
            where = [places.get(each, NOWHERE) for each in fragment.bookies]
            named = [each.domain(level) if each.names(level) else None for each in where]
            for start in range(metadata.replication.ensemble):
                found = {named[each] for each in metadata.replication.write_set(start)}
                if len(found - {None}) < least:
                    return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_after_every_look_the_watch_has_what_the_records_say(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        index, model = Index(), dict[int, LedgerMetadata]()
        watch, places = DomainWatch(index), dict[str, Labels]()
        for _ in range(120):
            changed = set()
            for _ in range(rng.randrange(4)):
                ledger = rng.randrange(40)
                changed.add(ledger)
                if rng.random() < 0.2:
                    index.drop(ledger)
                    model.pop(ledger, None)
                    continue
                made = drawn(rng, ledger)
                text = rng.choice(PLACEMENTS if made.replication.write_quorum > 1 else [""])
                model[ledger] = replace(made, placement=Placement.parse(text))
                index.put(model[ledger])
            for _ in range(rng.randrange(2)):
                bookie = rng.choice("abcdefg")
                zone, rack = rng.choice(["z1", "z2"]), rng.choice(["r1", "r2", ""])
                places[bookie] = Labels(zone=zone, rack=rack)
            if rng.random() < 0.2:
                places.pop(rng.choice("abcdefg"), None)
            await watch.look(places, changed)
            assert watch.ledgers == {k for k, m in model.items() if is_short(m, places)}

    virtually(main)


def test_the_model_counts_as_the_rule_of_placements_does() -> None:
    """Where every bookie has all labels, the least spread is the rule's."""
    rng = random.Random(1)
    for _ in range(300):
        made = drawn(rng, 1)
        if not made.is_closed or made.replication.write_quorum < 2:
            continue
        record = replace(made, placement=TWO_RACKS)
        places = {each: Labels(rack=rng.choice(["r1", "r2"])) for each in "abcdefg"}
        least = min(
            least_spread(record.replication, [places[each] for each in fragment.bookies], "rack")
            for fragment in record.fragments
        )
        assert is_short(record, places) == (least < 2)


async def relabel(made: Scene, bookie: str, labels: Labels) -> None:
    store, path = made.cluster.store, bookie_path(bookie)
    found = await store.get(path)
    address = replace(decode_registration(bookie, found.value), labels=labels)
    await store.put(path, encode_registration(address), found.version)


def test_an_audit_counts_a_lost_rack_and_a_new_label() -> None:
    async def main() -> None:
        async with MemoryCluster(0) as cluster:
            for number in range(4):
                rack = Labels(rack="r1" if number < 2 else "r2", host=f"h{number}")
                await cluster.register(f"b{number}", labels=rack)
            made = Scene(cluster)
            await made.work(made.audit(), 5.0)
            for placement in (TWO_RACKS, Placement()):
                for _ in range(10):
                    async with await cluster.catalog.create(placement=placement) as writer:
                        await writer.append(b"entry")
            audit = made.audit()
            await audit.build()

            async def few() -> int:
                return (await made.summary()).count(Count.FEW_DOMAINS)

            await made.work(audit, 30.0)
            assert await few() == 0
            await made.lose("b2", "b3")
            await made.work(audit, DELAY - 30.0)
            assert await few() == 0, "silent is not lost"
            await made.work(audit, 120.0)
            assert await few() == 10, "only two racks keep what needs two"
            for bookie in ("b2", "b3"):
                await cluster.register(bookie, labels=Labels(rack="r2", host=bookie))
            await made.work(audit, 30.0)
            assert await few() == 0
            await relabel(made, "b2", Labels(rack="r1", host="h2"))
            await relabel(made, "b3", Labels(rack="r1", host="h3"))
            await made.work(audit, 30.0)
            assert await few() == 10

    virtually(main)
