"""What an auditor counts, and how every bookie shows it."""

from __future__ import annotations

import math
from dataclasses import replace

from quire.bookie import BookieAddress
from quire.healing.brakes import Missing
from quire.healing.figures import figures, read_figures
from quire.healing.state import BookieFacts
from quire.healing.summary import Count, State, Summary
from quire.healing.switch import Go, Pause, Switch, change_switch
from quire.healing.tally import Tally, by_state
from quire.metastore.layout import HEALING_SUMMARY
from quire.metastore.memory import MemoryStore
from quire.metastore.standing import Standing, Wish
from quire.metrics.table import METRICS, Owner
from quire.repair.orders import StoredOrders
from tests.healing.auditing import DELAY, scene
from tests.support.virtual import virtually

NOW = 1_700_000_000_000
ROWS = {each.name: each for each in METRICS if each.part is Owner.HEALING}
REPORT = Summary(
    *(NOW - 5_000, "b1", 1, State.MOVING),
    ledgers=40,
    indexed=40,
    counts={str(Count.SHORT): 7, str(Count.ASKED): 4},
    totals=Tally(rounds=9, round_ms=250, requests=12, requests_ended=8).fields(),
    bookies={"up": 3, "lost": 1},
    oldest_ms=NOW - 20_000,
)


def up(bookie: str, *, writable: bool = True, wish: Wish = Wish.SERVE) -> BookieFacts:
    address = BookieAddress(bookie, f"{bookie}:1", writable=writable)
    return BookieFacts(bookie, address, standing=Standing(wish))


def test_every_figure_is_in_the_table_and_the_other_way_round() -> None:
    found = figures(REPORT, Switch(), NOW)
    assert found.keys() == ROWS.keys()
    for name, values in found.items():
        assert {len(labels) for labels in values} == {len(ROWS[name].labels)}, name
        for labels in values:
            assert name == "quire_bookies" or all(
                f"`{each}`" in ROWS[name].meaning for each in labels
            )


def test_figures_say_what_the_report_says() -> None:
    found = figures(REPORT, Switch(), NOW)
    assert found["quire_healing_summary_age_seconds"] == {(): 5.0}
    assert found["quire_healing_oldest_seconds"] == {(): 20.0}
    assert found["quire_healing_requests_open"] == {(): 4.0}
    assert found["quire_healing_requests_ended_total"] == {(): 8.0}
    assert found["quire_auditor_round_seconds"] == {(): 0.25}
    assert found["quire_auditor_index_ready"] == {(): 1.0}
    assert found["quire_bookies"] == {("up",): 3.0, ("lost",): 1.0}
    ledgers = found["quire_healing_ledgers"]
    assert (ledgers[("short",)], ledgers[("no-copy",)]) == (7.0, 0.0)
    assert sum(found["quire_healing_state"].values()) == found["quire_healing_state"][("moving",)]
    assert found["quire_healing_paused"] == {(): 0.0}


def test_an_index_that_is_being_built_is_not_ready() -> None:
    building = replace(REPORT, state=State.BUILDING, indexed=10)
    assert figures(building, Switch(), NOW)["quire_auditor_index_ready"] == {(): 0.25}
    empty = replace(building, ledgers=0, indexed=0)
    assert figures(empty, Switch(), NOW)["quire_auditor_index_ready"] == {(): 0.0}


def test_without_a_report_its_age_is_infinite_and_nothing_else_is_told() -> None:
    pause = Pause("drill", "anna", NOW - 1000, NOW + 1000)
    found = figures(None, Switch(pause), NOW)
    assert found["quire_healing_summary_age_seconds"] == {(): math.inf}
    assert found["quire_healing_paused"] == {(): 1.0}
    assert len(found) == 2
    assert figures(None, Switch(pause), NOW + 1000)["quire_healing_paused"] == {(): 0.0}


def test_the_report_of_an_older_program_has_no_totals() -> None:
    found = figures(replace(REPORT, totals={}, bookies={}, oldest_ms=0), Switch(), NOW)
    assert found["quire_healing_rounds_total"] == {(): 0.0}
    assert found["quire_healing_oldest_seconds"] == {(): 0.0}


def test_figures_are_read_from_the_store() -> None:
    async def main() -> None:
        store = MemoryStore()
        pause = Pause("drill", "anna", NOW, NOW + 60_000)
        assert (await read_figures(store, lambda: NOW / 1000)).keys() == {
            *("quire_healing_paused", "quire_healing_summary_age_seconds")
        }
        await store.create(HEALING_SUMMARY, REPORT.encode())
        await change_switch(store, lambda it: it.paused(pause))
        found = await read_figures(store, lambda: NOW / 1000)
        assert found == figures(REPORT, Switch(pause), NOW)

    virtually(main)


def test_bookies_are_counted_by_the_auditors_own_delay() -> None:
    facts = [
        up("a"),
        up("b", writable=False),
        up("c", wish=Wish.DRAIN),
        *map(BookieFacts, ("away", "gone", "lost", "new", "silent")),
    ]
    missing = Missing(
        lost=frozenset({"gone", "lost"}), gone=frozenset({"gone"}), away=frozenset({"away"})
    )
    found = by_state(facts, missing, NOW)
    assert found == {
        "up": 1,
        "read-only": 1,
        "draining": 1,
        "away": 1,
        "gone": 1,
        "lost": 1,
        "silent": 2,
    }
    assert by_state([], Missing(), NOW).keys() == found.keys()


def test_an_auditor_counts_a_loss_its_requests_and_a_return() -> None:
    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            kept = made.cluster.bookies["b0"]
            await made.lose("b0")
            hurt = len(await made.short())
            await made.until(audit, lambda it: it.lost == ("b0",) and bool(it.oldest_ms))
            found = await made.summary()
            assert found.bookies == {**by_state([], Missing(), 0), "up": 4, "lost": 1}
            await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)
            healed = audit.tally
            assert (healed.bookies_lost, healed.bookies_returned) == (1, 0)
            assert (healed.requests, healed.requests_ended) == (hurt, hurt)
            assert (await made.summary()).oldest_ms == 0
            await made.cluster.register("b0")
            made.cluster.bookies["b0"] = kept
            await made.work(audit, DELAY)
            assert (await made.summary()).totals["bookies_returned"] == 1
            assert (await made.summary()).totals["bookies_lost"] == 1

    virtually(main)


def test_requests_that_a_lost_bookie_has_not_carried_out_are_withdrawn() -> None:
    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            going = Go("anna", 0, ("b0", "b1"))
            await change_switch(made.cluster.store, lambda it: it.going(going))
            await made.lose("b0")
            await made.work(audit, DELAY + 20.0, copies=False)
            asked = len((await StoredOrders(made.cluster.store, made.records, "b1").read()).open)
            assert asked
            await made.lose("b1")
            await made.work(audit, DELAY + 20.0, copies=False)
            tally, left = audit.tally, len(await made.requests())
            assert tally.requests_withdrawn == asked
            assert tally.requests - tally.requests_ended - asked == left

    virtually(main)
